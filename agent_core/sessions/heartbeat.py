"""A worker's heartbeat: it keeps the worker's leases alive, and ends its runs when it cannot.

The store believes a worker alive for the lease time L after its last heartbeat. Then another worker may take its
sessions over. Two workers that both believe they hold a session would both call tools, so the owner must give up
first. With R, the last good heartbeat:

    R ........ R + L/3 ........ R + 2L/3 ........ R + L
    renewed    renew again      the owner gives   others may
                                up: no call       acquire
                                begins

Three rules make that hold.

R is read before the renewal is sent, and not when its answer comes. The store counts from the moment when it wrote,
which lies between the two. The earlier clock is the safe one: an answer that took L/2 does not stretch the lease.

The clock is the monotonic one. It goes on while the process is stopped (SIGSTOP, a laptop's lid), and nobody can set
it back. The store's clock is its own. Only spans of time are compared, never times of two machines.

A renewal looks back before it counts. A process that slept longer than 2L/3 finds its timer due first and would renew
at once, as if nothing had been missed. So `_renew` calls `_look` first, which ends the runs of before.

A renewal's answer brings the cancels that other workers have asked for. So the renewal is a task of its own: its answer
is heard also if whoever waited for it has timed out.
"""

import asyncio
import logging
from collections.abc import Callable
from time import monotonic

from agent_core.errors import RunError
from agent_core.sessions.store import Cancel, LeaseLost, Store

logger = logging.getLogger(__name__)


SIGNING_OFF = 1.0
"""Seconds to sign off at the store. A server that ends does not wait long, and the leases expire anyway."""


class Heartbeat:
    """The heartbeat of one owner on one store.

    - lease_seconds: the store's lease time; a third of it is the time between two heartbeats
    - busy: whether a run is under way; without one the heart may stop
    - cancel: called for each run that somebody wants cancelled, at each heartbeat until its lease ends
    - lost: called once when the worker must assume its leases lost
    """

    def __init__(
        self,
        store: Store,
        owner: str,
        lease_seconds: float,
        *,
        busy: Callable[[], bool],
        cancel: Callable[[Cancel], None],
        lost: Callable[[], None],
    ) -> None:
        self._store = store
        self._owner = owner
        self._every = lease_seconds / 3
        self._give_up = lease_seconds * 2 / 3
        self._busy = busy
        self._cancel = cancel
        self._lost = lost
        self._renewed = -lease_seconds  # as if long ago
        self._known = False
        self._given_up = False
        self._task: asyncio.Task[None] | None = None
        self._renewing: set[asyncio.Task[None]] = set()

    def check(self) -> None:
        """Raise LeaseLost if the last good heartbeat is too long ago."""
        if monotonic() - self._renewed > self._give_up:
            raise LeaseLost

    async def ensure(self) -> None:
        """Renew now if it is due, and start the heartbeat if it is not running. Raises RunError `store_unavailable`."""
        if monotonic() - self._renewed > self._every:
            await self._renew()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._beat())

    async def aclose(self) -> None:
        """Stop the heartbeat, and release the sessions that are still held."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        for renewing in self._renewing:
            renewing.cancel()
        if self._known:
            try:
                async with asyncio.timeout(min(self._every, SIGNING_OFF)):
                    await self._store.retire(self._owner)
            except Exception as error:
                logger.warning("the worker could not be signed off (%s); its leases will expire", type(error).__name__)

    async def _renew(self) -> None:
        began = monotonic()
        self._known = True
        # Look first: if the process was stopped, this renewal would hide that the last one is too long ago.
        self._look()
        # A task of its own, so that a cancel is heard also if nobody waits for the answer any more.
        task = asyncio.get_running_loop().create_task(self._hear())
        self._renewing.add(task)
        task.add_done_callback(self._forget)
        await asyncio.shield(task)
        self._renewed, self._given_up = began, False

    async def _hear(self) -> None:
        for each in await self._store.renew(self._owner):
            self._cancel(each)

    def _forget(self, task: "asyncio.Task[None]") -> None:
        self._renewing.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits has it; if nobody does, asyncio must not report it as never retrieved

    def _look(self) -> None:
        """Assume the leases lost if the heartbeat is running and the last good one is too long ago."""
        beating = self._task is not None and not self._task.done()
        if beating and not self._given_up and monotonic() - self._renewed > self._give_up:
            self._given_up = True
            self._lost()

    async def _beat(self) -> None:
        await asyncio.sleep(self._every)
        while self._busy():
            try:
                async with asyncio.timeout(self._every):
                    await self._renew()
                await asyncio.sleep(self._every)
            except Exception as error:
                logger.warning(
                    "the heartbeat failed (%s)", error.code if isinstance(error, RunError) else type(error).__name__
                )
                self._look()
                await asyncio.sleep(self._every / 10)

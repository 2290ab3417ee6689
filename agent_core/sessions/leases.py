"""One worker's leases: how it becomes a session's writer, also while another worker still is."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from agent_core.errors import RunError
from agent_core.names import SessionKey
from agent_core.sessions.heartbeat import Heartbeat
from agent_core.sessions.store import Lease, Store
from agent_core.sessions.writer import SAVING, Writer

logger = logging.getLogger(__name__)

POLL = 0.05
"""Seconds before a session that another worker holds is tried again; each wait is twice as long, up to 1 s."""


T = TypeVar("T")


async def answer_of(asked: Awaitable[T]) -> T:
    """What the store answers. Raises RunError `store_unavailable` where it is silent for SAVING seconds."""
    try:
        async with asyncio.timeout(SAVING):
            return await asked
    except TimeoutError as error:
        raise RunError("store_unavailable", detail="no answer in time") from error


class Leases:
    """Acquires sessions for one owner. Its heartbeat's heart beats as long as something is held."""

    def __init__(self, store: Store, owner: str, heartbeat: Heartbeat | None = None) -> None:
        self._store = store
        self._owner = owner
        self._heartbeat = heartbeat
        self._late: dict[SessionKey, asyncio.Task[None]] = {}

    async def aclose(self) -> None:
        """Wait for what is still being given free, and sign off."""
        if self._late:
            await asyncio.wait(self._late.values(), timeout=SAVING)
        if self._heartbeat is not None:
            await self._heartbeat.aclose()

    def check(self) -> None:
        """Raise LeaseLost where this worker has to take its leases for lost."""
        if self._heartbeat is not None:
            self._heartbeat.check()

    async def open(self, key: SessionKey, *, wait: float, waiting: Callable[[], None] = lambda: None) -> Writer:
        """Become the session's writer and read it.

        While another worker holds it, wait up to `wait` seconds; `waiting` is called when that begins. Raises
        RunError: `session_busy_timeout` (`session_busy` where it must not wait at all), `store_unavailable`.
        """
        lease = await self._acquire(key, wait, waiting)
        try:
            return Writer(self._store, lease, await answer_of(self._store.load(key)))
        except BaseException:
            await self.release(lease)
            raise

    async def release(self, lease: Lease) -> None:
        """Give the session free. What fails here is only logged: the lease will expire."""
        try:
            async with asyncio.timeout(SAVING):
                await self._store.release(lease)
        except Exception as error:
            logger.warning("a session could not be given free (%s); its lease will expire", type(error).__name__)

    async def _acquire(self, key: SessionKey, wait: float, waiting: Callable[[], None]) -> Lease:
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + wait, POLL
        while True:
            lease = await answer_of(self._try(key))
            if lease is not None:
                return lease
            if wait <= 0:
                raise RunError("session_busy")
            waiting()
            if loop.time() + pause > until:
                raise RunError("session_busy_timeout")
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)

    async def _try(self, key: SessionKey) -> Lease | None:
        """Acquire; a session that is acquired when nobody waits for it any more is given free again, and before
        that nobody here acquires it anew: the late acquisition would overtake it."""
        if self._heartbeat is not None:
            await self._heartbeat.ensure()
        if key in self._late:
            await asyncio.wait({self._late[key]}, timeout=SAVING / 2)  # and no longer: it may never come
        task = asyncio.get_running_loop().create_task(self._store.acquire(key, self._owner))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._late[key] = late = asyncio.get_running_loop().create_task(self._give_back(task))
            late.add_done_callback(lambda done: self._late.pop(key) if self._late.get(key) is done else None)
            raise

    async def _give_back(self, acquiring: "asyncio.Task[Lease | None]") -> None:
        await asyncio.wait({acquiring})
        if not acquiring.cancelled() and acquiring.exception() is None and (lease := acquiring.result()) is not None:
            await self.release(lease)

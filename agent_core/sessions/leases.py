"""One worker's leases: how the worker becomes a session's writer, and waits while another worker is.

A caller may be cancelled while the store still works on its acquisition. The store may then give a lease that nobody
waits for. So `_give_back` waits for it in a task of its own and releases it. Until that is done, nobody here acquires
the same session again. Otherwise the late acquisition could come second and fence off the new writer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TypeVar

from agent_core.errors import RunError
from agent_core.names import SessionKey
from agent_core.sessions.entries import Entry
from agent_core.sessions.folds import Fold
from agent_core.sessions.heartbeat import Heartbeat
from agent_core.sessions.store import Lease, Mark, Opened, Store
from agent_core.sessions.writer import SAVING, Writer

logger = logging.getLogger(__name__)

POLL = 0.05
"""Seconds to wait before trying again, while another worker holds the session. Each wait is twice the last, up to 1
s."""


T = TypeVar("T")
Held = TypeVar("Held", Opened, Lease)


async def answer_of(asked: Awaitable[T]) -> T:
    """The store's answer. Raises RunError `store_unavailable` if the store is silent for SAVING seconds."""
    try:
        async with asyncio.timeout(SAVING):
            return await asked
    except TimeoutError as error:
        raise RunError("store_unavailable", detail="no answer in time") from error


class Leases:
    """Acquires and releases sessions for one owner, and keeps its heartbeat going."""

    def __init__(self, store: Store, owner: str, heartbeat: Heartbeat | None = None) -> None:
        self._store = store
        self._owner = owner
        self._heartbeat = heartbeat
        self._late: dict[SessionKey, asyncio.Task[None]] = {}

    async def aclose(self) -> None:
        """Wait for the leases that are still being given back, and end the heartbeat."""
        if self._late:
            await asyncio.wait(self._late.values(), timeout=SAVING)
        if self._heartbeat is not None:
            await self._heartbeat.aclose()

    def check(self) -> None:
        """Raise LeaseLost if this worker must assume its leases lost."""
        if self._heartbeat is not None:
            self._heartbeat.check()

    async def open(
        self,
        key: SessionKey,
        *,
        wait: float,
        waiting: Callable[[], None] = lambda: None,
        known: Mark | None = None,
    ) -> Opened:
        """Become the session's writer and read it, the entries up to `known` aside (Store.open).

        While another worker holds the session, wait up to `wait` seconds and call `waiting` before each wait. Raises
        RunError: `session_busy_timeout` (`session_busy` if `wait` is 0), `store_unavailable`.
        """
        return await self._wait(key, lambda: self._store.open(key, self._owner, known), wait, waiting)

    async def acquire(self, key: SessionKey, *, wait: float) -> Lease:
        """Become the session's writer, as `open` does, without reading it."""
        return await self._wait(key, lambda: self._store.acquire(key, self._owner), wait, lambda: None)

    async def load(self, key: SessionKey) -> Sequence[Entry]:
        """All entries of the session. Raises RunError `store_unavailable`."""
        return await answer_of(self._store.load(key))

    def writer(self, lease: Lease, fold: Fold | None = None) -> Writer:
        """The one writer of a lease. `fold` stands at the lease's head."""
        return Writer(self._store, lease, fold)

    async def release(self, lease: Lease) -> None:
        """Release the session. A failure is only logged, because the lease will expire."""
        try:
            async with asyncio.timeout(SAVING):
                await self._store.release(lease)
        except Exception as error:
            logger.warning("a session could not be released (%s); its lease will expire", type(error).__name__)

    async def _wait(
        self,
        key: SessionKey,
        ask: Callable[[], Coroutine[None, None, Held | None]],
        wait: float,
        waiting: Callable[[], None],
    ) -> Held:
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + wait, POLL
        while True:
            held = await answer_of(self._try(key, ask))
            if held is not None:
                return held
            if wait <= 0:
                raise RunError("session_busy")
            waiting()
            if loop.time() + pause > until:
                raise RunError("session_busy_timeout")
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)

    async def _try(self, key: SessionKey, ask: Callable[[], Coroutine[None, None, Held | None]]) -> Held | None:
        """Ask the store once. None while another worker holds the session. See the top of this file."""
        if self._heartbeat is not None:
            await self._heartbeat.ensure()
        if key in self._late:
            await asyncio.wait({self._late[key]}, timeout=SAVING / 2)  # no longer: it may never come
        task = asyncio.get_running_loop().create_task(ask())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._late[key] = late = asyncio.get_running_loop().create_task(self._give_back(task))
            late.add_done_callback(lambda done: self._late.pop(key) if self._late.get(key) is done else None)
            raise

    async def _give_back(self, asking: "asyncio.Task[Held | None]") -> None:
        await asyncio.wait({asking})
        if not asking.cancelled() and asking.exception() is None and (held := asking.result()) is not None:
            await self.release(held.lease if isinstance(held, Opened) else held)

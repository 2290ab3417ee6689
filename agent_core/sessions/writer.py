"""The one writer of a lease.

Everybody who writes under a lease, all lanes of a run included, appends through it. So one write goes after another,
each on the head that the one before has left, and what is in memory is always what is stored.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from agent_core.errors import RunError
from agent_core.sessions.entries import Entry
from agent_core.sessions.store import Lease, Store

SAVING = 10.0
"""Seconds that the store may take for one answer, and a run to pair, save and release at its end."""


def _nothing() -> None:
    pass


class Writer:
    """Appends under a lease. `entries` are the session's as they stood when the lease was acquired; `titled` says that
    a person has named the session since."""

    def __init__(self, store: Store, lease: Lease, entries: Sequence[Entry] = ()) -> None:
        self.lease = lease
        self.entries = entries
        self.titled = False
        self.before: Callable[[Sequence[Entry]], Awaitable[None]] | None = None
        self._store = store
        self._deferred: list[Entry] = []
        self._turn = asyncio.Lock()

    def defer(self, *entries: Entry) -> None:
        """Store these entries in front of the next that are appended."""
        self._deferred += entries

    async def append(self, *entries: Entry, release: bool = False) -> None:
        """Append entries, where there are any: see `write`."""
        if entries or self._deferred or release:
            await self.write(lambda: entries, release=release)

    async def write(
        self,
        compose: Callable[[], Sequence[Entry]],
        stored: Callable[[], None] = _nothing,
        *,
        release: bool = False,
    ) -> None:
        """Append entries behind those that were deferred; with `release`, release the session with them.

        `compose` makes the entries when all writes before are done. `before`, if set, is awaited with them: what it
        raises is the write's failure. `stored` is called when they are on disk and before the next write begins, also
        where the caller waits no more.

        Raises RunError: `worker_lost`, or `store_unavailable` for whatever else goes wrong in the store, silence for
        SAVING seconds included. What was deferred is then still to be stored.
        """
        try:
            async with asyncio.timeout(SAVING):
                await self._turn.acquire()
                task = asyncio.get_running_loop().create_task(self._write(compose, stored, release))
                # A cancelled caller does not end the write: the next one needs the head that this one leaves.
                task.add_done_callback(self._written)
                await asyncio.shield(task)
        except RunError:
            raise
        except Exception as error:
            raise RunError("store_unavailable", detail=type(error).__name__) from error

    async def _write(self, compose: Callable[[], Sequence[Entry]], stored: Callable[[], None], release: bool) -> None:
        entries = compose()
        if self.before is not None:
            await self.before(entries)
        deferred = len(self._deferred)
        await self._store.append(self.lease, (*self._deferred, *entries), release=release)
        del self._deferred[:deferred]
        stored()

    def _written(self, task: "asyncio.Task[None]") -> None:
        self._turn.release()
        if not task.cancelled():
            task.exception()  # the caller has it; where nobody waits, asyncio must not report it as never retrieved

    async def quiet(self) -> None:
        """Wait until no write is under way, also none that nobody waits for."""
        async with self._turn:
            pass

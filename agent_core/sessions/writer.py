"""The one writer of a lease.

Everybody who writes under a lease appends through it, all lanes of a run too. So writes go one after another, each on
the head that the write before has left. And memory changes only after the disk: `stored` is called when the entries are
on disk.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from agent_core.errors import RunError
from agent_core.sessions.entries import Entry
from agent_core.sessions.kinds import StartedBody
from agent_core.sessions.store import Lease, Store

SAVING = 10.0
"""Seconds that the store may take for one answer. A run also has so long to pair, save and release at its end."""


def _nothing() -> None:
    pass


class Writer:
    """Appends under a lease. `entries` are the session's entries when the lease was acquired. `titled` says that a
    person has named the session since."""

    def __init__(self, store: Store, lease: Lease, entries: Sequence[Entry] = ()) -> None:
        self.lease = lease
        self.entries = entries
        self.titled = False
        self.before_calls: Callable[[], Awaitable[None]] | None = None
        self._store = store
        self._deferred: list[Entry] = []
        self._turn = asyncio.Lock()

    def defer(self, *entries: Entry) -> None:
        """Store these entries with the next append, in front of its own."""
        self._deferred += entries

    async def append(self, *entries: Entry, release: bool = False) -> None:
        """Append the entries, as `write` does. Without entries it does nothing, unless some were deferred or `release`
        is set."""
        if entries or self._deferred or release:
            await self.write(lambda: entries, release=release)

    async def write(
        self,
        compose: Callable[[], Sequence[Entry]],
        stored: Callable[[], None] = _nothing,
        *,
        release: bool = False,
    ) -> None:
        """Append entries behind the deferred ones. With `release`, release the session in the same step.

        - compose: makes the entries, after all writes before are done
        - stored: called when the entries are on disk, and before the next write begins; also if the caller no longer
          waits
        - `before_calls`, if set, is awaited before calls are stored as started; if it raises, the write fails

        Raises RunError: `worker_lost`, or `store_unavailable` for all other failures of the store and for silence of
        SAVING seconds. The deferred entries then stay deferred.
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
        if self.before_calls is not None and any(entry.kind == StartedBody.kind for entry in entries):
            await self.before_calls()
        deferred = len(self._deferred)
        await self._store.append(self.lease, (*self._deferred, *entries), release=release)
        del self._deferred[:deferred]
        stored()

    def _written(self, task: "asyncio.Task[None]") -> None:
        self._turn.release()
        if not task.cancelled():
            task.exception()  # the caller has it; if nobody waits, asyncio must not report it as never retrieved

    async def quiet(self) -> None:
        """Wait until no write is under way, also none that nobody waits for."""
        async with self._turn:
            pass

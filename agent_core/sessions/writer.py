"""The one writer of a lease.

Everybody who writes under a lease appends through it, all lanes of a run too. So writes go one after another, each on
the head that the write before has left. And memory changes only after the disk: the fold takes in what is on disk, and
then `stored` is called.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from agent_core.errors import RunError
from agent_core.sessions.entries import Addition
from agent_core.sessions.folds import Fold
from agent_core.sessions.kinds import StartedBody
from agent_core.sessions.store import Lease, Store

SAVING = 10.0
"""Seconds that the store may take for one answer. A run also has so long to pair, save and release at its end."""

SLICE = 1_000
"""Entries that are taken into the fold at once. Between two slices, others have their turn."""


def _nothing() -> None:
    pass


class Writer:
    """Appends under a lease. `fold` takes in all that is appended; it stands at the lease's head."""

    def __init__(self, store: Store, lease: Lease, fold: Fold | None = None) -> None:
        self.lease = lease
        self.before_calls: Callable[[], Awaitable[None]] | None = None
        self._fold = fold
        self._store = store
        self._deferred: list[Addition] = []
        self._turn = asyncio.Lock()

    @property
    def fold(self) -> Fold:
        """How the session stands. Raises RuntimeError where nobody wanted to know."""
        if self._fold is None:
            raise RuntimeError("the session was acquired without being read")
        return self._fold

    def rest(self) -> Fold | None:
        """The fold, with its mark. From now on it takes nothing in. None if a write is still under way, or has failed
        to be taken in: then nobody knows how the session stands."""
        fold, self._fold = self._fold, None
        if fold is None or self._turn.locked() or fold.head != self.lease.head:
            return None
        fold.mark = self.lease.mark
        return fold

    def defer(self, *additions: Addition) -> None:
        """Store these entries with the next append, in front of its own."""
        self._deferred += additions

    async def append(self, *additions: Addition, release: bool = False) -> None:
        """Append the entries, as `write` does. Without entries it does nothing, unless some were deferred or `release`
        is set."""
        if additions or self._deferred or release:
            await self.write(lambda: additions, release=release)

    async def write(
        self,
        compose: Callable[[], Sequence[Addition]],
        stored: Callable[[], None] = _nothing,
        *,
        release: bool = False,
    ) -> None:
        """Append entries behind the deferred ones. With `release`, release the session in the same step.

        - compose: makes the entries, after all writes before are done
        - stored: called when the entries are on disk and in the fold, and before the next write begins; also if the
          caller no longer waits
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

    async def _write(
        self, compose: Callable[[], Sequence[Addition]], stored: Callable[[], None], release: bool
    ) -> None:
        additions = compose()
        if self.before_calls is not None and any(each.entry.kind == StartedBody.kind for each in additions):
            await self.before_calls()
        deferred = len(self._deferred)
        additions = (*self._deferred, *additions)
        await self._store.append(self.lease, [each.entry for each in additions], release=release)
        del self._deferred[:deferred]
        for start in range(0, len(additions), SLICE):
            if start:
                await asyncio.sleep(0)  # a whole conversation that a client has brought
            if self._fold is not None:
                self._fold.add(additions[start : start + SLICE])
        stored()

    def _written(self, task: "asyncio.Task[None]") -> None:
        self._turn.release()
        if not task.cancelled():
            task.exception()  # the caller has it; if nobody waits, asyncio must not report it as never retrieved

    async def quiet(self) -> None:
        """Wait until no write is under way, also none that nobody waits for."""
        async with self._turn:
            pass

"""Opens sessions for those who go on with their histories, and keeps what they know for the next.

A fold is taken by one run, and put back when the run has released the session. Whatever happened meanwhile (another
worker's runs, a deletion, an import), the store tells by the fold's mark, and what is new is read then.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager

from agent_core.aside import Aside
from agent_core.names import SessionKey
from agent_core.sessions.entries import Entry
from agent_core.sessions.folds import Fold, Folds, Viewer
from agent_core.sessions.leases import Leases, answer_of
from agent_core.sessions.standing import Standing
from agent_core.sessions.store import Store
from agent_core.sessions.writer import Writer


class Histories:
    """The histories of a store's sessions."""

    def __init__(self, store: Store, aside: Aside, folds: Folds | None = None) -> None:
        self.folds = Folds() if folds is None else folds
        self._store = store
        self._aside = aside

    async def open(
        self,
        leases: Leases,
        key: SessionKey,
        of: Viewer,
        *,
        wait: float,
        waiting: Callable[[], None] = lambda: None,
    ) -> Writer:
        """Become the session's writer, and know how it stands for this agent and lane (`Writer.fold`).

        Raises as Leases.open, and msgspec.MsgspecError for an entry that cannot be read.
        """
        kept = self.folds.take(key, of)
        try:
            opened = await leases.open(key, wait=wait, waiting=waiting, known=None if kept is None else kept.mark)
        except BaseException:
            if kept is not None:
                self.folds.put(key, kept)
            raise
        try:
            fold = await self._go_on(kept if opened.after else None, of, opened.entries)
        except BaseException:
            await leases.release(opened.lease)
            raise
        return leases.writer(opened.lease, fold)

    def keep(self, writer: Writer) -> None:
        """Its session is released: keep what the writer knows of it."""
        fold = writer.rest()
        if fold is not None and fold.head:
            self.folds.put(writer.lease.key, fold)

    @asynccontextmanager
    async def reading(self, key: SessionKey, of: Viewer) -> AsyncGenerator[Standing, None]:
        """How the session stands, without acquiring it. It must not be changed. Raises as `open`."""
        kept = self.folds.take(key, of)
        try:
            read = await answer_of(self._store.read(key, None if kept is None else kept.mark))
        except BaseException:
            if kept is not None:
                self.folds.put(key, kept)
            raise
        fold = await self._go_on(kept if read.after else None, of, read.entries)
        fold.mark = read.mark
        try:
            yield fold.standing
        finally:
            if fold.head:
                self.folds.put(key, fold)

    async def _go_on(self, kept: Fold | None, of: Viewer, entries: Sequence[Entry]) -> Fold:
        fold = Fold(of) if kept is None else kept
        if entries:
            await self._aside(fold.work(entries), fold.read, entries)
        fold.mark = None
        return fold

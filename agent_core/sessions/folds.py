"""Folds that are kept: how sessions stand that were used here, so that the next run need not read them again.

Entries are only ever added to a session. So a fold up to an entry stays right, and only what was added since is taken
in. Whether it still is the same session, the store tells by the fold's mark.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from agent_core.names import SessionKey
from agent_core.sessions.entries import Addition, Entry, body_of, weight_of
from agent_core.sessions.history import take, take_all
from agent_core.sessions.standing import History, Standing
from agent_core.sessions.store import Mark

MOST_KEPT = 32 * 1024 * 1024
"""Bytes that all kept folds together may have, as far as they are counted."""

EMPTY, ENTRY, WIDE = 4_000, 700, 4
"""Bytes of a fold without entries, and of an entry in it without its body. A body that is not all ASCII counts WIDE
times: one such character may make each of its text's characters take up so many bytes."""

Viewer = tuple[str, str]
"""An agent and its lane."""


@dataclass(slots=True)
class Fold:
    """A session as an agent in a lane sees it.

    - head: the number of the last entry that was taken; `mark` says so to the store, None while it is written to
    - size: its bytes, as far as they are counted
    """

    of: Viewer
    standing: Standing = field(init=False)
    head: int = 0
    size: int = EMPTY
    mark: Mark | None = None

    def __post_init__(self) -> None:
        self.standing = Standing({self.of})

    @property
    def history(self) -> History:
        return self.standing.of(*self.of)

    def work(self, entries: Collection[Entry]) -> int:
        """The work to take these entries in, as a weight for `Aside`."""
        return weight_of(entries, self.head)

    def read(self, entries: Sequence[Entry]) -> None:
        """Take stored entries in. Raises msgspec.MsgspecError for a body that does not fit its kind; then the fold is
        of no more use."""
        take_all(self.standing, entries)
        self._count(entries)

    def add(self, additions: Sequence[Addition]) -> None:
        """Take entries in that were stored now. Raises as `read`."""
        for seq, (entry, body) in enumerate(additions, self.head + 1):
            take(self.standing, entry, body_of(entry) if body is None else body, seq)
        self._count([each.entry for each in additions])

    def _count(self, entries: Sequence[Entry]) -> None:
        self.head += len(entries)
        bodies = (each.body for each in entries)
        self.size += ENTRY * len(entries) + sum(len(each) * (1 if each.isascii() else WIDE) for each in bodies)


class Folds:
    """The kept folds, at most `most` bytes of them. The sessions that were used longest ago go first.

    Whoever takes one has it alone: nobody else gets it until it is put back.
    """

    def __init__(self, most: int = MOST_KEPT) -> None:
        self.size = 0
        self._most = most
        self._kept: OrderedDict[SessionKey, dict[Viewer, Fold]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._kept.values()))

    def take(self, key: SessionKey, of: Viewer) -> Fold | None:
        """The fold, which is no longer kept, or None."""
        folds = self._kept.get(key)
        fold = None if folds is None else folds.pop(of, None)
        if fold is not None:
            self.size -= fold.size
            if not folds:
                del self._kept[key]
        return fold

    def put(self, key: SessionKey, fold: Fold) -> None:
        """Keep the fold, unless one is kept that has more entries. Its `mark` must be set."""
        other = self.take(key, fold.of)
        if other is not None and other.head > fold.head:
            fold = other
        self._kept.setdefault(key, {})[fold.of] = fold
        self._kept.move_to_end(key)
        self.size += fold.size
        while self.size > self._most:
            self._drop(self._kept.popitem(last=False)[1].values())

    def forget(self, key: SessionKey) -> None:
        """Keep nothing of this session."""
        self._drop(self._kept.pop(key, {}).values())

    def _drop(self, folds: Iterable[Fold]) -> None:
        self.size -= sum(each.size for each in folds)

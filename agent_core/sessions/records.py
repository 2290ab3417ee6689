"""Records: what is kept beside the sessions for a while, under a name of its user's. A server keeps there which
request was answered by what, and what clients that name no session do not have of their conversation.

A record has a time at which it is forgotten. All records of one user, and all records together, have a bound in
bytes: beyond it the oldest go first. Somebody may be at work on a record; while its owner is alive, it stays.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import time
from typing import Protocol

MOST_OF_USER = 64 * 1024 * 1024
"""Bytes of one user's records."""

MOST = 256 * 1024 * 1024
"""Bytes of all records."""

BESIDE = 512
"""What a record takes beside its value, in bytes: names, times, a seal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is kept. `owner` is who works on it, None where nobody does or where whoever did is not alive any more."""

    value: bytes
    owner: str | None = None


class Records(Protocol):
    """The protocol. All methods raise RunError `store_unavailable` where the store cannot answer. What they wrote is
    on disk when they return."""

    async def claim(
        self, user_id: str, name: str, value: bytes, *, owner: str, seconds: float, instead: bytes | None = None
    ) -> Record | None:
        """Keep the value for so long and become its owner, unless something is kept under this name: what that is;
        None where the name was free. With `instead`, this value counts as nothing."""
        ...

    async def keep(
        self,
        user_id: str,
        name: str,
        value: bytes,
        *,
        seconds: float,
        session_id: str = "",
        held_by: str | None = None,
        owner: str | None = None,
    ) -> bool:
        """Keep the value for so long in place of what was there. With `held_by`, only where that owner works on it:
        False where it does not. `owner` works on it from now on. It goes with the session, where one is named."""
        ...

    async def recall(self, user_id: str, names: Sequence[str]) -> Mapping[str, Record]:
        """What is kept under these names, without those under which there is nothing."""
        ...

    async def discard(self, user_id: str, name: str, *, held_by: str | None = None) -> None:
        """Keep nothing under the name. `held_by` as in keep."""
        ...

    async def expire(self) -> int:
        """Remove what is over its time. Returns how many records."""
        ...


@dataclass(slots=True)
class _Kept:
    value: bytes
    until: float
    session_id: str
    owner: str | None

    @property
    def size(self) -> int:
        return BESIDE + len(self.value)


class InMemoryRecords:
    """Records in a dict. Their only possible owner is this process, which is alive."""

    def __init__(self, *, most_of_user: int = MOST_OF_USER, most: int = MOST, now: Callable[[], float] = time) -> None:
        self._most_of_user = most_of_user
        self._most = most
        self._now = now
        self._kept: dict[tuple[str, str], _Kept] = {}  # the oldest first
        self._of_user: dict[str, int] = {}
        self._size = 0

    async def claim(
        self, user_id: str, name: str, value: bytes, *, owner: str, seconds: float, instead: bytes | None = None
    ) -> Record | None:
        found = self._find(user_id, name)
        if found is not None and found.value != instead:
            return Record(value=found.value, owner=found.owner)
        self._put(user_id, name, _Kept(value, self._now() + seconds, "", owner))
        return None

    async def keep(
        self,
        user_id: str,
        name: str,
        value: bytes,
        *,
        seconds: float,
        session_id: str = "",
        held_by: str | None = None,
        owner: str | None = None,
    ) -> bool:
        if not self._is_held(user_id, name, held_by):
            return False
        self._put(user_id, name, _Kept(value, self._now() + seconds, session_id, owner))
        return True

    async def recall(self, user_id: str, names: Sequence[str]) -> Mapping[str, Record]:
        found = {name: self._find(user_id, name) for name in names}
        return {name: Record(value=each.value, owner=each.owner) for name, each in found.items() if each is not None}

    async def discard(self, user_id: str, name: str, *, held_by: str | None = None) -> None:
        if self._is_held(user_id, name, held_by):
            self._drop((user_id, name))

    async def expire(self) -> int:
        over = [key for key, each in self._kept.items() if each.until <= self._now()]
        for key in over:
            self._drop(key)
        return len(over)

    def forget_session(self, user_id: str, session_id: str) -> None:
        """The session was deleted."""
        for key, each in list(self._kept.items()):
            if each.session_id == session_id and key[0] == user_id:
                self._drop(key)

    def _find(self, user_id: str, name: str) -> _Kept | None:
        found = self._kept.get((user_id, name))
        return found if found is not None and found.until > self._now() else None

    def _is_held(self, user_id: str, name: str, owner: str | None) -> bool:
        if owner is None:
            return True
        found = self._find(user_id, name)
        return found is not None and found.owner == owner

    def _put(self, user_id: str, name: str, kept: _Kept) -> None:
        self._drop((user_id, name))
        self._kept[user_id, name] = kept
        self._count(user_id, kept.size)
        for key, each in list(self._kept.items()):
            if self._of_user[user_id] <= self._most_of_user and self._size <= self._most:
                return
            if each.owner is None and (self._size > self._most or key[0] == user_id):
                self._drop(key)

    def _drop(self, key: tuple[str, str]) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._count(key[0], -kept.size)

    def _count(self, user_id: str, change: int) -> None:
        self._size += change
        self._of_user[user_id] = self._of_user.get(user_id, 0) + change
        if not self._of_user[user_id]:
            del self._of_user[user_id]

"""Records: values that are kept beside the sessions for some time, each under a name of its user.

A server keeps there which run has answered which request. It also keeps the turns that clients which name no session
were not shown.

A record expires at a set time. The records of one user have a bound in bytes, and so have all records together: beyond
it the oldest go first. A record may have an owner, who works on it. It stays while its owner is alive.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import time
from typing import Protocol

MOST_OF_USER = 64 * 1024 * 1024
"""Bytes of one user's records at most."""

MOST = 256 * 1024 * 1024
"""Bytes of all records at most."""

BESIDE = 512
"""Bytes of a record without its value: its names, times and seal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A kept value. `owner` is the worker that works on it; None if nobody does, or if that worker is no longer
    alive."""

    value: bytes
    owner: str | None = None


class Records(Protocol):
    """The protocol. All methods raise RunError `store_unavailable` if the store cannot answer. Their writes are on disk
    when they return."""

    async def claim(
        self, user_id: str, name: str, value: bytes, *, owner: str, seconds: float, instead: bytes | None = None
    ) -> Record | None:
        """If the name is free, keep the value for `seconds`, become its owner and return None. Else return the record
        under that name. A record with the value `instead` counts as none and is replaced."""
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
        """Keep the value for `seconds`, in place of the record that was there.

        With `held_by`, do so only if that owner works on the record, else return False. `owner` works on it from now
        on. If a session is named, the record is deleted with the session.
        """
        ...

    async def recall(self, user_id: str, names: Sequence[str]) -> Mapping[str, Record]:
        """The records under these names. A name without a record is left out."""
        ...

    async def discard(self, user_id: str, name: str, *, held_by: str | None = None) -> None:
        """Delete the record under the name. `held_by` as in `keep`."""
        ...

    async def expire(self) -> int:
        """Delete the records that have expired. Returns how many."""
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
    """Records in a dict. Only this process can own them, and it is alive."""

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
        """Delete the records of a session that was deleted."""
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

"""The store without a disk. Its sessions end with the process."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from agent_core.names import SessionKey
from agent_core.sessions.entries import Entry, now_ms, title_in
from agent_core.sessions.pages import cut_page, read_cursor
from agent_core.sessions.records import InMemoryRecords
from agent_core.sessions.store import Cancel, Lease, LeaseLost, Mark, Opened, Read
from agent_core.stored import Page, SessionInfo


@dataclass(slots=True)
class _Session:
    key: SessionKey
    row: int
    fence: int = 0
    entries: list[Entry] = field(default_factory=list)
    title: str = ""
    created_at: int = 0
    updated_at: int = 0

    @property
    def info(self) -> SessionInfo:
        return SessionInfo(
            session_id=self.key.session_id,
            title=self.title,
            created_at=self.created_at,
            updated_at=self.updated_at,
            head=len(self.entries),
            row=self.row,
        )


class InMemoryStore:
    """A Store in a dict. It keeps all sessions whole. The process is the only owner, so no session is ever held by
    another."""

    def __init__(self) -> None:
        self.records = InMemoryRecords()
        self._sessions: dict[SessionKey, _Session] = {}
        self._fence = 0  # one for the whole store: a session that was forgotten must not begin again at 1

    async def acquire(self, key: SessionKey, owner: str) -> Lease:
        self._fence += 1
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = _Session(key, self._fence)
        session.fence = self._fence
        return Lease(key=key, owner=owner, fence=session.fence, head=len(session.entries), row=session.row)

    async def open(self, key: SessionKey, owner: str, known: Mark | None = None) -> Opened:
        lease = await self.acquire(key, owner)
        read = await self.read(key, known)
        return Opened(lease=lease, entries=read.entries, after=read.after)

    async def read(self, key: SessionKey, known: Mark | None = None) -> Read:
        session = self._sessions.get(key)
        if session is None or not session.entries:
            return Read(entries=(), after=0, mark=Mark(row=0, head=0))
        head = len(session.entries)
        # Entries are only ever added, so the number of the session tells enough.
        after = known.head if known is not None and known.row == session.row and known.head <= head else 0
        return Read(entries=tuple(session.entries[after:]), after=after, mark=Mark(row=session.row, head=head))

    async def load(self, key: SessionKey) -> Sequence[Entry]:
        session = self._sessions.get(key)
        return tuple(session.entries) if session else ()

    async def append(self, lease: Lease, entries: Sequence[Entry], *, release: bool = False) -> None:
        session = self._held(lease)
        if session is None or len(session.entries) != lease.head:
            raise LeaseLost
        for entry in entries:
            lease.head += 1
            session.entries.append(replace(entry, seq=lease.head))
        session.title = title_in(entries) or session.title
        if entries:
            session.updated_at = now_ms()
            session.created_at = session.created_at or session.updated_at
        if release:
            await self.release(lease)

    async def release(self, lease: Lease) -> None:
        session = self._held(lease)
        if session is not None:
            session.fence = 0
            if not session.entries:  # nothing was written: leave no trace
                del self._sessions[lease.key]

    async def renew(self, owner: str) -> Sequence[Cancel]:  # noqa: ARG002  # the only owner there is
        return ()

    async def retire(self, owner: str) -> None:
        pass

    async def cancel(self, key: SessionKey, run_id: str | None = None) -> bool:  # noqa: ARG002  # nobody else holds it
        return False

    async def find(self, key: SessionKey) -> SessionInfo | None:
        session = self._sessions.get(key)
        return session.info if session and session.entries else None

    async def page(self, user_id: str, limit: int, after: str | None = None) -> Page:
        begin = read_cursor(after)
        found = sorted(
            ((each.updated_at, each.row, each.info) for each in self._of(user_id)),
            key=lambda each: each[:2],
            reverse=True,
        )
        return cut_page([each for each in found if begin is None or each[:2] < begin][: limit + 1], limit)

    async def delete(self, lease: Lease) -> None:
        if self._held(lease) is None:
            raise LeaseLost
        del self._sessions[lease.key]
        self.records.forget_session(lease.key.user_id, lease.key.session_id)

    async def expired(self, *, before: int | None, keep: int | None, limit: int) -> Sequence[SessionKey]:
        newest = sorted(self._sessions.values(), key=lambda each: (each.updated_at, each.row), reverse=True)
        seen: dict[str, int] = {}
        old: list[SessionKey] = []
        for each in newest:
            seen[each.key.user_id] = number = seen.get(each.key.user_id, 0) + 1
            if each.entries and (
                (before is not None and each.updated_at < before) or (keep is not None and number > keep)
            ):
                old.append(each.key)
        return old[::-1][:limit]

    async def check(self) -> None:
        pass

    def forget(self, key: SessionKey) -> None:
        """Drop a session if it is there."""
        self._sessions.pop(key, None)

    async def aclose(self) -> None:
        self._sessions.clear()

    def _held(self, lease: Lease) -> _Session | None:
        session = self._sessions.get(lease.key)
        return session if session is not None and session.fence == lease.fence else None

    def _of(self, user_id: str) -> list[_Session]:
        return [each for each in self._sessions.values() if each.key.user_id == user_id and each.entries]

"""The store without a disk: sessions last as long as the process."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from agent_core.sessions.entries import Entry, SessionKey
from agent_core.sessions.store import Lease, LeaseLost


@dataclass(slots=True)
class _Session:
    fence: int = 0
    entries: list[Entry] = field(default_factory=list)


class InMemoryStore:
    """A Store in a dict. It keeps the whole of every session and forgets them with the process."""

    def __init__(self) -> None:
        self._sessions: dict[SessionKey, _Session] = {}
        self._fence = 0  # of the whole store: a session that was forgotten must not begin again at 1

    async def acquire(self, key: SessionKey, owner: str) -> Lease:
        session = self._sessions.setdefault(key, _Session())
        self._fence += 1
        session.fence = self._fence
        return Lease(key=key, owner=owner, fence=session.fence, head=len(session.entries))

    async def load(self, key: SessionKey) -> Sequence[Entry]:
        session = self._sessions.get(key)
        return tuple(session.entries) if session else ()

    async def append(self, lease: Lease, entries: Sequence[Entry]) -> None:
        session = self._sessions.get(lease.key)
        if session is None or session.fence != lease.fence or len(session.entries) != lease.head:
            raise LeaseLost
        for entry in entries:
            lease.head += 1
            session.entries.append(replace(entry, seq=lease.head))

    async def release(self, lease: Lease) -> None:
        session = self._sessions.get(lease.key)
        if session is None or session.fence != lease.fence:
            return
        if not session.entries:  # nothing was ever said: leave no trace
            del self._sessions[lease.key]

    def forget(self, key: SessionKey) -> None:
        """Drop a session, if it is there."""
        self._sessions.pop(key, None)

    async def aclose(self) -> None:
        self._sessions.clear()

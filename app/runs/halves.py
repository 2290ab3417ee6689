"""Turns that wait for a client which does not name its session: found again by the ids of their calls.

An OpenAI client never sees the results of the server's tools, so where one answer asks for server and
client tools together, the transcript that it sends back lacks half of what happened. The session is kept
for an hour, and whoever brings the answer to one of its calls goes on in it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic

KEPT = 3600.0
"""Seconds."""

MOST = 10_000
"""Sessions that are kept at the same time; the oldest go first."""


@dataclass(frozen=True, slots=True)
class _Half:
    session_id: str
    call_ids: tuple[str, ...]
    until: float


class Halves:
    """The waiting sessions of all users. `forget(user_id, session_id)` is called for each that is given up."""

    def __init__(self, forget: Callable[[str, str], None], *, now: Callable[[], float] = monotonic) -> None:
        self._forget = forget
        self._now = now
        self._by_session: dict[tuple[str, str], _Half] = {}  # the oldest first
        self._by_call: dict[tuple[str, str], str] = {}

    def __len__(self) -> int:
        return len(self._by_session)

    def keep(self, user_id: str, session_id: str, call_ids: Iterable[str]) -> None:
        """Remember that these calls wait in this session."""
        self._drop(user_id, session_id)
        half = _Half(session_id, tuple(call_ids), self._now() + KEPT)
        self._by_session[user_id, session_id] = half
        for call_id in half.call_ids:
            self._by_call[user_id, call_id] = session_id
        self._tidy()

    def take(self, user_id: str, call_ids: Iterable[str]) -> str | None:
        """The session in which one of these calls waits, which is then the caller's to keep again."""
        self._tidy()
        for call_id in call_ids:
            session_id = self._by_call.get((user_id, call_id))
            if session_id is not None:
                self._drop(user_id, session_id)
                return session_id
        return None

    def _tidy(self) -> None:
        while self._by_session:
            (user_id, session_id), half = next(iter(self._by_session.items()))
            if half.until > self._now() and len(self._by_session) <= MOST:
                return
            self._drop(user_id, session_id)
            self._forget(user_id, session_id)

    def _drop(self, user_id: str, session_id: str) -> None:
        half = self._by_session.pop((user_id, session_id), None)
        for call_id in half.call_ids if half is not None else ():
            if self._by_call.get((user_id, call_id)) == session_id:
                del self._by_call[user_id, call_id]

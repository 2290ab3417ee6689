"""What is told of sessions and runs that are stored."""

from dataclasses import dataclass
from typing import Any

from agent_core.events import AgentEnd, Event, RunFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A session in a list.

    - created_at, updated_at: milliseconds since the epoch
    - head: how many entries it has
    - row: the store's number of it; a session that was deleted and begun again has another
    """

    session_id: str
    title: str
    created_at: int
    updated_at: int
    head: int
    row: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some sessions of a user, the last written first. `next` begins the next page; None at the end."""

    sessions: tuple[SessionInfo, ...] = ()
    next: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The agents that have a history in a session, and its state."""

    agents: tuple[str, ...]
    state: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """An answer that was given: by which run of which session, begun when (seconds since 1970), and what it said."""

    run_id: str
    session_id: str
    created: int
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRequest:
    """A request came before under the same claim. `same` says that it was this request, and no other with its key;
    `answer` is what it was answered, None if it got no answer."""

    same: bool
    answer: StoredAnswer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run that is over.

    - snapshot: what its session amounts to now
    - end: how it ended, with what still waits for an answer now
    - last: the number of its last event, 0 if unknown
    - client: what began it, in the words of `RunInput.client`
    """

    snapshot: tuple[Event, ...]
    end: AgentEnd | RunFailed
    last: int
    client: str

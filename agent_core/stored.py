"""Values that tell of stored sessions and runs."""

from dataclasses import dataclass
from typing import Any

from agent_core.events import AgentEnd, Event, RunFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A session in a list.

    - created_at, updated_at: milliseconds since the epoch
    - head: how many entries it has
    - row: the store's number of the session; a session that was deleted and begun again has another
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
    """An answer that a run has given. `created` is when the run began, in seconds since 1970."""

    run_id: str
    session_id: str
    created: int
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRequest:
    """A request came before with the same key or claim. `same` is false if it was another request with that key.
    `answer` is its answer, None if it got none."""

    same: bool
    answer: StoredAnswer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run that is over.

    - snapshot: a few events that tell the session as it stands now; `weight` is theirs, in bytes
    - end: how the run ended, with the interrupts that are still open now
    - last: the number of its last event, 0 if unknown
    - client: the client that began it, in the words of `RunInput.client`
    """

    snapshot: tuple[Event, ...]
    weight: int
    end: AgentEnd | RunFailed
    last: int
    client: str

"""Where sessions live. Every store keeps the same promises, and one contract suite checks them.

Writing needs a lease. Each acquisition adds 1 to the session's fence, and an append says under which
fence and on which head it was made: a writer that was overtaken cannot write any more, however late
it wakes up.

An owner (a worker, one process) is alive while its heartbeat is younger than the store's lease time.
A session that a living owner holds cannot be acquired by another.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agent_core.errors import RunError
from agent_core.names import SessionKey
from agent_core.sessions.entries import Entry
from agent_core.sessions.records import Records
from agent_core.stored import Page, SessionInfo


@dataclass(slots=True, kw_only=True)
class Lease:
    """The right to append to a session. `head` is the sequence number of its last entry; `row` and
    `tip` are the store's own."""

    key: SessionKey
    owner: str
    fence: int
    head: int
    row: int = 0
    tip: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Somebody wants the run cancelled that holds the session under this fence."""

    key: SessionKey
    fence: int


class LeaseLost(RunError):
    """Somebody else acquired the session, or wrote to it: nothing was appended."""

    def __init__(self) -> None:
        super().__init__("worker_lost", detail="the session's lease was lost")


class SessionPutBack(RunError):
    """The store has an older state of the session than was written, or another: it is neither read nor
    written until the operator has seen to it."""

    def __init__(self) -> None:
        super().__init__(
            "store_unavailable",
            "The store has lost what was written to this session: its operator has to look at it.",
            detail="the session is not the one that the journal's anchor has seen",
        )


class Store(Protocol):
    """The protocol. All methods raise RunError `store_unavailable` where the store cannot answer; acquire, load,
    append and delete raise SessionPutBack where it can tell that the session has lost entries.

    What `append`, `cancel` and `delete` did is on disk when they return. An acquisition or a release may
    reach the disk with the next of these. `records` are what is kept beside the sessions; those of a session go when
    it is deleted.
    """

    @property
    def records(self) -> Records: ...

    async def acquire(self, key: SessionKey, owner: str) -> Lease | None:
        """Become the session's writer; whoever was before is fenced off. None while another owner that is
        alive holds it."""
        ...

    async def load(self, key: SessionKey) -> Sequence[Entry]:
        """All entries of the session in order; empty for a session that nobody has written to."""
        ...

    async def append(self, lease: Lease, entries: Sequence[Entry], *, release: bool = False) -> None:
        """Add the entries, all or none, and move the lease's head; with `release`, give the session free in
        the same step. A `titled` entry sets the title in SessionInfo. Raises LeaseLost."""
        ...

    async def release(self, lease: Lease) -> None:
        """Give the session free; one without entries leaves no trace. Does nothing where the lease was lost."""
        ...

    async def renew(self, owner: str) -> Sequence[Cancel]:
        """The owner's heartbeat: it is alive for another lease time. Returns what it is asked to cancel, each as long
        as the lease lasts: an answer may be lost on its way."""
        ...

    async def retire(self, owner: str) -> None:
        """The owner ends: it is not alive any more, and what it still holds is free."""
        ...

    async def cancel(self, key: SessionKey, run_id: str | None = None) -> bool:
        """Ask the owner that holds the session to cancel its run, at its next heartbeat. False where
        nobody alive holds it, or where `run_id` names a run that has not begun or has ended."""
        ...

    async def find(self, key: SessionKey) -> SessionInfo | None:
        """The session, None where nobody has written to it."""
        ...

    async def page(self, user_id: str, limit: int, after: str | None = None) -> Page:
        """The user's sessions, by time of their last entry, the newest first. `after` is the `next` of the
        page before. Raises InvalidRequest for one that is none."""
        ...

    async def delete(self, lease: Lease) -> None:
        """Remove the session with all its entries; the lease is lost with it. Raises LeaseLost."""
        ...

    async def expired(self, *, before: int | None, keep: int | None, limit: int) -> Sequence[SessionKey]:
        """Up to `limit` sessions that housekeeping may delete: those last written to before the time
        `before` (milliseconds), and of each user those beyond the `keep` newest."""
        ...

    async def check(self) -> None:
        """Write something and throw it away: raises where an append would fail too."""
        ...

    async def aclose(self) -> None: ...

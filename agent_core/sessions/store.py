"""The interface of stores. Every store keeps the same promises, and one contract suite checks them.

Writing needs a lease. Each acquisition gives the session a higher fence. An append names its fence and the head that it
stands on. So a writer whose session was acquired by another can no longer write, however late it wakes up.

An owner is a worker: one process. It is alive while its heartbeat is younger than the store's lease time. Nobody else
can acquire a session that a living owner holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agent_core.errors import RunError
from agent_core.names import SessionKey
from agent_core.sessions.entries import Entry
from agent_core.sessions.records import Records
from agent_core.stored import Page, SessionInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """How far somebody has read a session: up to its entry `head`. `row` and `tip` are the store's own. They tell
    whether it still is the session that was read."""

    row: int
    head: int
    tip: bytes = b""


@dataclass(slots=True, kw_only=True)
class Lease:
    """The right to append to a session. `head` is the number of its last entry. `row` and `tip` are the store's own."""

    key: SessionKey
    owner: str
    fence: int
    head: int
    row: int = 0
    tip: bytes = b""

    @property
    def mark(self) -> Mark:
        """The session up to its head."""
        return Mark(row=self.row, head=self.head, tip=self.tip)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What was read of a session: its entries behind the number `after`, in order, up to `mark`. `after` is 0, or the
    head of the mark that was known."""

    entries: Sequence[Entry]
    after: int
    mark: Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A session that was acquired and read. `entries` and `after` as in Read, up to the lease's head."""

    lease: Lease
    entries: Sequence[Entry]
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Somebody wants to cancel the run that holds the session under this fence."""

    key: SessionKey
    fence: int


class LeaseLost(RunError):
    """Somebody else has acquired the session or written to it. Nothing was appended."""

    def __init__(self) -> None:
        super().__init__("worker_lost", detail="the session's lease was lost")


class SessionPutBack(RunError):
    """The store has lost entries of the session, or has another session in its place. The session is neither read nor
    written, until the operator has dealt with it."""

    def __init__(self) -> None:
        super().__init__(
            "store_unavailable",
            "The store has lost what was written to this session: its operator has to look at it.",
            detail="the session is not the one that the journal's anchor has seen",
        )


class Store(Protocol):
    """The protocol.

    All methods raise RunError `store_unavailable` if the store cannot answer. open, acquire, load, read, append and
    delete raise SessionPutBack if the store can tell that the session has lost entries.

    The changes of `append`, `cancel` and `delete` are on disk when they return. An acquisition or a release may reach
    the disk with the next of these. `records` are values beside the sessions; a session's records are deleted with it.
    """

    @property
    def records(self) -> Records: ...

    async def acquire(self, key: SessionKey, owner: str) -> Lease | None:
        """Become the session's writer and fence off the one before. None while another living owner holds the
        session."""
        ...

    async def open(self, key: SessionKey, owner: str, known: Mark | None = None) -> Opened | None:
        """Acquire the session and read it, in one step. The entries up to the mark `known` are left out if they still
        are those that were read. None while another living owner holds the session; if the reading fails, it is
        released."""
        ...

    async def read(self, key: SessionKey, known: Mark | None = None) -> Read:
        """Read the session as `open` does, without acquiring it. If nobody has written to it, it has no entries and the
        mark's row is 0."""
        ...

    async def load(self, key: SessionKey) -> Sequence[Entry]:
        """All entries of the session in order. Empty if nobody has written to it."""
        ...

    async def append(self, lease: Lease, entries: Sequence[Entry], *, release: bool = False) -> None:
        """Add the entries, all or none, and move the lease's head. With `release`, release the session in the same
        step. A `titled` entry sets the title in SessionInfo. Raises LeaseLost."""
        ...

    async def release(self, lease: Lease) -> None:
        """Release the session. A session without entries leaves no trace. Does nothing if the lease was lost."""
        ...

    async def renew(self, owner: str) -> Sequence[Cancel]:
        """The owner's heartbeat: it is alive for another lease time. Returns the cancels for its runs. A cancel comes
        again with each renewal while its lease lasts, because an answer may be lost."""
        ...

    async def retire(self, owner: str) -> None:
        """The owner ends. It is no longer alive, and the sessions that it still holds are released."""
        ...

    async def cancel(self, key: SessionKey, run_id: str | None = None) -> bool:
        """Ask the session's owner to cancel its run at its next heartbeat. False if no living owner holds the session,
        or if `run_id` names a run that has not begun or has ended."""
        ...

    async def find(self, key: SessionKey) -> SessionInfo | None:
        """The session, or None if nobody has written to it."""
        ...

    async def page(self, user_id: str, limit: int, after: str | None = None) -> Page:
        """The user's sessions by the time of their last entry, the newest first. `after` is the `next` of the page
        before. Raises InvalidRequest for any other text."""
        ...

    async def delete(self, lease: Lease) -> None:
        """Delete the session with all its entries, and the lease with it. Raises LeaseLost."""
        ...

    async def expired(self, *, before: int | None, keep: int | None, limit: int) -> Sequence[SessionKey]:
        """Up to `limit` sessions that housekeeping may delete: those last written to before `before` (milliseconds),
        and each user's sessions beyond the `keep` newest."""
        ...

    async def check(self) -> None:
        """Write something and delete it. Raises if an append would fail too."""
        ...

    async def aclose(self) -> None: ...

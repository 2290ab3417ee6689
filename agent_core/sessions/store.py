"""Where sessions live. Every store keeps the same promises, and one contract suite checks them.

Writing needs a lease. Each acquisition adds 1 to the session's fence, and an append says under which
fence and on which head it was made: a writer that was overtaken cannot write any more, however late
it wakes up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agent_core.errors import RunError
from agent_core.sessions.entries import Entry, SessionKey


@dataclass(slots=True, kw_only=True)
class Lease:
    """The right to append to a session. `head` is the sequence number of its last entry."""

    key: SessionKey
    owner: str
    fence: int
    head: int


class LeaseLost(RunError):
    """Somebody else acquired the session, or wrote to it: nothing was appended."""

    def __init__(self) -> None:
        super().__init__("worker_lost", detail="the session's lease was lost")


class Store(Protocol):
    """The protocol. All methods raise RunError `store_unavailable` where the store cannot answer."""

    async def acquire(self, key: SessionKey, owner: str) -> Lease:
        """Become the session's writer; whoever was before is fenced off."""
        ...

    async def load(self, key: SessionKey) -> Sequence[Entry]:
        """All entries of the session in order; empty for a session that nobody has written to."""
        ...

    async def append(self, lease: Lease, entries: Sequence[Entry]) -> None:
        """Add the entries, all or none, and move the lease's head. Raises LeaseLost."""
        ...

    async def release(self, lease: Lease) -> None:
        """Give the session free. Does nothing where the lease was lost already."""
        ...

    async def aclose(self) -> None: ...

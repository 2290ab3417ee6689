"""What a run is to its session: the lease with its one writer, its sink, its stop, and what all runs share.

All lanes of a run have one scope. So two of them append one after the other, and a stop ends both.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from agent_core.aside import Aside
from agent_core.checking.arguments import Validators
from agent_core.events import Event
from agent_core.gate import Ticket
from agent_core.models.http import HttpClient
from agent_core.names import SessionKey
from agent_core.react.stopping import Stop
from agent_core.room import Room
from agent_core.sessions.leases import Leases
from agent_core.sessions.writer import Writer
from agent_core.threads import SessionThreads
from agent_core.usage import Usage, add_up


class Sink(Protocol):
    """Where a run's events go."""

    @property
    def full(self) -> bool:
        """Whether the reader lags so far that the run should wait before it reads on upstream."""
        ...

    def emit(self, event: Event) -> None: ...

    @property
    def attended(self) -> bool:
        """Whether somebody reads, or will."""
        ...

    @property
    def next_number(self) -> int:
        """The number that the next event gets, 0 where events are not numbered."""
        ...

    async def room(self) -> None:
        """Wait until the sink is no longer full."""
        ...


class Nowhere:
    """The sink of a run that nobody reads: only its result counts."""

    full = False
    attended = True
    next_number = 0

    def emit(self, event: Event) -> None:
        pass

    async def room(self) -> None:
        pass


def _never(run_id: str) -> bool:  # noqa: ARG001  # the signature of `seen`
    return False


@dataclass(slots=True, kw_only=True)
class Scope:
    """One run in its session. It is made by Engine.admit and lives as long as the run.

    - leases: acquire its session; those of a store in memory if it is ephemeral: its session is forgotten at its end
    - before_calls: awaited before calls are stored as started; what it raises is the run's failure
    - arrived: when it was admitted, in milliseconds since the epoch; `waited`: another run held the session then
    - seen: whether somebody has read the end of the run with this id since it was stored
    - writer: None until the session is acquired; `begun`: its input is stored
    - ticket: its place at the gate, taken when all else is there
    - aside, validators, room, http: what all runs share; `room` is the memory to store long answers that broke off
    """

    run_id: str
    key: SessionKey
    leases: Leases
    http: HttpClient
    threads: SessionThreads
    aside: Aside = field(default_factory=Aside)
    validators: Validators = field(default_factory=Validators)
    room: Room = field(default_factory=Room)
    stop: Stop = field(default_factory=Stop)
    ephemeral: bool = False
    before_calls: Callable[[], Awaitable[None]] | None = None
    arrived: int = 0
    waited: bool = False
    seen: Callable[[str], bool] = _never
    sink: Sink = field(default_factory=Nowhere)
    ticket: Ticket = field(init=False)
    writer: Writer | None = None
    begun: bool = False
    began: float = field(default_factory=monotonic)
    usages: list[Usage] = field(default_factory=list)

    def acquire(self, writer: Writer) -> None:
        """The session is acquired: this is its writer."""
        self.writer = writer
        writer.before_calls = self.before_calls

    @property
    def writing(self) -> Writer:
        """The writer. Raises RuntimeError where the session is not acquired."""
        if self.writer is None:
            raise RuntimeError("a run writes only under its lease")
        return self.writer

    def check(self) -> None:
        """The checkpoint before each model and each tool call: raises Stopped or LeaseLost."""
        self.stop.check()
        self.leases.check()

    @property
    def usage(self) -> tuple[Usage, ...]:
        """What the run's model calls have cost so far, per model."""
        return add_up(self.usages)

    @property
    def tokens(self) -> int:
        """The tokens that the run's model calls have used so far, as far as they were reported."""
        return sum(each.total_tokens or (each.input_tokens or 0) + (each.output_tokens or 0) for each in self.usages)

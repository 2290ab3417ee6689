"""One run while it lasts: what it works on, where its events go, and how it writes."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from pydantic_core import to_json

from agent_core.agent import Agent
from agent_core.aside import Aside
from agent_core.checking.arguments import Validators
from agent_core.context import RunContext
from agent_core.errors import RunError
from agent_core.events import AgentEnd, AgentStart, Cut, Event, Guard, RunFailed, StateDelta, StateSnapshot
from agent_core.gate import Ticket
from agent_core.guards.watch import Trip, Watch, rewatched
from agent_core.messages import Message, ToolCall
from agent_core.models.base import Model
from agent_core.models.http import HttpClient
from agent_core.react.changes import StateChange
from agent_core.react.reply import Reply
from agent_core.react.room import Room
from agent_core.react.stopping import Stop
from agent_core.run_input import RunInput
from agent_core.sessions.entries import Entry, SessionKey, message_entry
from agent_core.sessions.history import History
from agent_core.sessions.leases import SAVING
from agent_core.sessions.state import copy_of
from agent_core.sessions.store import Lease, Store
from agent_core.sizes import size_of_json
from agent_core.threads import SessionThreads
from agent_core.tools.base import Tool, ToolSpec
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
    def end(self) -> int:
        """The number that the next event gets, 0 where events are not numbered."""
        ...

    async def room(self) -> None:
        """Wait until the sink is no longer full."""
        ...


class Nowhere:
    """The sink of a run that nobody reads: only its result counts."""

    full = False
    attended = True
    end = 0

    def emit(self, event: Event) -> None:
        pass

    async def room(self) -> None:
        pass


def _always() -> None:
    pass


def _never(run_id: str) -> bool:  # noqa: ARG001  # the signature of `seen`
    return False


def _nothing() -> None:
    pass


class Outside(Protocol):
    """Who keeps what an ephemeral run leaves, since its own session is forgotten."""

    async def before_calls(self) -> None:
        """Calls are about to be stored as started. What it raises (RunError) is the run's failure, and none begins."""
        ...

    async def at_end(self, run: "Run", end: AgentEnd | RunFailed) -> None:
        """The run has ended, and nobody was told so yet. What it raises makes its end `store_unavailable`."""
        ...


@dataclass(slots=True, kw_only=True)
class Run:
    """The state of one run. It is made by Engine.admit and lives as long as the run does.

    `offered` is what the model is offered in each regular round: the server's tools, then the client's.
    `iteration` counts the rounds of reasoning of this run. `cleared` are the calls that it stored as started,
    `started` those that it began to run. `reply` is the answer that the model is giving, until it stands in the
    history. `alive` raises LeaseLost where the worker has to take its leases for lost. An `ephemeral` run's
    session is forgotten at its end. `room` is what all runs share for storing
    long answers that broke off. The `ticket` is taken when all else is there.

    `arrived` is when the run was admitted, in milliseconds since the epoch, and `waited` says that another held its
    session then; `seen` tells whether somebody has read the end of the run with this id since it was stored.
    `entries` are the session's as they stood when the run began, until it has taken its input in. `told` is the
    earlier run that this one only tells of. `cut` says how the provider cut the last answer, None where it did not.
    `outside` is told of an ephemeral run's calls and end.
    """

    run_id: str
    key: SessionKey
    agent: Agent
    model: Model
    fallback: Model | None = None
    input: RunInput
    ticket: Ticket = field(init=False)
    store: Store
    http: HttpClient
    threads: SessionThreads
    stop: Stop = field(default_factory=Stop)
    sink: Sink = field(default_factory=Nowhere)
    emit: Callable[[Event], None] = field(init=False)
    lease: Lease | None = None
    history: History = field(default_factory=History)
    iteration: int = 0
    cleared: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)
    usages: list[Usage] = field(default_factory=list)
    answer: Message | None = None
    cut: Cut | None = None
    nudged: bool = False
    doubted: bool = False
    tools: Mapping[str, Tool] = field(init=False)
    offered: tuple[ToolSpec, ...] = field(init=False)
    announced: bool = False
    ephemeral: bool = False
    outside: Outside | None = None
    reply: Reply | None = None
    alive: Callable[[], None] = _always
    told_state: bool = False
    begun: bool = False
    arrived: int = 0
    waited: bool = False
    seen: Callable[[str], bool] = _never
    entries: Sequence[Entry] = ()
    told: str = ""
    began: float = field(default_factory=monotonic)
    watch: Watch = field(init=False)
    nudge: str = ""
    validators: Validators = field(default_factory=Validators)
    aside: Aside = field(default_factory=Aside)
    room: Room = field(default_factory=Room)
    _deferred: list[Entry] = field(default_factory=list)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.tools = {tool.spec.name: tool for tool in self.agent.tools}
        self.attach(self.sink)
        self.offered = (*(tool.spec for tool in self.agent.tools), *self.input.tools)
        self.watch_over(())

    def attach(self, sink: Sink) -> None:
        """Send the run's events to this sink from now on."""
        self.sink = sink
        self.emit = sink.emit

    def watch_over(self, acted: Iterable[Message]) -> None:
        """Begin with the guards as they stand after these answers and results of the turn."""
        # A user's own Tool may not say whether it is repeatable.
        repeatable = frozenset(name for name, tool in self.tools.items() if getattr(tool, "repeatable", False))
        self.watch = rewatched(self.agent.guards, repeatable, acted)
        self.offer_what_is_left()

    def offer_what_is_left(self) -> None:
        """Offer no tool any more that the guards have taken away."""
        if self.watch.disabled:
            self.offered = tuple(spec for spec in self.offered if spec.name not in self.watch.disabled)

    def announce(self) -> None:
        """Emit AgentStart, once."""
        if not self.announced:
            self.announced = True
            self.emit(AgentStart(run_id=self.run_id, agent=self.agent.name))

    async def commit(self, *messages: Message) -> None:
        """Append the messages to the session; when this returns, all are stored."""

        def stored() -> None:
            for message in messages:
                self.add(message)

        await self.write(lambda: self.entries_of(*messages), stored)

    def entries_of(self, *messages: Message) -> list[Entry]:
        return [message_entry(self.run_id, self.agent.name, message) for message in messages]

    def defer(self, message: Message) -> None:
        """Add a message that is stored with whatever the run stores next, its end at the latest."""
        self._deferred += self.entries_of(message)
        self.add(message)

    def add(self, message: Message) -> None:
        """A message is stored: the history has it too."""
        self.history.add(message)
        if message.role == "assistant":
            self.reply = None  # it is this message now

    async def append(self, *entries: Entry, release: bool = False) -> None:
        """Append entries: see `write`."""
        await self.write(lambda: entries, release=release)

    async def write(
        self,
        compose: Callable[[], Sequence[Entry]],
        stored: Callable[[], None] = _nothing,
        *,
        release: bool = False,
    ) -> None:
        """Append entries, after those that were deferred; with `release`, give the session free with them.

        One write goes after another. `compose` makes the entries when all writes before are done, and `stored` is
        called when they are on disk, before the next write begins, also where the caller waits no more: so what is
        in memory is always what is stored, and what is composed fits it.

        Raises RunError: `worker_lost`, or `store_unavailable` for whatever else goes wrong in the store,
        silence for SAVING seconds included. What was deferred is then still to be stored.
        """
        if self.lease is None:
            raise RuntimeError("a run writes only under its lease")
        try:
            async with asyncio.timeout(SAVING):
                await self._writing.acquire()
                task = asyncio.get_running_loop().create_task(self._write(self.lease, compose, stored, release))
                # Also where nobody waits any more: the next append must find the head that this one leaves.
                task.add_done_callback(self._written)
                await asyncio.shield(task)
        except RunError:
            raise
        except Exception as error:
            raise RunError("store_unavailable", detail=type(error).__name__) from error

    async def _write(
        self, lease: Lease, compose: Callable[[], Sequence[Entry]], stored: Callable[[], None], release: bool
    ) -> None:
        entries = compose()
        if self.outside is not None and any(entry.kind == "started" for entry in entries):
            await self.outside.before_calls()
        deferred = len(self._deferred)
        await self.store.append(lease, (*self._deferred, *entries), release=release)
        del self._deferred[:deferred]
        stored()

    def _written(self, task: "asyncio.Task[None]") -> None:
        self._writing.release()
        if not task.cancelled():
            task.exception()  # whoever waits is told; where nobody does, it is not to be reported as forgotten

    async def quiet(self) -> None:
        """Wait until nothing is being written any more, also what nobody waits for."""
        async with self._writing:
            pass

    def tripped(self, trip: Trip, reply_id: str = "") -> None:
        """Tell that a guard has tripped, and offer no more what it took away."""
        self.emit(
            Guard(
                run_id=self.run_id,
                reply_id=reply_id,
                guard=trip.guard,
                action=trip.action,
                tool=trip.tool,
                count=trip.count,
                message=trip.told,
            )
        )
        self.offer_what_is_left()

    @property
    def tokens(self) -> int:
        """The tokens that the run's model calls have used so far, as far as they were reported."""
        return sum(each.total_tokens or (each.input_tokens or 0) + (each.output_tokens or 0) for each in self.usages)

    def check(self) -> None:
        """The checkpoint before each model and each tool call: raises Stopped or LeaseLost."""
        self.stop.check()
        self.alive()

    def key_of(self, call: ToolCall) -> str:
        """The call's idempotency key: the one under which it was started before, if it was."""
        return self.history.started.get(call.id) or f"{self.run_id}:{self.iteration}:{call.id}"

    def changed(self, change: StateChange) -> None:
        """A change of the session's state is stored: the history has it too, and it is told."""
        change.move(self.history)
        if self.told_state:
            size = size_of_json(to_json(change.patch))
            self.emit(StateDelta(run_id=self.run_id, patch=change.patch, size=size))
        else:
            self.told_state = True
            size = size_of_json(to_json(change.value))
            self.emit(StateSnapshot(run_id=self.run_id, value=change.value, size=size))

    @property
    def usage(self) -> tuple[Usage, ...]:
        """What the run's model calls have cost so far, per model."""
        return add_up(self.usages)

    def context(self) -> RunContext:
        """The run as the agent's instructions see it."""
        return RunContext(
            agent=self.agent.name,
            user_id=self.key.user_id,
            session_id=self.key.session_id,
            run_id=self.run_id,
            context=self.input.context,
            state=copy_of(self.history.state),
            forwarded_props=self.input.forwarded_props,
            messages=tuple(self.history.messages),
        )

"""One agent's turn in a run: what it works on, and how it tells and stores it.

A run has one lane, `root`, and one more for each subagent that runs in it. Every event and every entry is made through
a lane, which fills in the run, the lane and the time.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic_core import to_json

from agent_core.agent import Agent
from agent_core.context import RunContext
from agent_core.events import AgentStart, Cut, Guard, StateDelta, StateSnapshot
from agent_core.guards.watch import Trip, Watch, rewatched
from agent_core.messages import Message, ToolCall
from agent_core.models.base import Model
from agent_core.react.changes import StateChange
from agent_core.react.contexts import seen_context
from agent_core.react.emitter import Emitter
from agent_core.react.reply import Reply
from agent_core.react.scope import Scope, Sink
from agent_core.run_input import RunInput
from agent_core.sessions.entries import Addition, addition_of
from agent_core.sessions.kinds import Body, MessageBody
from agent_core.sessions.standing import History, Standing
from agent_core.sizes import size_of_json
from agent_core.tools.base import Tool, ToolSpec


@dataclass(slots=True, kw_only=True)
class Lane:
    """One agent's turn.

    - offered: what the model is offered in each regular round: the server's tools, then the client's
    - iteration: counts the rounds of reasoning of this run
    - cleared: the calls that this run stored as started; `started`: those that it began to run
    - reply: the answer that the model is giving, until it stands in the history
    - answer: the run's answer; `cut`: how the provider cut the last one, None if it did not
    - told: the earlier run that this one only tells of
    - untold: the results that are stored, and whose events come next. A reader's snapshot leaves them out
    """

    scope: Scope
    id: str = "root"
    agent: Agent
    model: Model
    fallback: Model | None = None
    input: RunInput
    emitter: Emitter = field(init=False)
    history: History = field(init=False)
    tools: Mapping[str, Tool] = field(init=False)
    offered: tuple[ToolSpec, ...] = field(init=False)
    watch: Watch = field(init=False)
    iteration: int = 0
    cleared: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)
    reply: Reply | None = None
    answer: Message | None = None
    cut: Cut | None = None
    nudge: str = ""
    nudged: bool = False
    doubted: bool = False
    announced: bool = False
    told_state: bool = False
    told: str = ""
    untold: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.emitter = Emitter(self.scope.run_id, self.id, self.scope.sink.emit)
        self.history = History(agent=self.agent.name)
        self.tools = {tool.spec.name: tool for tool in self.agent.tools}
        self.offered = (*(tool.spec for tool in self.agent.tools), *self.input.tools)
        self.watch_over(())

    @property
    def run_id(self) -> str:
        return self.scope.run_id

    def begin_on(self, standing: Standing) -> None:
        """Go on with the agent's history in this lane, or begin it, where the lane is new in its session."""
        self.history = standing.begin(self.agent.name, self.id)

    def attach(self, sink: Sink) -> None:
        """Send the run's events to this sink from now on."""
        self.scope.sink = sink
        self.emitter.attach(sink.emit)

    @property
    def emit(self) -> Callable[..., None]:
        """Make an event of this lane and send it: `lane.emit(TextStart, reply_id=…)`."""
        return self.emitter.emit

    def announce(self) -> None:
        """Emit AgentStart, once."""
        if not self.announced:
            self.announced = True
            self.emit(AgentStart, agent=self.agent.name)

    def watch_over(self, acted: Iterable[Message]) -> None:
        """Set the guards as they stand after these answers and results of the turn."""
        # A user's own Tool may not say whether it is repeatable.
        repeatable = frozenset(name for name, tool in self.tools.items() if getattr(tool, "repeatable", False))
        self.watch = rewatched(self.agent.guards, repeatable, acted)
        self.offer_what_is_left()

    def offer_what_is_left(self) -> None:
        """Take out of `offered` what the guards have disabled."""
        if self.watch.disabled:
            self.offered = tuple(spec for spec in self.offered if spec.name not in self.watch.disabled)

    def tripped(self, trip: Trip, reply_id: str = "") -> None:
        """Tell that a guard has tripped, and stop offering what it disabled."""
        self.emit(
            Guard,
            reply_id=reply_id,
            guard=trip.guard,
            action=trip.action,
            tool=trip.tool,
            count=trip.count,
            message=trip.told,
        )
        self.offer_what_is_left()

    def entry(self, body: Body) -> Addition:
        """An entry of this lane's run."""
        return addition_of(self.run_id, body, lane=self.id)

    def entries_of(self, *messages: Message) -> list[Addition]:
        return [self.entry(MessageBody(agent=self.agent.name, message=message)) for message in messages]

    def results_of(self, *results: Message) -> list[Addition]:
        """The entries of results that are stored now and told then."""
        self.untold.update(each.id for each in results)
        return self.entries_of(*results)

    async def write(self, compose: Callable[[], Sequence[Addition]], stored: Callable[[], None]) -> None:
        """Append entries: see Writer.write."""
        await self.scope.writing.write(compose, stored)

    async def commit(self, message: Message) -> None:
        """Append the message to the session; when this returns, it is stored."""
        await self.write(lambda: self.entries_of(message), self.replied)

    def defer(self, message: Message) -> None:
        """Store the message with the run's next entries, at the latest with its end."""
        self.scope.writing.defer(*self.entries_of(message))

    def replied(self) -> None:
        """The model's answer is stored: it is a message of the history now."""
        self.reply = None

    def changed(self, change: StateChange) -> None:
        """The change of the state is stored: tell it."""
        self.history.session.changes.know(change.value)
        if self.told_state:
            self.emit(StateDelta, patch=change.patch, size=size_of_json(to_json(change.patch)))
        else:
            self.told_state = True
            self.emit(StateSnapshot, value=change.value, size=size_of_json(to_json(change.value)))

    def rest(self) -> None:
        """The session is released: the history stays as it stands, whoever goes on with it."""
        self.history, self.reply = self.history.resting(), None

    def key_of(self, call: ToolCall) -> str:
        """The call's idempotency key: the one under which it was started before, if it was."""
        return self.history.started.get(call.id) or f"{self.run_id}:{self.iteration}:{call.id}"

    def context(self) -> RunContext:
        """The run as the agent's instructions see it."""
        return seen_context(
            self.history.state,
            self.history.messages,
            agent=self.agent.name,
            user_id=self.scope.key.user_id,
            session_id=self.scope.key.session_id,
            run_id=self.run_id,
            context=self.input.context,
            forwarded_props=self.input.forwarded_props,
        )

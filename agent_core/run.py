"""A run that was admitted, as its application sees it."""

from typing import Any, Protocol

from agent_core.agent import Agent
from agent_core.events import AgentEnd, Event, RunFailed
from agent_core.messages import Message, ToolCall
from agent_core.names import SessionKey
from agent_core.pairing import open_calls
from agent_core.react.lane import Lane
from agent_core.react.opening.client_calls import waiting_for_client
from agent_core.react.snapshot import snapshot_of
from agent_core.react.stopping import StopReason
from agent_core.run_input import RunInput


class Outside(Protocol):
    """Who keeps what an ephemeral run leaves, since its own session is forgotten."""

    async def before_calls(self) -> None:
        """Calls are about to be stored as started. What it raises (RunError) is the run's failure, and none begins."""
        ...

    async def at_end(self, run: "Run", end: AgentEnd | RunFailed) -> None:
        """The run has ended, and nobody was told so yet. What it raises makes its end `store_unavailable`."""
        ...


class Run:
    """One run, from its admission on. `lane` is the engine's own: what it works on."""

    __slots__ = ("lane", "outside")

    def __init__(self, lane: Lane, outside: Outside | None = None) -> None:
        self.lane = lane
        self.outside = outside

    @property
    def run_id(self) -> str:
        return self.lane.run_id

    @property
    def key(self) -> SessionKey:
        return self.lane.scope.key

    @property
    def agent(self) -> Agent:
        return self.lane.agent

    @property
    def input(self) -> RunInput:
        return self.lane.input

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation as it stands; empty until the run has read its session."""
        return tuple(self.lane.history.messages)

    @property
    def state(self) -> Any:
        """The session's state as it stands."""
        return self.lane.history.state

    @property
    def answer(self) -> Message | None:
        """The run's answer, None where it has none (yet)."""
        return self.lane.answer

    @property
    def told(self) -> str:
        """The id of the earlier run that this one only tells of; empty for any other."""
        return self.lane.told

    @property
    def acted(self) -> bool:
        """Whether a tool has begun to run."""
        return bool(self.lane.started)

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls at the conversation's end that have no result."""
        return tuple(open_calls(self.lane.history.messages))

    @property
    def left_to_client(self) -> tuple[ToolCall, ...]:
        """Those of them that the client is to carry out."""
        history = self.lane.history
        return waiting_for_client(history.messages, self.lane.tools, history.not_the_clients)

    def has_tool(self, name: str) -> bool:
        """Whether the server runs the tool of this name."""
        return name in self.lane.tools

    @property
    def holds(self) -> bool:
        """Whether it has acquired its session."""
        return self.lane.scope.writer is not None

    @property
    def row(self) -> int | None:
        """Which session its events are of, as the store numbers it; None where the store has nothing of it."""
        writer, ephemeral = self.lane.scope.writer, self.lane.scope.ephemeral
        return writer.lease.row if writer is not None and writer.lease.head and not ephemeral else None

    def snapshot(self) -> tuple[Event, ...]:
        """The run's events so far, told in few, for a reader that cannot have all of them."""
        return snapshot_of(self.lane)

    @property
    def stopping(self) -> StopReason | None:
        """Why it is being stopped, None where it is not."""
        return self.lane.scope.stop.reason

    def stop(self, reason: StopReason) -> bool:
        """Stop it: its model or tool call is cancelled, its calls are paired and it is saved. False where it was
        stopped already."""
        return self.lane.scope.stop.request(reason)

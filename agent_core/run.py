"""A run that was admitted, as its application sees it."""

from typing import Any, Protocol

from agent_core.agent import Agent
from agent_core.events import AgentEnd, Event, RunFailed
from agent_core.messages import Message, ToolCall
from agent_core.names import SessionKey
from agent_core.react.lane import Lane
from agent_core.react.opening.client_calls import waiting_for_client
from agent_core.react.snapshot import snapshot_of
from agent_core.react.stopping import StopReason
from agent_core.run_input import RunInput


class Outside(Protocol):
    """Keeps what is needed of an ephemeral run, because its session is forgotten."""

    async def before_calls(self) -> None:
        """Calls are about to be stored as started. If it raises a RunError, the run fails with it and no call
        begins."""
        ...

    async def at_end(self, run: "Run", end: AgentEnd | RunFailed) -> None:
        """The run has ended, and nobody was told so yet. If it raises, the run fails as `store_unavailable`."""
        ...


class Run:
    """One run, from its admission on. `lane` is for the engine only."""

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
        """The conversation as it stands. Empty until the run has read its session."""
        return tuple(self.lane.history.messages)

    @property
    def state(self) -> Any:
        """The session's state as it stands."""
        return self.lane.history.state

    @property
    def answer(self) -> Message | None:
        """The run's answer, None without one (yet)."""
        return self.lane.answer

    @property
    def told(self) -> str:
        """The id of the earlier run that this one only tells of, empty for every other run."""
        return self.lane.told

    @property
    def acted(self) -> bool:
        """Whether a tool has begun to run."""
        return bool(self.lane.started)

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls at the conversation's end that have no result."""
        return self.lane.history.open_calls

    @property
    def left_to_client(self) -> tuple[ToolCall, ...]:
        """The open calls that the client must carry out."""
        history = self.lane.history
        return waiting_for_client(history.open_calls, self.lane.tools, history.not_the_clients)

    def has_tool(self, name: str) -> bool:
        """Whether the server runs the tool of this name."""
        return name in self.lane.tools

    @property
    def holds(self) -> bool:
        """Whether the run has acquired its session."""
        return self.lane.scope.writer is not None

    @property
    def row(self) -> int | None:
        """The store's number of the run's session. None if the store has nothing of it."""
        writer, ephemeral = self.lane.scope.writer, self.lane.scope.ephemeral
        return writer.lease.row if writer is not None and writer.lease.head and not ephemeral else None

    def snapshot(self) -> tuple[Event, ...]:
        """A few events that tell the run so far, for a reader that cannot have all its events."""
        return snapshot_of(self.lane)

    @property
    def stopping(self) -> StopReason | None:
        """Why the run is being stopped, None if it is not."""
        return self.lane.scope.stop.reason

    def stop(self, reason: StopReason) -> bool:
        """Stop the run: its model or tool call is cancelled, its calls are paired, and it is saved. False if it was
        stopped already."""
        return self.lane.scope.stop.request(reason)

"""One run while it lasts: what it works on, where its events go, and how it writes."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Protocol

from agent_core.agent import Agent
from agent_core.context import RunContext
from agent_core.errors import RunError
from agent_core.events import AgentStart, Event
from agent_core.gate import Ticket
from agent_core.messages import Message
from agent_core.models.base import Model
from agent_core.models.http import HttpClient
from agent_core.react.interrupts import Stop
from agent_core.run_input import RunInput
from agent_core.sessions.entries import Entry, History, SessionKey, message_entry
from agent_core.sessions.store import Lease, Store
from agent_core.tools.base import Tool, ToolSpec
from agent_core.usage import Usage, add_up

SAVING = 10.0
"""Seconds that the store may take for one append, and a run to pair, save and release at its end."""


class Sink(Protocol):
    """Where a run's events go."""

    @property
    def full(self) -> bool:
        """Whether the reader lags so far that the run should wait before it reads on upstream."""
        ...

    def emit(self, event: Event) -> None: ...

    async def room(self) -> None:
        """Wait until the sink is no longer full."""
        ...


class Nowhere:
    """The sink of a run that nobody reads: only its result counts."""

    full = False

    def emit(self, event: Event) -> None:
        pass

    async def room(self) -> None:
        pass


@dataclass(slots=True, kw_only=True)
class Run:
    """The state of one run. It is made by Engine.admit and lives as long as the run does.

    `offered` is what the model is offered in each regular round: the server's tools, then the
    client's. `iteration` counts the rounds of reasoning of this run. `started` are the calls that it began to run.
    An `ephemeral` run's session is forgotten at its end, unless calls wait for the client.
    """

    run_id: str
    key: SessionKey
    agent: Agent
    model: Model
    fallback: Model | None = None
    input: RunInput
    ticket: Ticket
    store: Store
    http: HttpClient
    threads: Executor
    stop: Stop = field(default_factory=Stop)
    sink: Sink = field(default_factory=Nowhere)
    emit: Callable[[Event], None] = field(init=False)
    lease: Lease | None = None
    history: History = field(default_factory=History)
    iteration: int = 0
    started: set[str] = field(default_factory=set)
    usages: list[Usage] = field(default_factory=list)
    answer: Message | None = None
    nudged: bool = False
    tools: Mapping[str, Tool] = field(init=False)
    offered: tuple[ToolSpec, ...] = field(init=False)
    announced: bool = False
    ephemeral: bool = False

    def __post_init__(self) -> None:
        self.tools = {tool.spec.name: tool for tool in self.agent.tools}
        self.attach(self.sink)
        self.offered = (*(tool.spec for tool in self.agent.tools), *self.input.tools)

    def attach(self, sink: Sink) -> None:
        """Send the run's events to this sink from now on."""
        self.sink = sink
        self.emit = sink.emit

    def announce(self) -> None:
        """Emit AgentStart, once."""
        if not self.announced:
            self.announced = True
            self.emit(AgentStart(run_id=self.run_id, agent=self.agent.name))

    async def commit(self, *messages: Message, before: Sequence[Entry] = (), after: Sequence[Entry] = ()) -> None:
        """Append the messages to the session, between other entries; when this returns, all are stored."""
        entries = [message_entry(self.run_id, self.agent.name, message) for message in messages]
        await self.append(*before, *entries, *after)
        for message in messages:
            self.history.add(message)

    async def append(self, *entries: Entry) -> None:
        """Append entries. Raises RunError: `worker_lost`, or `store_unavailable` for whatever else goes
        wrong in the store, silence for SAVING seconds included."""
        if self.lease is None:
            raise RuntimeError("a run writes only under its lease")
        try:
            async with asyncio.timeout(SAVING):
                await self.store.append(self.lease, entries)
        except RunError:
            raise
        except Exception as error:
            raise RunError("store_unavailable", detail=type(error).__name__) from error

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
            state=self.input.state,
            forwarded_props=self.input.forwarded_props,
            messages=tuple(self.history.messages),
        )

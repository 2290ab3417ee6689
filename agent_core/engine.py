"""The engine: one for everybody, stateless between runs.

    async with Engine() as engine:
        result = await engine.call(agent, "what time is it", user_id="ann", session_id="s1")

It owns the HTTP client, the threads and the store; closing it stops the runs that are under way. `engine.sessions` has
the verbs of what is stored, and `engine.records` keeps what an application needs beside the sessions.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from agent_core.agent import Agent
from agent_core.channel import Channel
from agent_core.errors import InvalidRequest, RunError, SessionExists
from agent_core.events import AgentEnd, Cut, Event, RunFailed, RunStatus
from agent_core.gate import Gate
from agent_core.interrupts import Interrupt
from agent_core.messages import Message, new_id
from agent_core.models.base import Timeouts
from agent_core.models.http import HttpClient
from agent_core.names import SessionKey
from agent_core.react.scope import Nowhere, Sink
from agent_core.run import Outside, Run
from agent_core.run_input import Input, as_input
from agent_core.runner import LEASE_SECONDS, Runner
from agent_core.sessions.entries import addition_of
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.kinds import MessageBody
from agent_core.sessions.leases import answer_of
from agent_core.sessions.records import Records
from agent_core.sessions.standing import ROOT
from agent_core.sessions.store import Store
from agent_core.sessions.timed_records import TimedRecords
from agent_core.sessions.writer import SAVING
from agent_core.stored_sessions import Sessions
from agent_core.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run ended.

    - message: the final one; None if calls wait or the run was cancelled
    - interrupts: what it waits for
    - usage: what its model calls cost, per model
    - cut: why the provider cut the message, if it did
    """

    message: Message | None
    status: RunStatus
    interrupts: tuple[Interrupt, ...] = ()
    usage: tuple[Usage, ...] = ()
    cut: Cut | None = None


class Engine:
    """The ReAct engine.

    - store: where sessions are stored; by default in memory
    - gate: who may run when; by default a queue of 8 for each session, 30 s
    - timeouts: how long model calls may take
    - lease_seconds: how long this worker counts as alive after its last heartbeat; the store's own

    Use it with `async with`: leaving stops the runs that are still under way and closes everything.
    """

    def __init__(
        self,
        *,
        store: Store | None = None,
        gate: Gate | None = None,
        timeouts: Timeouts | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self.store: Store = store if store is not None else InMemoryStore()
        self.gate = gate if gate is not None else Gate()
        http = HttpClient(timeouts if timeouts is not None else Timeouts())
        self._runner = Runner(self.store, self.gate, http, lease_seconds)
        self.aside = self._runner.aside
        self.sessions = Sessions(self._runner)
        self.records: Records = TimedRecords(self.store.records)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop the runs under way, wait until they are saved, and close the clients and the store."""
        await self._runner.aclose()

    async def call(
        self, agent: Agent, input: Input, *, user_id: str, session_id: str, run_id: str | None = None
    ) -> RunResult:
        """Run the agent and return its final message.

        Raises InvalidRequest, SessionBusy or QueueFull before it starts, and RunError with the run's code if it failed.
        Cancelling the caller cancels the run.
        """
        run = self.admit(agent, input, user_id=user_id, session_id=session_id, run_id=run_id)
        task = self.start(run, Nowhere())
        try:
            end = await asyncio.shield(task)
        except asyncio.CancelledError:
            run.stop("disconnect")
            await asyncio.wait({task}, timeout=SAVING)
            raise
        if isinstance(end, RunFailed):
            if end.code == "invalid_request":
                raise InvalidRequest(end.message, end.param)
            raise RunError(end.code, end.message)
        return RunResult(message=run.answer, status=end.status, interrupts=end.interrupts, usage=end.usage, cut=end.cut)

    async def stream_events(
        self, agent: Agent, input: Input, *, user_id: str, session_id: str, run_id: str | None = None
    ) -> AsyncGenerator[Event, None]:
        """Run the agent and yield its events; a failed run ends with RunFailed and raises nothing.

        Leaving the iteration early (`aclose`) cancels the run. A slow reader slows the model down.
        Raises InvalidRequest, SessionBusy or QueueFull at the first step.
        """
        run = self.admit(agent, input, user_id=user_id, session_id=session_id, run_id=run_id)
        channel = Channel()
        task = self.start(run, channel)
        try:
            async with aclosing(channel.events()) as events:
                async for event in events:
                    yield event
        finally:
            if not task.done():
                run.stop("disconnect")
                channel.close()
                await asyncio.wait({task}, timeout=SAVING)

    async def observe(self, agent: Agent, messages: Sequence[Message], *, user_id: str, session_id: str) -> int:
        """Append the messages to the agent's context without reasoning. Takes the gate as a run does.

        Messages with an id that the history knows are skipped; returns how many were not. Raises InvalidRequest for
        tool calls and results, which cannot be observed.
        """
        for index, message in enumerate(messages):
            if message.role == "tool" or message.tool_calls:
                raise InvalidRequest("Tool calls and their results cannot be observed.", f"messages[{index}]")
        run_id = new_id("observe")
        async with self._runner.writing(
            SessionKey(user_id=user_id, session_id=session_id), run_id, always=False, of=(agent.name, ROOT)
        ) as writer:
            known = writer.fold.history.message_ids
            new: dict[str, Message] = {}
            for message in messages:
                if message.id not in known:
                    new.setdefault(message.id, message)
            bodies = (MessageBody(agent=agent.name, message=each) for each in new.values())
            await writer.append(*(addition_of(run_id, body) for body in bodies))
        return len(new)

    async def interrupt(self, *, user_id: str, session_id: str, run_id: str | None = None) -> bool:
        """Stop the session's run, or the named one, also while it waits. False if there is nothing to stop.

        The run ends as `cancelled`, with its calls paired and its text so far kept. A run of another worker is stopped
        at that worker's next heartbeat.
        """
        key = SessionKey(user_id=user_id, session_id=session_id)
        runs = self.under_way(key)
        if run_id is not None:
            named = [run for run in runs if run.run_id == run_id]
            if named:  # an id may come again: its latest attempt
                return named[-1].stop("interrupt")
            return await self.store.cancel(key, run_id)
        if runs and runs[0].holds:
            return runs[0].stop("interrupt")
        # Another worker may hold the session.
        return await self.store.cancel(key) or bool(runs and runs[0].stop("interrupt"))

    def under_way(self, key: SessionKey) -> tuple[Run, ...]:
        """The session's runs in this process: first the one that holds the gate, then those that wait."""
        return self._runner.under_way(key)

    def session(self, user_id: str, session_id: str) -> "Session":
        """A handle on one session, with the same verbs."""
        return Session(self, SessionKey(user_id=user_id, session_id=session_id))

    def admit(
        self,
        agent: Agent,
        input: Input,
        *,
        user_id: str,
        session_id: str,
        run_id: str | None = None,
        ephemeral: bool = False,
        seen: Callable[[str], bool] | None = None,
        outside: Outside | None = None,
    ) -> Run:
        """Check the input and take a place at the gate; nothing is done yet, and `start` must follow.

        With `start`, this is for an application with a sink of its own. An `ephemeral` session is in memory and is
        forgotten with its run; `outside` keeps what is needed of it. `seen` tells whether a reader has read the end of
        the run with this id since it was stored. Raises InvalidRequest, SessionBusy or QueueFull.
        """
        key = SessionKey(user_id=user_id, session_id=session_id)
        given = as_input(input)
        return self._runner.admit(agent, given, key, run_id, ephemeral=ephemeral, seen=seen, outside=outside)

    async def hold(self) -> str:
        """Count as alive in the store while a run is under way. Returns this owner's name. Raises RunError."""
        await answer_of(self._runner.heartbeat.ensure())
        return self._runner.owner

    def start(self, run: Run, sink: Sink) -> "asyncio.Task[AgentEnd | RunFailed]":
        """Carry the run out in a task of its own, which is never cancelled; stop it by `run.stop`.

        Its events go to the sink. The last one, whatever happens, is an AgentEnd or a RunFailed, and the task's result.
        """
        return self._runner.start(run, sink)


class Session:
    """A handle on one session of one user: the engine's verbs without the two ids."""

    __slots__ = ("_engine", "key")

    def __init__(self, engine: Engine, key: SessionKey) -> None:
        self._engine = engine
        self.key = key

    async def call(self, agent: Agent, input: Input, *, run_id: str | None = None) -> RunResult:
        return await self._engine.call(
            agent, input, user_id=self.key.user_id, session_id=self.key.session_id, run_id=run_id
        )

    def stream_events(self, agent: Agent, input: Input, *, run_id: str | None = None) -> AsyncGenerator[Event, None]:
        return self._engine.stream_events(
            agent, input, user_id=self.key.user_id, session_id=self.key.session_id, run_id=run_id
        )

    async def observe(self, agent: Agent, messages: Sequence[Message]) -> int:
        return await self._engine.observe(agent, messages, user_id=self.key.user_id, session_id=self.key.session_id)

    async def interrupt(self, run_id: str | None = None) -> bool:
        return await self._engine.interrupt(user_id=self.key.user_id, session_id=self.key.session_id, run_id=run_id)

    async def snapshot(self) -> bytes:
        """The whole session as it stands, as JSON; `restore` takes it back. Raises RunError."""
        return await self._engine.sessions.snapshot(self.key)

    async def restore(self, snapshot: bytes) -> None:
        """Fill an empty session from a snapshot. None of the copied calls is ever run, and no copied approval counts.
        Raises InvalidRequest if the session is not empty, or the bytes are no snapshot."""
        try:
            await self._engine.sessions.restore(self.key, snapshot)
        except SessionExists as error:
            raise InvalidRequest("The session is not empty; restore into a fresh one.") from error

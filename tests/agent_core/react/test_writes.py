"""What a run writes: nothing is believed before it is stored, and nothing that was told is told again."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agent_core import Agent, Engine, ToolContext, tool
from agent_core.errors import RunError
from agent_core.events import AgentEnd, Event, MessagesSnapshot, RunFailed, StateDelta, StateSnapshot, ToolResultEnd
from agent_core.messages import Message, ToolCall
from agent_core.names import SessionKey
from agent_core.run import Run
from agent_core.run_input import RunInput
from agent_core.sessions import writer as writer_module
from agent_core.sessions.entries import Addition, Entry, body_of
from agent_core.sessions.folds import Fold
from agent_core.sessions.history import history_of
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.kinds import MessageBody
from agent_core.sessions.state import LARGEST_STATE
from agent_core.sessions.store import Lease
from agent_core.sessions.writer import Writer
from agent_core.tools.base import ToolSpec
from tests.agent_core.test_state import said, stored
from tests.doubles import Collected, ScriptedModel, calls, events_of, says
from tests.entries import end_entry, message_entry, run_entry, started_entry, state_entry, titled_entry

KEY = SessionKey(user_id="u", session_id="s")


class OddStore(InMemoryStore):
    """Asks before each append what to do: fail, wait, or go on."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses: Callable[[Sequence[Entry]], bool] = lambda _: False
        self.gate: asyncio.Event | None = None

    async def append(self, lease: Lease, entries: Sequence[Entry], *, release: bool = False) -> None:
        if self.gate is not None:
            await self.gate.wait()
        await asyncio.sleep(0)
        if self.refuses(entries):
            raise RunError("store_unavailable")
        await super().append(lease, entries, release=release)


async def texts(store: InMemoryStore) -> list[str]:
    bodies = [body_of(entry) for entry in await store.load(KEY)]
    return [body.message.text for body in bodies if isinstance(body, MessageBody)]


async def admitted(engine: Engine, store: InMemoryStore) -> Run:
    run = engine.admit(Agent("a", ScriptedModel([says("hi")])), "go", user_id="u", session_id="s")
    lease = await store.acquire(KEY, "w")
    assert lease is not None
    run.lane.scope.acquire(Writer(store, lease, Fold(("a", "root"))))
    run.lane.begin_on(run.lane.scope.writing.fold.standing)
    return run


async def test_an_answer_that_was_deferred_is_still_stored_where_what_took_it_along_failed() -> None:
    store = OddStore()
    async with Engine(store=store) as engine:
        run = await admitted(engine, store)
        run.lane.defer(Message(id="m1", role="assistant", content="the answer"))
        store.refuses = lambda entries: entries[-1].kind == "titled"
        with pytest.raises(RunError):
            await run.lane.scope.writing.append(Addition(titled_entry("rename", "A title")))
        run.lane.defer(Message(id="m2", role="assistant", content="more"))
        await run.lane.scope.writing.append(Addition(end_entry(run.run_id, "completed")))
        run.lane.scope.ticket.leave()
        assert await texts(store) == ["the answer", "more"]
        assert [entry.kind for entry in await store.load(KEY)] == ["message", "message", "end"]


async def test_what_is_stored_when_nobody_waits_any_more_is_in_the_history_too(monkeypatch: pytest.MonkeyPatch) -> None:
    store = OddStore()
    async with Engine(store=store) as engine:
        run = await admitted(engine, store)
        with monkeypatch.context() as patched:
            patched.setattr(writer_module, "SAVING", 0.01)
            store.gate = asyncio.Event()
            with pytest.raises(RunError):
                await run.lane.commit(Message(id="m1", role="assistant", content="late"))
        assert list(run.messages) == []
        store.gate.set()
        await run.lane.scope.writing.quiet()
        assert [m.id for m in run.messages] == ["m1"]
        run.lane.scope.ticket.leave()
        assert await texts(store) == ["late"]


@tool
async def put(context: ToolContext, name: str, inner: str) -> str:
    """Puts a value into an object of the state, when the others are about to."""
    context.state.setdefault(name, {})[inner] = 1
    return f"put {name}.{inner}"


def parallel(*asked: tuple[str, str]) -> Agent:
    return Agent("a", ScriptedModel([calls(*asked), says("ok")]), tools=[put], parallel_tool_calls=True)


PUTS = [("put", '{"name":"x","inner":"a"}'), ("put", '{"name":"x","inner":"b"}'), ("put", '{"name":"y","inner":"c"}')]


async def test_the_first_changes_of_an_empty_state_are_all_kept_side_by_side() -> None:
    async with Engine(store=OddStore()) as engine:
        events = await events_of(engine, parallel(*PUTS), said())
        assert await stored(engine) == {"x": {"a": 1, "b": 1}, "y": {"c": 1}}
        state: Any = None
        for event in events:
            if isinstance(event, StateSnapshot):
                state = event.value
            elif isinstance(event, StateDelta):
                history = history_of([state_entry("r", value=state), state_entry("r", patch=event.patch)], "a")
                assert history.session.changes.misfits == 0
                state = history.state
        assert state == await stored(engine), "what the client was told"


@pytest.mark.parametrize("bad", range(1, 4))
async def test_a_change_that_could_not_be_stored_is_in_nothing_that_is_stored_after_it(bad: int) -> None:
    store = OddStore()
    async with Engine(store=store) as engine:
        await events_of(engine, Agent("a", ScriptedModel([says("hi")])), said({"kept": True}))
        left = [bad]

        def refuses(entries: Sequence[Entry]) -> bool:
            left[0] -= any(entry.kind == "state" for entry in entries)
            return left[0] == 0 and any(entry.kind == "state" for entry in entries)

        store.refuses = refuses
        end = (await events_of(engine, parallel(*PUTS), said()))[-1]
        assert isinstance(end, RunFailed)
        store.refuses = lambda _: False
        history = history_of(await store.load(KEY), "a")
        assert history.session.changes.misfits == 0
        results = {m.text for m in history.messages if m.role == "tool"}
        kept = {f"put {name}.{inner}" for name, value in history.state.items() if name != "kept" for inner in value}
        assert {text for text in results if text.startswith("put ")} == kept
        assert history.state["kept"] is True
        again = await events_of(engine, parallel(*PUTS), said())
        assert isinstance(again[-1], AgentEnd)
        assert await stored(engine) == {"kept": True, "x": {"a": 1, "b": 1}, "y": {"c": 1}}


async def test_what_is_too_large_together_is_an_error_of_the_call_that_came_last() -> None:
    both = asyncio.Barrier(2)

    @tool
    async def swell(context: ToolContext, name: str) -> str:
        """Puts much."""
        context.state[name] = "x" * (LARGEST_STATE // 2)
        await both.wait()
        return name

    model = ScriptedModel([calls(("swell", '{"name":"a"}'), ("swell", '{"name":"b"}')), says("ok")])
    agent = Agent("a", model, tools=[swell], parallel_tool_calls=True)
    async with Engine(store=OddStore()) as engine:
        events = await events_of(engine, agent, said())
        told = [event for event in events if isinstance(event, ToolResultEnd)]
        assert sorted(event.status for event in told) == ["error", "ok"]
        assert "its change of the state was not kept" in next(e.content for e in told if e.status == "error")
        assert list(await stored(engine)) == [next(event.content for event in told if event.status == "ok")]


DAMAGED = [
    run_entry("r1", "a"),
    state_entry("r1", value={"n": 1}),
    state_entry("r1", patch=[{"op": "add", "path": "/gone/deeper", "value": 1}]),
    state_entry("r1", patch=[{"op": "add", "path": "/m", "value": 2}]),
    end_entry("r1", "completed"),
]


async def test_a_session_with_a_change_that_does_not_fit_goes_on_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = Agent("a", ScriptedModel([calls(PUTS[0]), says("ok")]), tools=[put])
    async with Engine() as engine:
        await engine.sessions.fill(SessionKey(user_id="u", session_id="s"), DAMAGED)
        with caplog.at_level(logging.WARNING, "agent_core"):
            for _ in range(2):
                assert isinstance((await events_of(engine, agent, said()))[-1], AgentEnd)
        assert len([each for each in caplog.messages if "do not fit" in each]) == 1
        assert await stored(engine) == {"n": 1, "m": 2, "x": {"a": 1}}
        assert history_of(await engine.store.load(KEY), "a").session.changes.misfits == 0


class Watching(Collected):
    """A sink that takes a snapshot of the run at each event, as a log does that is trimmed there."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        super().__init__(self.events)
        self.emit = self._see
        self.run: Run | None = None
        self.snapshots: list[set[str]] = []

    def _see(self, event: Event) -> None:
        assert self.run is not None
        self.events.append(event)
        shown = [each for each in self.run.snapshot() if isinstance(each, MessagesSnapshot)]
        messages = shown[0].messages if shown else ()
        self.snapshots.append({m.tool_call_id or "" for m in messages if m.role == "tool"})

    def check(self) -> None:
        """Behind each snapshot, exactly those results are told that are not in it."""
        told = [event.call_id if isinstance(event, ToolResultEnd) else "" for event in self.events]
        for at, snapshot in enumerate(self.snapshots):
            assert not snapshot & set(told[at + 1 :]), f"told again behind event {at}"
            assert set(told[: at + 1]) - {""} <= snapshot, f"lost at event {at}"


@pytest.mark.parametrize("side_by_side", [False, True])
async def test_wherever_a_log_is_trimmed_each_result_is_told_once(side_by_side: bool) -> None:
    refused = [("theirs", "{"), ("theirs", '{"n":"no number"}')]
    model = ScriptedModel([calls(*PUTS, *refused), calls(*PUTS[:1]), says("done")])
    agent = Agent("a", model, tools=[put], parallel_tool_calls=side_by_side)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    given = RunInput(messages=said().messages, tools=(ToolSpec(name="theirs", parameters=schema),))
    sink = Watching()
    async with Engine(store=OddStore()) as engine:
        sink.run = engine.admit(agent, given, user_id="u", session_id="s")
        end = await engine.start(sink.run, sink)
        assert isinstance(end, AgentEnd)
    assert sum(isinstance(event, ToolResultEnd) for event in sink.events) == 6
    assert any(isinstance(event, StateDelta) for event in sink.events)
    sink.check()


async def test_a_log_that_is_trimmed_at_the_run_s_beginning_tells_what_a_lost_run_left_open_once() -> None:
    asked = (ToolCall(id="c1", name="put"), ToolCall(id="c2", name="put"), ToolCall(id="c3", name="put"))
    lost = [
        run_entry("lost", "a"),
        message_entry("lost", "a", Message(id="u1", role="user", content="go")),
        message_entry("lost", "a", Message(id="a1", role="assistant", tool_calls=asked)),
        started_entry("lost", "c1"),
        state_entry("lost", value={"n": 1}),
    ]
    sink = Watching()
    async with Engine() as engine:
        await engine.sessions.fill(SessionKey(user_id="u", session_id="s"), lost)
        agent = Agent("a", ScriptedModel([says("fine")]), tools=[put])
        sink.run = engine.admit(agent, said(), user_id="u", session_id="s")
        assert isinstance(await engine.start(sink.run, sink), AgentEnd)
        kept = history_of(await engine.store.load(KEY), "a")
        assert list(sink.run.messages) == kept.messages
        fold = engine._runner.histories.folds.take(KEY, ("a", "root"))
        assert fold is not None
        assert fold.history.turn.acted == kept.turn.acted
    told = [event.call_id for event in sink.events if isinstance(event, ToolResultEnd)]
    assert told == ["c1", "c2", "c3"]
    assert any(isinstance(event, StateSnapshot) for event in sink.events)
    sink.check()


async def test_a_result_that_is_stored_late_is_not_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run has given the write up, and is about to answer the call as interrupted, when it is stored after all."""
    store = OddStore()
    late = asyncio.Event()
    quiet = Writer.quiet

    async def let_go(writer: Writer) -> None:
        late.set()
        await quiet(writer)

    @tool
    async def act() -> str:
        """Acts; what comes next is stored late."""
        store.gate = late
        monkeypatch.setattr(writer_module, "SAVING", 0.01)
        return "acted"

    monkeypatch.setattr(Writer, "quiet", let_go)
    agent = Agent("a", ScriptedModel([calls(("act", "")), says("ok")]), tools=[act])
    async with Engine(store=store) as engine:
        end = (await events_of(engine, agent, said()))[-1]
        assert isinstance(end, RunFailed)
        messages = history_of(await store.load(KEY), "a").messages
        assert [m.text for m in messages if m.role == "tool"] == ["acted"]
        assert len(await texts(store)) == len(messages)

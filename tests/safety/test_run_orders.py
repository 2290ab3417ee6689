"""What a run does before it does the next thing: what a crash or a client in between must not spoil."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from agent_core import Agent, Engine, ToolContext, tool
from agent_core.aside import SMALL
from agent_core.events import AgentEnd, Custom, Event, Progress, RunFailed, ToolResultEnd
from agent_core.gate import Gate
from agent_core.interrupts import Decision, Interrupt
from agent_core.messages import Message, ToolCall
from agent_core.names import SessionKey
from agent_core.run_input import RunInput
from agent_core.sessions.entries import Entry, entry_of
from agent_core.sessions.history import history_of, take_all
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.kinds import AnsweredBody, AskedBody, Body, EndBody, MessageBody, RunBody
from tests.app.doubles import until
from tests.app.runs.test_registry import finish, runs, start
from tests.doubles import Collected, ScriptedModel, Step, calls, events_of, says
from tests.entries import titled_entry
from tests.safety.recording import KEY, RecordingStore

USER = Message(id="u1", role="user", content="go")


async def results(store: InMemoryStore) -> list[tuple[str, str]]:
    """Each result's call and status."""
    messages = history_of(await store.load(KEY), "a").messages
    return [(m.tool_call_id or "", m.status) for m in messages if m.role == "tool"]


@pytest.mark.parametrize("given", [(), (USER,), (USER, Message(id="u2", role="user", content="?"))])
async def test_a_call_of_a_lost_run_that_had_started_was_interrupted_and_is_not_run_again(
    given: tuple[Message, ...],
) -> None:
    """What is on disk when the tool begins is all that the next worker has."""
    store, left, ran = InMemoryStore(), list[Entry](), list[str]()

    @tool
    async def act() -> str:
        """Acts; the worker is lost in it."""
        ran.append("act")
        left.extend(await store.load(KEY))
        return "done"

    asked = [("act", ""), ("act", "")]
    agent = Agent("a", ScriptedModel([calls(*asked), says("done")]), tools=[act])
    async with Engine(store=store) as engine:
        await events_of(engine, agent, RunInput(messages=(USER,)))
    assert [each.kind for each in left[:5]] == ["run", "message", "titled", "message", "started"]
    del left[5 + 1 :]  # as the first call found it: both are cleared in one step
    ran.clear()
    after = InMemoryStore()
    async with Engine(store=after) as engine:
        await engine.sessions.fill(SessionKey(user_id="u", session_id="s"), left)
        again = Agent("a", ScriptedModel([says("never mind")]), tools=[act])
        events = await events_of(engine, again, RunInput(messages=given))
        assert ran == []
        assert await results(after) == [("call_act_0", "interrupted"), ("call_act_1", "interrupted")]
    told = [event.status for event in events if isinstance(event, ToolResultEnd)]
    assert told == ["interrupted", "interrupted"]


def _asked(approved: str) -> list[Entry]:
    """A session in which a person was asked about such a call and has agreed, to a run that was lost."""
    interrupt = Interrupt(id="i1", kind="approval", call_id="c1", name="send", arguments=approved)
    call = ToolCall(id="c1", name="send", arguments='{"to":"ann"}')
    bodies: list[Body] = [
        RunBody(agent="a"),
        MessageBody(agent="a", message=USER),
        MessageBody(agent="a", message=Message(id="a1", role="assistant", tool_calls=(call,))),
        AskedBody(agent="a", interrupt=interrupt),
        EndBody(status="approval"),
    ]
    answered: list[Body] = [RunBody(agent="a"), AnsweredBody(interrupt_id="i1", decision=Decision(kind="approved"))]
    return [*(entry_of("r", body) for body in bodies), *(entry_of("lost", body) for body in answered)]


@pytest.mark.parametrize(("approved", "sent"), [('{"to":"ann"}', ["ann"]), ('{"to":"bob"}', [])])
async def test_an_approval_counts_for_just_the_arguments_that_the_person_saw(approved: str, sent: list[str]) -> None:
    done: list[str] = []

    @tool(approval=True)
    def send(to: str) -> str:
        """Sends."""
        done.append(to)
        return "sent"

    async with Engine() as engine:
        await engine.sessions.fill(SessionKey(user_id="u", session_id="s"), _asked(approved))
        agent = Agent("a", ScriptedModel([says("ok")]), tools=[send])
        end = (await events_of(engine, agent, RunInput()))[-1]
    assert done == sent
    assert isinstance(end, AgentEnd)
    assert end.status == ("completed" if sent else "approval")


class Terminal(Collected):
    """A sink that looks at the gate and the store when the terminal event comes."""

    def __init__(self, engine: Engine, store: RecordingStore) -> None:
        self.events: list[Event] = []
        super().__init__(self.events)
        self.emit = self._see
        self.at_end: list[tuple[int, bool, bool]] = []
        self._engine = engine
        self._store = store

    def _see(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, AgentEnd | RunFailed):
            stored = any(step.startswith("appended") and step.endswith("end") for step in self._store.steps)
            self.at_end.append((len(self._engine.gate), bool(self._engine.under_way(KEY)), stored))


async def test_the_terminal_event_comes_when_all_is_stored_and_the_gate_is_free() -> None:
    store = RecordingStore(InMemoryStore())
    async with Engine(store=store, gate=Gate(when_busy="reject")) as engine:
        sink = Terminal(engine, store)
        run = engine.admit(Agent("a", ScriptedModel([says("hi")])), "go", user_id="u", session_id="s")
        await engine.start(run, sink)
    assert sink.at_end == [(0, False, True)]
    assert isinstance(sink.events[-1], AgentEnd)


async def test_whoever_only_writes_is_not_refused_by_a_gate_that_is_full() -> None:
    model = ScriptedModel([[asyncio.Event()]])
    gate = Gate(max_waiting=0)
    async with Engine(gate=gate) as engine:
        run = asyncio.create_task(events_of(engine, Agent("a", model), "go"))
        await model.streaming.wait()
        with pytest.raises(Exception, match=r".+"):
            await engine.call(Agent("a", model), "me too", user_id="u", session_id="s")
        filling = asyncio.create_task(
            engine.sessions.fill(SessionKey(user_id="u", session_id="s"), [titled_entry("r", "x")])
        )
        await until(lambda: filling.done() or len(gate._lines[KEY]) == 2)
        assert not filling.done(), "it waits for its turn"
        assert await engine.sessions.delete(SessionKey(user_id="u", session_id="s"))
        assert isinstance((await run)[-1], AgentEnd)
        await asyncio.gather(filling, return_exceptions=True)


async def test_a_read_mark_is_cleared_by_a_new_run_of_the_same_name() -> None:
    async with runs(says("hi")) as (registry, agent, _):
        for _ in range(2):
            run = start(registry, agent)
            await run.task
            await asyncio.sleep(0)
            assert not registry.was_read("u", "s", "r"), "nobody has read this one yet"
            await finish(run)
            assert registry.was_read("u", "s", "r")


async def test_a_tool_s_thread_that_outlives_its_call_emits_nothing() -> None:
    go_on, went_on = threading.Event(), threading.Event()

    @tool(timeout=0.05)
    def hang(context: ToolContext) -> str:
        """Outlives its call."""
        context.emit("before", 1)
        go_on.wait(10)
        context.emit("late", 1)
        context.progress("late")
        went_on.set()
        return "late"

    waits = asyncio.Event()
    steps: Sequence[Step] = [calls(("hang", "")), [waits, *says("done")]]
    model = ScriptedModel(steps)
    async with Engine() as engine:
        running = asyncio.create_task(events_of(engine, Agent("a", model, tools=[hang]), "go"))
        await model.streaming.wait()  # the call is over, and the run goes on
        go_on.set()
        await asyncio.get_running_loop().run_in_executor(None, went_on.wait)
        await asyncio.sleep(0)
        waits.set()
        events = await running
    assert [event.name for event in events if isinstance(event, Custom)] == ["before"]
    assert not any(isinstance(event, Progress) for event in events)
    assert [event.status for event in events if isinstance(event, ToolResultEnd)] == ["timed_out"]


async def test_a_title_that_a_person_gives_while_a_run_begins_is_not_overwritten_by_one_that_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run has read a long session without a title in a thread, and has not stored its input."""
    reading, go_on = threading.Event(), threading.Event()

    def read(*about: Any) -> Any:
        reading.set()
        go_on.wait(10)
        return take_all(*about)

    monkeypatch.setattr("agent_core.sessions.folds.take_all", read)
    long = Message(id="m", role="user", content="x" * (SMALL + 1))
    async with Engine() as engine:
        await engine.observe(Agent("a", ScriptedModel([says("hi")])), [long], user_id="u", session_id="s")
        engine._runner.histories.folds.forget(KEY)
        given = RunInput(messages=(Message(id="u1", role="user", content="a cut title"),))
        run = asyncio.create_task(events_of(engine, Agent("a", ScriptedModel([says("hi")])), given))
        await until(reading.is_set)
        renaming = asyncio.create_task(engine.sessions.rename(KEY, "Mine"))
        go_on.set()
        assert await renaming is True
        assert isinstance((await run)[-1], AgentEnd)
        info = await engine.store.find(KEY)
        assert info is not None
        assert info.title == "Mine"

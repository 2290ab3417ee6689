"""What a tool and instructions see of the state: a copy as it stood, made when they look at it, and only then."""

import asyncio
import copy
import dataclasses
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agent_core import Agent, Engine, RunContext, ToolContext, tool
from agent_core.events import StateDelta, StateSnapshot
from agent_core.messages import Message
from agent_core.react import contexts
from agent_core.react.calls import tool_call
from agent_core.react.contexts import call_context, seen_context
from agent_core.run_input import RunInput
from agent_core.sessions.state import as_json, copy_of, same_json
from tests.agent_core.test_state import stored
from tests.doubles import ScriptedModel, calls, events_of, says

GIVEN = {"large": ["x" * 100] * 1_000}


class Work(list[str]):
    """What was done with whole states."""

    def of(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*values: Any) -> Any:
            self.append(name)
            return work(*values)

        return noted


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    done = Work()
    monkeypatch.setattr(contexts, "copy_of", done.of("copy", copy_of))
    monkeypatch.setattr(tool_call, "as_json", done.of("encode", as_json))
    monkeypatch.setattr(tool_call, "same_json", done.of("compare", same_json))
    return done


@tool
def blind(n: int) -> str:
    """Has no context."""
    return str(n)


@tool
def idle(context: ToolContext) -> str:
    """Does not look at the state."""
    return context.call_id


@tool
def look(context: ToolContext) -> str:
    """Looks at the state, in a thread."""
    return str(len(context.state["large"]) + len(context.state["large"]))


@tool
async def put(context: ToolContext) -> str:
    """Replaces the state without looking at it."""
    context.set_state({"new": True})
    return "put"


async def run(*names: str, instructions: Any = "") -> list[Any]:
    model = ScriptedModel([calls(*((name, '{"n":1}' if name == "blind" else "{}") for name in names)), says("done")])
    agent = Agent("a", model, tools=[blind, idle, look, put], instructions=instructions)
    async with Engine() as engine:
        events = await events_of(engine, agent, given())
        assert await stored(engine) == ({"new": True} if "put" in names else GIVEN)
        return events


def given() -> RunInput:
    return RunInput(messages=(Message(id="u1", role="user", content="go"),), state=GIVEN)


@pytest.mark.parametrize(
    ("name", "done"),
    [("blind", []), ("idle", []), ("look", ["copy", "encode", "compare"]), ("put", ["encode", "compare"])],
)
async def test_a_call_pays_for_the_state_only_if_it_looks_at_it(work: Work, name: str, done: list[str]) -> None:
    events = await run(name, name)
    assert work == done * 2
    assert any(isinstance(each, StateDelta | StateSnapshot) for each in events) is (name == "put")


@pytest.mark.parametrize("looks", [False, True])
async def test_instructions_pay_for_the_state_only_if_they_look_at_it(work: Work, looks: bool) -> None:
    seen: list[Any] = []

    def instructions(context: RunContext) -> str:
        seen.append(context.state if looks else context.messages)
        return "Be brief."

    await run("blind", instructions=instructions)
    assert len(seen) == 2
    assert work == (["copy"] * 2 if looks else [])
    if looks:
        assert seen[0] == GIVEN
        assert seen[0] is not seen[1]


async def test_a_call_that_looks_late_sees_the_state_as_it_stood_when_it_began() -> None:
    changed, seen = asyncio.Event(), list[Any]()

    @tool
    async def late(context: ToolContext) -> str:
        """Looks when another call has changed the state."""
        await changed.wait()
        seen.append(context.state)
        return "late"

    @tool
    async def quick(context: ToolContext) -> str:
        """Changes the state."""
        context.state["quick"] = True
        return "quick"

    class Told(list[Any]):
        def append(self, event: Any) -> None:
            if isinstance(event, StateDelta | StateSnapshot):
                changed.set()
            super().append(event)

    model = ScriptedModel([calls(("late", "{}"), ("quick", "{}")), says("done")])
    agent = Agent("a", model, tools=[late, quick], parallel_tool_calls=True)
    async with Engine() as engine:
        told = Told()
        async for event in engine.stream_events(agent, given(), user_id="u", session_id="s"):
            told.append(event)
        assert seen == [GIVEN]
        assert await stored(engine) == GIVEN | {"quick": True}


def test_a_context_is_one_like_any_other() -> None:
    members = {"agent": "a", "user_id": "u", "session_id": "s", "run_id": "r"}
    before = {"list": [1]}
    call, seen = call_context(before, call_id="c", **members), seen_context(before, [], **members)
    assert isinstance(call, ToolContext)
    assert isinstance(seen, RunContext)
    assert (call.touched, call.state, call.touched) == (False, before, True)
    call.state["list"].append(2)
    assert (before, call.state, seen.state) == ({"list": [1]}, {"list": [1, 2]}, {"list": [1]})
    call.set_state(5)
    assert call.state == 5
    assert {each.name for each in dataclasses.fields(call)} == {each.name for each in dataclasses.fields(ToolContext)}
    with pytest.raises(dataclasses.FrozenInstanceError):
        call.state = 7  # type: ignore[misc]
    with pytest.raises(AttributeError, match="anything"):
        _ = call.anything


MEMBERS = {"agent": "a", "user_id": "u", "session_id": "s", "run_id": "r"}


def test_a_context_may_be_copied_and_its_copy_has_the_same_state() -> None:
    for call in (call_context({"n": [1]}, call_id="c", **MEMBERS), seen_context({"n": [1]}, [], **MEMBERS)):
        for other in (copy.copy(call), dataclasses.replace(call, run_id="other")):
            assert other.state is call.state
            assert other.state == {"n": [1]}
    call = call_context({"n": [1]}, call_id="c", **MEMBERS)
    dataclasses.replace(call, run_id="other").state["n"].append(2)
    assert (call.touched, call.state, call.before) == (True, {"n": [1, 2]}, {"n": [1]})


def test_instructions_see_the_messages_as_they_stood_when_they_were_asked() -> None:
    messages = [Message(id=f"m{number}", role="user", content="x") for number in range(3)]
    seen, shown = seen_context(None, messages, **MEMBERS), tuple(messages)
    messages.append(Message(id="later", role="user", content="x"))
    assert seen.messages == shown
    assert seen.messages is seen.messages


def test_threads_that_look_at_the_same_time_share_one_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    ready, looking = threading.Barrier(3), threading.Event()

    def slow(value: Any) -> Any:
        made.append(value)
        looking.wait()  # until both threads are about to look
        return copy_of(value)

    monkeypatch.setattr(contexts, "copy_of", slow)
    call = call_context({"n": 1}, call_id="c", **MEMBERS)

    def look_at() -> Any:
        ready.wait()
        return call.state

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.submit(look_at), threads.submit(look_at)
        ready.wait()
        looking.set()
        assert first.result() is second.result() is call.state
    assert len(made) == 1


def test_a_state_that_is_set_while_another_thread_looks_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    copying = threading.Event()
    call = call_context({"n": 1}, call_id="c", **MEMBERS)

    def slow(value: Any) -> Any:
        copying.set()
        return copy_of(value)

    monkeypatch.setattr(contexts, "copy_of", slow)
    with ThreadPoolExecutor(1) as threads:
        looks = threads.submit(lambda: call.state)
        copying.wait()
        call.set_state(5)
        assert looks.result() in ({"n": 1}, 5)
    assert call.state == 5

"""The engine's verbs beside running: observe, snapshot, restore, and what it refuses."""

from typing import Any

import pytest

import agent_core
from agent_core import Agent, Engine, Message, Rule
from agent_core.errors import InvalidRequest, QueueFull
from agent_core.gate import Gate
from agent_core.messages import ToolCall
from agent_core.names import SessionKey
from agent_core.run_input import RunInput
from agent_core.tools.base import ToolSpec
from tests.agent_core.react.agents import add
from tests.doubles import ScriptedModel, calls, says


def user(text: str, message_id: str = "") -> Message:
    return Message(id=message_id or text, role="user", content=text)


async def test_observe_adds_to_the_context_without_asking_the_model() -> None:
    model = ScriptedModel([says("hi")])
    agent = Agent("a", model)
    async with Engine() as engine:
        session = engine.session("u", "s")
        await session.observe(agent, [user("seen", "1"), user("seen again", "1")])
        await session.observe(agent, [user("seen", "1"), user("more", "2")])
        assert model.requests == []
        await session.call(agent, "hello")
    assert [m.text for m in model.requests[0].messages] == ["seen", "more", "hello"]


async def test_tool_calls_and_results_cannot_be_observed() -> None:
    agent = Agent("a", ScriptedModel([says("hi")]))
    forged = Message(id="x", role="assistant", tool_calls=(ToolCall(id="c", name="t"),))
    result = Message(id="y", role="tool", tool_call_id="c", content="1")
    async with Engine() as engine:
        for message in (forged, result):
            with pytest.raises(InvalidRequest) as refused:
                await engine.observe(agent, [user("fine"), message], user_id="u", session_id="s")
            assert refused.value.param == "messages[1]"


async def test_a_snapshot_restores_into_an_empty_session_only() -> None:
    model = ScriptedModel([calls(("add", '{"a":1,"b":1}')), says("2"), says("still 2")])
    agent = Agent("a", model, tools=[add])
    async with Engine() as engine:
        await engine.session("u", "s").call(agent, "1+1?")
        saved = await engine.session("u", "s").snapshot()
        copy = engine.session("u", "copy")
        await copy.restore(saved)
        await copy.call(agent, "sure?")
        assert [m.role for m in model.requests[-1].messages] == ["user", "assistant", "tool", "assistant", "user"]
        for target, data in (
            (copy, saved),
            (engine.session("u", "new"), b"nonsense"),
            (engine.session("u", "new"), b'[["r","message",{},"root"]]'),
        ):
            with pytest.raises(InvalidRequest):
                await target.restore(data)
        assert len(engine.gate) == 0


async def test_a_client_tool_may_not_take_a_server_tool_s_name() -> None:
    async with Engine() as engine:
        given = RunInput(messages=(user("hi"),), tools=(ToolSpec(name="other"), ToolSpec(name="add")))
        with pytest.raises(InvalidRequest) as refused:
            await engine.call(Agent("a", "fake:fake", tools=[add]), given, user_id="u", session_id="s")
        assert refused.value.param == "tools[1].name"
        assert len(engine.gate) == 0


async def test_the_same_gate_holds_for_direct_calls() -> None:
    async with Engine(gate=Gate(max_waiting=0)) as engine:
        ticket = engine.gate.enter(SessionKey(user_id="u", session_id="s"), "somebody")
        agent = Agent("a", ScriptedModel([says("hi")]))
        with pytest.raises(QueueFull):
            await engine.call(agent, "hello", user_id="u", session_id="s")
        ticket.leave()
        assert (await engine.call(agent, "hello", user_id="u", session_id="s")).status == "completed"


async def async_instructions(context: Any) -> str:
    return ""


@pytest.mark.parametrize("given", [5, None, b"hi", [user("x")]])
async def test_an_input_that_is_none_is_refused(given: Any) -> None:
    async with Engine() as engine:
        with pytest.raises(InvalidRequest):
            await engine.call(Agent("a", "fake:fake"), given, user_id="u", session_id="s")


async def test_a_lone_surrogate_in_the_input_is_replaced() -> None:
    model = ScriptedModel([says("hi")])
    async with Engine() as engine:
        await engine.call(Agent("a", model), "a\ud800b", user_id="u", session_id="s")
    assert model.requests[0].messages[0].text == "a\ufffdb"


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"name": "no good"}, "agent name"),
        ({"model": "gpt"}, "provider:model"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"max_retries": -1}, "max_retries"),
        ({"tools": [add, add]}, "two tools"),
        ({"model": 5}, "neither provider:model nor a Model"),
        ({"instructions": 5}, "instructions"),
        ({"instructions": async_instructions}, "not async"),
        ({"max_iterations": "3"}, "whole number"),
        ({"max_iterations": True}, "whole number"),
        ({"guards": None}, "guards must be Guards"),
        ({"guards": {"repeats": 3}}, "guards must be Guards"),
        ({"permissions": None}, "permissions must be Permissions"),
        ({"permissions": [Rule(tool="*", decision="deny")]}, "permissions must be Permissions"),
    ],
)
def test_an_agent_that_cannot_work_is_refused_when_it_is_made(members: dict[str, Any], told: str) -> None:
    with pytest.raises((ValueError, TypeError), match=told):
        Agent(**{"name": "a", "model": "fake:fake", **members})


def test_a_function_that_is_no_tool_is_refused_with_what_to_do() -> None:
    with pytest.raises(TypeError, match="decorate the function with @tool"):
        Agent("a", "fake:fake", tools=[print])  # type: ignore[list-item]


def test_the_library_gives_its_names_at_one_place() -> None:
    assert agent_core.Engine is Engine

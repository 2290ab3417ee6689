"""Acting: every call has exactly one result, whatever its tool does."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from agent_core.agent import Agent
from agent_core.context import ToolContext
from agent_core.engine import Engine
from agent_core.errors import ToolError
from agent_core.events import AgentEnd, Custom
from agent_core.names import SessionKey
from agent_core.permissions import Permissions, Rule
from agent_core.react.calls.tool_call import LARGEST_CUSTOM, LONGEST_RESULT
from agent_core.tools.function import tool
from tests.agent_core.react.agents import add, agent_of, results
from tests.doubles import ScriptedModel, calls, events_of, kinds, says


@pytest.mark.parametrize(
    ("call", "status", "told"),
    [
        (("fail", "{}"), "error", "ValueError (reference err_"),
        (("refuse", "{}"), "error", "out of stock"),
        (("nothing_of_the_kind", "{}"), "error", "The tools that can be called are: add, fail, refuse, wipe."),
        (("add", "{not json"), "error", "not a JSON object"),
        (("add", "[1]"), "error", "not a JSON object"),
        (("add", '{"a":1}'), "error", "b"),
    ],
)
async def test_every_kind_of_tool_failure_is_a_result(call: tuple[str, str], status: str, told: str) -> None:
    agent, _ = agent_of(calls(call), says("so it is"))
    async with Engine() as engine:
        events = await events_of(engine, agent, "go")
    [(got, content)] = results(events)
    assert got == status
    assert told in content
    assert "secret" not in content
    assert isinstance(events[-1], AgentEnd)


async def test_broken_arguments_are_echoed_up_to_800_characters() -> None:
    agent, _ = agent_of(calls(("add", "x" * 5_000)), says("ok"))
    async with Engine() as engine:
        [(_, content)] = results(await events_of(engine, agent, "go"))
    assert "x" * 800 in content
    assert "x" * 801 not in content


async def test_a_tool_that_takes_too_long_times_out_alone() -> None:
    cancelled: list[ToolContext] = []

    @tool(timeout=0.01)
    async def slow(context: ToolContext) -> str:
        """Never ends."""
        cancelled.append(context)
        await asyncio.Event().wait()
        return ""

    model = ScriptedModel([calls(("slow", ""), ("add", '{"a":1,"b":1}')), says("done")])
    async with Engine() as engine:
        events = await events_of(engine, Agent("a", model, tools=[slow, add]), "go")
    assert [status for status, _ in results(events)] == ["timed_out", "ok"]
    assert cancelled[0].cancelled.is_set()


async def test_a_tool_that_exits_or_cancels_itself_is_a_result_too() -> None:
    @tool
    async def odd() -> str:
        """Cancels itself."""
        raise asyncio.CancelledError

    @tool
    def leave() -> str:
        """Calls sys.exit."""
        raise SystemExit(3)

    model = ScriptedModel([calls(("odd", ""), ("leave", "")), says("done")])
    async with Engine() as engine:
        events = await events_of(engine, Agent("a", model, tools=[odd, leave]), "go")
    assert [status for status, _ in results(events)] == ["error", "error"]
    assert isinstance(events[-1], AgentEnd)


async def test_whatever_a_tool_raises_is_a_result_even_what_no_handler_expects() -> None:
    class Odd(BaseException):
        pass

    @tool
    async def odd() -> str:
        """Raises something odd."""
        raise Odd

    @tool
    def odd_in_a_thread() -> str:
        """Raises something odd in a thread."""
        raise GeneratorExit

    model = ScriptedModel([calls(("odd", ""), ("odd_in_a_thread", "")), says("done")])
    async with Engine() as engine:
        events = await events_of(engine, Agent("a", model, tools=[odd, odd_in_a_thread]), "go")
    assert [status for status, _ in results(events)] == ["error", "error"]
    assert isinstance(events[-1], AgentEnd)


async def test_the_model_is_told_in_words_how_a_call_ended() -> None:
    agent, model = agent_of(calls(("refuse", ""), ("wipe", ""), ("add", '{"a":1,"b":2}')), says("so it is"))
    agent = replace(agent, permissions=Permissions(rules=(Rule(tool="wipe", decision="deny", reason="Not here."),)))
    async with Engine() as engine:
        await events_of(engine, agent, "go")
    told = [message.text for message in model.requests[1].messages if message.role == "tool"]
    assert told[0] == "Error: out of stock"
    assert told[1].startswith("Denied: ")
    assert told[2] == "3"


async def test_calls_that_are_cleared_to_run_are_stored_as_started_with_their_message() -> None:
    seen: list[list[str]] = []
    engine = Engine()

    @tool
    async def look(context: ToolContext) -> str:
        """Look into the store while running."""
        entries = await engine.store.load(SessionKey(user_id=context.user_id, session_id=context.session_id))
        seen.append([entry.kind for entry in entries])
        return "seen"

    model = ScriptedModel([calls(("look", ""), ("nothing_of_the_kind", ""), ("look", "")), says("done")])
    async with engine:
        await events_of(engine, Agent("a", model, tools=[look]), "go")
    assert seen[0] == ["run", "message", "titled", "message", "message", "started", "started"], (
        "two were cleared, one refused"
    )


async def test_a_custom_event_is_what_the_tool_said_then_and_a_huge_one_is_the_tool_s_error() -> None:
    @tool
    async def tell(context: ToolContext) -> str:
        """Tell and then change it."""
        value = {"done": 1}
        context.emit("step", value)
        value["done"] = 2
        context.emit("huge", "x" * LARGEST_CUSTOM)
        return "never"

    model = ScriptedModel([calls(("tell", "")), says("done")])
    async with Engine() as engine:
        events = await events_of(engine, Agent("a", model, tools=[tell]), "go")
    assert [(event.name, event.value) for event in events if isinstance(event, Custom)] == [("step", {"done": 1})]
    assert results(events)[0][0] == "error"


async def test_a_tool_that_cancels_its_task_or_cannot_say_its_error_is_a_result() -> None:
    @tool
    async def vanish() -> str:
        """Cancels the task that it runs in."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return ""

    class Mute:
        def __str__(self) -> str:
            raise ValueError("no words")

    @tool
    def mute() -> str:
        """Raises an error that cannot be read."""
        raise ToolError(Mute())

    @tool
    def interrupt() -> str:
        """Raises what Ctrl-C raises."""
        raise KeyboardInterrupt

    model = ScriptedModel([calls(("vanish", ""), ("mute", ""), ("interrupt", "")), says("done")])
    async with Engine() as engine:
        events = await events_of(engine, Agent("a", model, tools=[vanish, mute, interrupt]), "go")
    assert [status for status, _ in results(events)] == ["error"] * 3
    assert isinstance(events[-1], AgentEnd)


async def test_a_long_result_is_cut_and_says_so() -> None:
    @tool
    def read() -> str:
        """Read a long file."""
        return "x" * 50_000

    model = ScriptedModel([calls(("read", "")), says("done")])
    async with Engine() as engine:
        [(_, content)] = results(await events_of(engine, Agent("a", model, tools=[read]), "go"))
    assert content.startswith("x" * LONGEST_RESULT + "\n[cut: 34000 of 50000 characters")


@pytest.mark.parametrize("name", [None, "", 5])
async def test_a_custom_event_without_a_name_is_the_tool_s_error(name: Any) -> None:
    @tool
    def tell(context: ToolContext) -> str:
        """Tell."""
        context.emit(name, 1)
        return "told"

    model = ScriptedModel([calls(("tell", "")), says("done")])
    async with Engine() as engine:
        events = await events_of(engine, Agent("a", model, tools=[tell]), "go")
    assert results(events)[0][0] == "error"
    assert "Custom" not in kinds(events)

"""Stopping a run: interrupt, a consumer that leaves, the end of the engine. It is saved each time."""

import asyncio

import pytest

from agent_core.agent import Agent
from agent_core.context import ToolContext
from agent_core.engine import Engine
from agent_core.errors import RunError
from agent_core.events import AgentEnd, Event, ModelCallStart, StepStart, TextDelta
from agent_core.messages import Message
from agent_core.models.base import TextPiece, ThinkingPiece
from agent_core.tools.function import tool
from tests.agent_core.react.agents import add, agent_of, results, stored
from tests.doubles import Collected, ScriptedModel, calls, events_of, says


async def test_interrupt_between_chunks_keeps_the_text_and_ends_as_cancelled() -> None:
    never = asyncio.Event()
    agent, model = agent_of([TextPiece("so "), TextPiece("far"), never])
    async with Engine() as engine:
        running = asyncio.create_task(events_of(engine, agent, "go"))
        await model.streaming.wait()
        assert await engine.interrupt(user_id="u", session_id="s")
        events = await running
        end = events[-1]
        assert isinstance(end, AgentEnd)
        assert end.status == "cancelled"
        assert [m.text for m in await stored(engine)] == ["go", "so far"]
        assert model.closed == 1
        assert not await engine.interrupt(user_id="u", session_id="s")


async def test_interrupt_during_a_tool_pairs_it_and_the_calls_behind_it() -> None:
    started = asyncio.Event()

    @tool
    async def hang() -> str:
        """Hangs."""
        started.set()
        await asyncio.Event().wait()
        return ""

    model = ScriptedModel([calls(("hang", ""), ("add", '{"a":1,"b":1}'))])
    agent = Agent("a", model, tools=[hang, add])
    async with Engine() as engine:
        running = asyncio.create_task(events_of(engine, agent, "go"))
        await started.wait()
        assert await engine.session("u", "s").interrupt()
        events = await running
        assert [status for status, _ in results(events)] == ["interrupted", "not_run"]
        assert [m.role for m in await stored(engine)] == ["user", "assistant", "tool", "tool"]
        assert len(engine.gate) == 0


async def test_interrupt_at_the_entry_of_reasoning_asks_the_model_no_more() -> None:
    engine = Engine()

    @tool
    async def stop_myself(context: ToolContext) -> str:
        """Interrupts its own run, and still returns."""
        asyncio.get_running_loop().call_soon(
            asyncio.ensure_future, engine.interrupt(user_id=context.user_id, session_id=context.session_id)
        )
        return "done"

    model = ScriptedModel([calls(("stop_myself", ""))])
    async with engine:
        events = await events_of(engine, Agent("a", model, tools=[stop_myself]), "go")
    assert len(model.requests) == 1
    end = events[-1]
    assert isinstance(end, AgentEnd)
    assert end.status == "cancelled"


async def test_a_stop_between_two_rounds_begins_no_call_of_the_model() -> None:
    agent, model = agent_of(says("hi"))
    events: list[Event] = []

    def stop_at_the_round(event: Event) -> None:
        events.append(event)
        if isinstance(event, StepStart):
            run.stop("interrupt")

    sink = Collected(events)
    sink.emit = stop_at_the_round
    async with Engine() as engine:
        run = engine.admit(agent, "go", user_id="u", session_id="s")
        await engine.start(run, sink)
    assert (model.requests, [each for each in events if isinstance(each, ModelCallStart)]) == ([], [])


async def test_a_run_that_waits_for_its_session_can_be_interrupted() -> None:
    never = asyncio.Event()
    agent, model = agent_of([never])
    async with Engine() as engine:
        first = asyncio.create_task(engine.call(agent, "one", user_id="u", session_id="s", run_id="r1"))
        await model.streaming.wait()
        second = asyncio.create_task(engine.call(agent, "two", user_id="u", session_id="s", run_id="r2"))
        await asyncio.sleep(0)
        assert await engine.interrupt(user_id="u", session_id="s", run_id="r2")
        assert (await second).status == "cancelled"
        assert await engine.interrupt(user_id="u", session_id="s", run_id="r1")
        assert (await first).status == "cancelled"
        assert len(engine.gate) == 0


async def test_leaving_the_stream_early_cancels_the_run() -> None:
    never = asyncio.Event()
    agent, model = agent_of([TextPiece("a"), never])
    async with Engine() as engine:
        stream = engine.stream_events(agent, "go", user_id="u", session_id="s")
        async for event in stream:
            if isinstance(event, TextDelta):
                break
        await stream.aclose()
        assert model.closed == 1
        assert len(engine.gate) == 0
        assert [m.text for m in await stored(engine)] == ["go", "a"]


async def test_cancelling_the_caller_cancels_the_run_and_it_is_saved() -> None:
    never = asyncio.Event()
    agent, model = agent_of([TextPiece("a"), never])
    async with Engine() as engine:
        task = asyncio.create_task(engine.call(agent, "go", user_id="u", session_id="s"))
        await model.streaming.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(engine.gate) == 0
        assert [m.text for m in await stored(engine)] == ["go", "a"]


async def test_closing_the_engine_ends_its_runs() -> None:
    agent, model = agent_of([asyncio.Event()])
    async with Engine() as engine:
        task = asyncio.create_task(engine.call(agent, "go", user_id="u", session_id="s"))
        await model.streaming.wait()
    with pytest.raises(RunError) as failed:
        await task
    assert failed.value.code == "draining"


async def test_a_run_id_that_came_again_names_its_latest_attempt() -> None:
    never = asyncio.Event()
    agent, model = agent_of([never])
    async with Engine() as engine:
        first = asyncio.create_task(engine.call(agent, "one", user_id="u", session_id="s", run_id="r"))
        await model.streaming.wait()
        again = asyncio.create_task(engine.call(agent, "two", user_id="u", session_id="s", run_id="r"))
        await asyncio.sleep(0)
        assert await engine.interrupt(user_id="u", session_id="s", run_id="r")
        assert (await again).status == "cancelled"
        assert not first.done()
        never.set()
        assert (await first).status == "completed"


async def test_a_tool_that_cleans_up_slowly_is_waited_for_when_the_engine_closes() -> None:
    started, cleaned = asyncio.Event(), asyncio.Event()

    @tool(timeout=0.01)
    async def slow() -> str:
        """Cleans up slowly."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            cleaned.set()
        return ""

    model = ScriptedModel([calls(("slow", "")), says("done")])
    async with Engine() as engine:
        await engine.call(Agent("a", model, tools=[slow]), "go", user_id="u", session_id="s")
        assert not cleaned.is_set()
    assert cleaned.is_set()


async def test_a_closed_engine_begins_nothing() -> None:
    agent, _ = agent_of(says("hi"))
    engine = Engine()
    await engine.aclose()
    for verb in (
        engine.call(agent, "go", user_id="u", session_id="s"),
        engine.observe(agent, [Message(id="1", role="user", content="x")], user_id="u", session_id="s"),
    ):
        with pytest.raises(RunError) as refused:
            await verb
        assert refused.value.code == "draining"


async def test_a_stop_before_the_nudge_asks_the_model_no_more() -> None:
    thinking = asyncio.Event()
    agent, model = agent_of([ThinkingPiece("hm"), thinking])
    async with Engine() as engine:
        running = asyncio.create_task(events_of(engine, agent, "go"))
        await model.streaming.wait()
        await engine.interrupt(user_id="u", session_id="s")
        await running
    assert len(model.requests) == 1

"""Calls of one answer that run side by side: their events, and their results."""

import asyncio
import logging
import threading

import pytest

from agent_core import Agent, Engine, ToolContext, tool
from agent_core.events import AgentEnd, Progress, ToolResultEnd
from agent_core.messages import MediaPart, TextPart
from agent_core.names import SessionKey
from agent_core.run_input import RunInput
from agent_core.sessions.history import history_of
from tests.agent_core.test_approval import yes
from tests.agent_core.test_state import said, stored
from tests.doubles import Collected, ScriptedModel, calls, events_of, says


def parallel(model: ScriptedModel, *tools: object, **members: object) -> Agent:
    return Agent("a", model, tools=tools, parallel_tool_calls=True, **members)  # type: ignore[arg-type]


async def test_calls_meet_each_other_and_results_come_as_they_are_done_but_stand_in_the_calls_order() -> None:
    first_may_end = asyncio.Event()

    @tool
    async def slow() -> str:
        """Waits for the other."""
        await first_may_end.wait()
        return "slow"

    @tool
    async def quick() -> str:
        """Lets the other go on."""
        first_may_end.set()
        return "quick"

    model = ScriptedModel([calls(("slow", ""), ("quick", "")), says("done")])
    async with Engine() as engine:
        events = await events_of(engine, parallel(model, slow, quick), "go")
        told = [event.content for event in events if isinstance(event, ToolResultEnd)]
        assert told == ["quick", "slow"]
        history = history_of(await engine.store.load(SessionKey(user_id="u", session_id="s")), "a")
        assert [m.text for m in history.messages if m.role == "tool"] == ["slow", "quick"]
        assert [m.text for m in model.requests[1].messages if m.role == "tool"] == ["slow", "quick"]


async def test_changes_of_the_state_by_calls_side_by_side_are_all_kept() -> None:
    both = asyncio.Barrier(2)

    @tool
    async def put(context: ToolContext, name: str) -> str:
        """Puts."""
        context.state[name] = True
        await both.wait()
        return name

    model = ScriptedModel([calls(("put", '{"name":"a"}'), ("put", '{"name":"b"}')), says("done")])
    async with Engine() as engine:
        await events_of(engine, parallel(model, put), said({"x": 1}))
        assert await stored(engine) == {"x": 1, "a": True, "b": True}


async def test_a_stop_cancels_all_that_run_side_by_side_and_pairs_each() -> None:
    started = 0
    both = asyncio.Event()

    @tool
    async def hang() -> str:
        """Hangs."""
        nonlocal started
        started += 1
        if started == 2:
            both.set()
        await asyncio.Event().wait()
        return ""

    model = ScriptedModel([calls(("hang", ""), ("hang", "{ }")), says("never")])
    async with Engine() as engine:
        running = asyncio.create_task(events_of(engine, parallel(model, hang), "go"))
        await both.wait()
        await engine.interrupt(user_id="u", session_id="s")
        events = await running
        assert isinstance(events[-1], AgentEnd)
        assert [e.status for e in events if isinstance(e, ToolResultEnd)] == ["interrupted", "interrupted"]


async def test_one_call_s_time_out_is_its_own() -> None:
    @tool(timeout=0.01)
    async def hang() -> str:
        """Hangs."""
        await asyncio.Event().wait()
        return ""

    @tool
    async def fine() -> str:
        """Works."""
        return "fine"

    model = ScriptedModel([calls(("hang", ""), ("fine", "")), says("done")])
    async with Engine() as engine:
        events = await events_of(engine, parallel(model, hang, fine), "go")
        assert {e.name: e.status for e in events if isinstance(e, ToolResultEnd)} == {"hang": "timed_out", "fine": "ok"}


async def test_progress_is_told_in_order_also_from_a_thread_and_never_after_the_call() -> None:
    late = threading.Event()
    kept: list[ToolContext] = []

    @tool
    def work(context: ToolContext) -> str:
        """Works."""
        for part in (0.0, 0.5, 2.0):
            context.progress(f"at {part}", part)
        context.progress("still")
        kept.append(context)
        return "done"

    async with Engine() as engine:
        events = await events_of(
            engine, Agent("a", ScriptedModel([calls(("work", "")), says("ok")]), tools=[work]), "go"
        )
        told = [(event.message, event.fraction) for event in events if isinstance(event, Progress)]
        assert told == [("at 0.0", 0.0), ("at 0.5", 0.5), ("at 2.0", 1.0), ("still", None)]
        kept[0].progress("too late")
        late.set()
        await asyncio.sleep(0)


async def test_a_tool_s_logger_knows_its_run_and_call(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def speak(context: ToolContext) -> str:
        """Logs."""
        context.logger.info("hello from the tool")
        return "ok"

    model = ScriptedModel([calls(("speak", "")), says("ok")])
    with caplog.at_level(logging.INFO, logger="ostinato.tools"):
        async with Engine() as engine:
            await engine.call(Agent("a", model, tools=[speak]), "go", user_id="u", session_id="s", run_id="r7")
    [record] = [each for each in caplog.records if each.name == "ostinato.tools"]
    assert (record.run_id, record.call_id) == ("r7", "call_speak_0")  # type: ignore[attr-defined]


async def test_media_in_a_result_are_parts_for_the_client_and_for_the_history() -> None:
    image = MediaPart(kind="image", source="data", value="aGk=", mime_type="image/png")

    @tool
    async def draw() -> list[TextPart | MediaPart]:
        """Draws."""
        return [TextPart(text="a dot"), image]

    async with Engine() as engine:
        events = await events_of(
            engine, Agent("a", ScriptedModel([calls(("draw", "")), says("ok")]), tools=[draw]), "go"
        )
        [result] = [event for event in events if isinstance(event, ToolResultEnd)]
        assert (result.content, result.parts) == ("a dot", (TextPart(text="a dot"), image))


async def test_an_unnamed_session_that_waits_for_a_person_moves_to_the_store() -> None:
    @tool(approval=True)
    async def send() -> str:
        """Sends."""
        return "sent"

    model = ScriptedModel([calls(("send", "")), says("done")])
    agent = Agent("a", model, tools=[send])
    async with Engine() as engine:
        run = engine.admit(agent, said(), user_id="u", session_id="chat_1", ephemeral=True)
        end = await engine.start(run, Collected([]))
        assert isinstance(end, AgentEnd)
        key = SessionKey(user_id="u", session_id="chat_1")
        history = history_of(await engine.store.load(key), "a")
        assert history.pending == end.interrupts
        assert history.title == "go"
        assert list(await engine._runner.scratch.load(key)) == []
        answers = tuple(map(yes, end.interrupts))
        result = await engine.call(agent, RunInput(answers=answers), user_id="u", session_id="chat_1")
        assert result.message is not None

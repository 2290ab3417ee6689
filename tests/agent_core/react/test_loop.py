"""The loop, driven by a scripted model: rounds, budget, summary, usage, context."""

import asyncio
import logging
from typing import Any

import pytest

from agent_core.agent import Agent
from agent_core.context import ContextItem, RunContext, ToolContext
from agent_core.engine import Engine
from agent_core.errors import ModelError, RunError
from agent_core.events import AgentEnd, Event, ExceedMaxIters, ModelCallEnd, Retry, RunFailed, TextDelta
from agent_core.messages import Message, ToolCall
from agent_core.models.base import CallPiece, ModelRequest, TextPiece, ThinkingPiece, UsagePiece
from agent_core.names import SessionKey
from agent_core.react.loop import BROKEN_OFF, NO_ANSWER, NO_SUMMARY, summarize
from agent_core.react.turn import CLOSING
from agent_core.run_input import RunInput
from agent_core.tools.function import tool
from agent_core.usage import Usage
from tests.agent_core.react.agents import agent_of, results, stored
from tests.doubles import Collected, ScriptedModel, calls, events_of, kinds, says
from tests.entries import message_entry, started_entry


async def test_an_answer_ends_the_run_at_once() -> None:
    agent, model = agent_of(says("Hi", " there"))
    async with Engine() as engine:
        result = await engine.call(agent, "hello", user_id="u", session_id="s")
        assert result.message is not None
        assert (result.message.text, result.status) == ("Hi there", "completed")
        assert len(model.requests) == 1
        assert [(m.role, m.text) for m in await stored(engine)] == [("user", "hello"), ("assistant", "Hi there")]


async def test_a_tool_is_run_and_its_result_goes_back_to_the_model() -> None:
    agent, model = agent_of(calls(("add", '{"a":2,"b":3}')), says("5"))
    async with Engine() as engine:
        events = await events_of(engine, agent, "2+3?")
    assert results(events) == [("ok", "5")]
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant", "tool"]
    assert kinds(events) == [
        "AgentStart", "ToolCallStart", "ToolCallDelta", "ToolCallEnd", "ToolResultEnd",
        "TextStart", "TextDelta", "TextEnd", "AgentEnd",
    ]  # fmt: skip


async def test_the_used_up_budget_asks_for_a_closing_answer_without_tools(caplog: pytest.LogCaptureFixture) -> None:
    agent, model = agent_of(
        calls(("add", '{"a":1,"b":1}')), says("so far: 2"), max_iterations=1, instructions="Be kind."
    )
    with caplog.at_level(logging.DEBUG):
        async with Engine() as engine:
            events = await events_of(engine, agent, "go")
            kept = await stored(engine)
    end = events[-1]
    assert isinstance(end, AgentEnd)
    assert end.status == "max_iterations"
    [exceeded] = [event for event in events if isinstance(event, ExceedMaxIters)]
    assert (exceeded.max_iters, exceeded.current_iter, exceeded.reply_id) == (1, 1, "")
    closing = model.requests[1]
    assert closing.tools == ()
    assert closing.messages[0].role == "system"
    assert closing.messages[0].text == f"{CLOSING}\n\nBe kind."
    assert all(message.role != "system" for message in kept), "the closing instruction is not stored"
    own = [r for r in caplog.records if r.name.startswith(("agent_core", "converters", "app", "ostinato"))]
    assert [(r.levelname, r.getMessage()) for r in own] == [
        ("DEBUG", "Maximum iterations reached. Generating summary…")
    ]


async def test_a_new_run_has_a_fresh_budget() -> None:
    agent, _ = agent_of(
        calls(("add", '{"a":1,"b":1}')),
        says("more to do"),
        calls(("add", '{"a":2,"b":2}')),
        says("done"),
        max_iterations=2,
    )
    async with Engine() as engine:
        first = await engine.call(agent, "go", user_id="u", session_id="s")
        second = await engine.call(agent, "continue", user_id="u", session_id="s")
    assert (first.status, second.status) == ("completed", "completed")


@pytest.mark.parametrize(
    "closing",
    [
        [ModelError("model_unreachable")],
        [TextPiece("  ")],
        [ThinkingPiece("hm")],
        [CallPiece(0, "c", "add")],
    ],
    ids=["fails", "blank", "only thinks", "asks for tools"],
)
async def test_a_closing_call_that_gives_no_answer_is_replaced_and_streamed(closing: list[Any]) -> None:
    agent, _ = agent_of(calls(("add", '{"a":1,"b":1}')), closing, max_iterations=1, max_retries=0)
    async with Engine() as engine:
        events = await events_of(engine, agent, "go")
        kept = await stored(engine)
    assert NO_SUMMARY in [event.text for event in events if isinstance(event, TextDelta)]
    assert kept[-1].text == NO_SUMMARY
    assert kept[-1].tool_calls == ()
    assert isinstance(events[-1], AgentEnd)
    assert kinds(events).count("ToolCallStart") == 1, "what was asked for without an offer is not shown"


async def test_a_blank_answer_gets_one_nudge_that_is_not_stored() -> None:
    agent, model = agent_of([ThinkingPiece("hm")], says("now"))
    async with Engine() as engine:
        result = await engine.call(agent, "go", user_id="u", session_id="s")
        assert result.message is not None
        assert result.message.text == "now"
        assert model.requests[1].messages[-1].role == "user"
        assert [m.text for m in await stored(engine)] == ["go", "now"]


async def test_after_the_nudge_the_last_text_counts_and_then_an_honest_fallback() -> None:
    said_before = [TextPiece("I add them."), *calls(("add", '{"a":1,"b":1}'))]
    agent, model = agent_of(said_before, [ThinkingPiece("hm")], [])
    async with Engine() as engine:
        result = await engine.call(agent, "go", user_id="u", session_id="s")
        assert result.message is not None
        assert result.message.text == "I add them."
        assert len(model.requests) == 3
        blank, _ = agent_of([])
        result = await engine.call(blank, "go", user_id="u", session_id="t")
        assert result.message is not None
        assert result.message.text == NO_ANSWER


async def test_a_failing_model_is_one_run_failed_and_the_session_goes_on() -> None:
    agent, _ = agent_of([TextPiece("half"), ModelError("model_bad_answer", detail="secret")], says("again"))
    async with Engine() as engine:
        events = await events_of(engine, agent, "go")
        end = events[-1]
        assert isinstance(end, RunFailed)
        assert end.code == "model_bad_answer"
        assert "secret" not in end.message
        assert kinds(events).count("RunFailed") == 1
        assert [m.text for m in await stored(engine)] == ["go", "half"]
        result = await engine.call(agent, "once more", user_id="u", session_id="s")
        assert result.status == "completed"


async def test_a_call_of_the_model_that_is_tried_again_or_broke_off_is_told_and_costs_what_it_cost() -> None:
    cost = UsagePiece(Usage(provider="p", model="m", input_tokens=30))
    broken = ModelError("model_unreachable", retry_after=0.0, retryable=True)
    agent, model = agent_of([broken], [*says("half"), cost, broken], max_retries=1)
    async with Engine() as engine:
        events = await events_of(engine, agent, "go")
    assert [(each.code, each.attempt) for each in events if isinstance(each, Retry)] == [("model_unreachable", 1)]
    assert len(model.requests) == 2
    end = events[-1]
    assert isinstance(end, RunFailed)
    assert [each.input_tokens for each in end.usage] == [30]
    assert sum(isinstance(each, ModelCallEnd) for each in events) == 1


async def test_what_a_client_is_told_first_is_that_the_run_began() -> None:
    agent, _ = agent_of(says("hi"), says("hi"))
    async with Engine() as engine:
        await events_of(engine, agent, RunInput(messages=(Message(id="u1", role="user", content="a"),), state={"n": 1}))
        events = await events_of(engine, agent, RunInput(messages=(Message(id="u2", role="user", content="b"),)))
    assert [type(each).__name__ for each in events[:2]] == ["AgentStart", "StateSnapshot"]


async def test_a_stream_that_breaks_off_in_a_call_leaves_it_paired() -> None:
    agent, model = agent_of([CallPiece(0, "c1", "add"), ModelError("model_unreachable")], says("fine"))
    async with Engine() as engine:
        events = await events_of(engine, agent, "go")
        assert results(events)[0][0] == "not_run"
        assert isinstance(events[-1], RunFailed)
        await engine.call(agent, "again", user_id="u", session_id="s")
    assert [message.role for message in model.requests[-1].messages] == ["user", "assistant", "tool", "user"]


async def test_a_fault_in_the_agents_own_code_is_internal() -> None:
    def broken(context: RunContext) -> str:
        raise KeyError("secret")

    agent = Agent("a", ScriptedModel([says("hi")]), instructions=broken)
    async with Engine() as engine:
        with pytest.raises(RunError) as failed:
            await engine.call(agent, "go", user_id="u", session_id="s")
    assert failed.value.code == "internal"
    assert "secret" not in failed.value.message


async def test_context_and_forwarded_props_reach_the_model_and_the_tools() -> None:
    seen: list[ToolContext] = []

    @tool
    def look(context: ToolContext) -> str:
        """Look."""
        seen.append(context)
        return "ok"

    model = ScriptedModel([calls(("look", "")), says("done")])
    given = RunInput(
        messages=(Message(id="u1", role="user", content="go"),),
        context=(ContextItem(description="page", value="basket"),),
        state={"n": 1},
        forwarded_props={"tenant": 7},
    )
    async with Engine() as engine:
        await events_of(engine, Agent("a", model, tools=[look], instructions="Help."), given)
    assert model.requests[0].messages[0].text == "Help.\n\nContext given by the application:\n- page: basket"
    assert (seen[0].forwarded_props, seen[0].state, seen[0].user_id) == ({"tenant": 7}, {"n": 1}, "u")
    assert look.spec.parameters.get("properties") == {}


async def test_usage_is_summed_over_the_runs_calls_and_unknown_counts_stay_out() -> None:
    def cost(tokens: int) -> UsagePiece:
        return UsagePiece(Usage(provider="p", model="m", input_tokens=tokens, output_tokens=1))

    agent, _ = agent_of([*calls(("add", '{"a":1,"b":1}')), cost(10)], [TextPiece("2"), cost(20)])
    async with Engine() as engine:
        result = await engine.call(agent, "go", user_id="u", session_id="s")
    assert result.usage == (Usage(provider="p", model="m", input_tokens=30, output_tokens=2),)


async def test_calls_that_a_lost_run_left_open_are_answered_before_what_the_user_says_next() -> None:
    agent, model = agent_of(says("fine"))
    async with Engine() as engine:
        session = engine.session("u", "s")
        hurt = Message(id="x", role="assistant", tool_calls=tuple(ToolCall(id=i, name="add") for i in "12"))
        await session.observe(agent, [Message(id="u0", role="user", content="earlier")])
        lease = await engine.store.acquire(session.key, "lost worker")
        assert lease is not None
        await engine.store.append(lease, [message_entry("r0", "a", hurt), started_entry("r0", "1")])
        events = await events_of(engine, agent, "go on")
        assert [status for status, _ in results(events)] == ["interrupted", "not_run"]
        assert [m.role for m in await stored(engine)] == ["user", "assistant", "tool", "tool", "user", "assistant"]
    assert [m.role for m in model.requests[0].messages] == ["user", "assistant", "tool", "tool", "user"]


def request_texts(request: ModelRequest) -> list[str]:
    return [message.text for message in request.messages]


async def test_two_runs_of_one_session_follow_each_other_and_two_sessions_go_side_by_side() -> None:
    gate = asyncio.Event()
    agent, model = agent_of([gate, TextPiece("first")], says("second"), says("other"))
    async with Engine() as engine:
        one = asyncio.create_task(engine.call(agent, "one", user_id="u", session_id="s"))
        await model.streaming.wait()
        two = asyncio.create_task(engine.call(agent, "two", user_id="u", session_id="s"))
        other = await engine.call(agent, "else", user_id="u", session_id="t")
        assert other.status == "completed"
        assert len(model.requests) == 2, "the second run of the session waits"
        gate.set()
        await asyncio.gather(one, two)
    assert request_texts(model.requests[-1]) == ["one", "first", "two"]


async def test_a_run_is_nudged_once_and_not_in_each_round() -> None:
    blank: list[Any] = [ThinkingPiece("hm")]
    agent, model = agent_of(blank, calls(("add", '{"a":1,"b":1}')), blank, max_iterations=5)
    async with Engine() as engine:
        result = await engine.call(agent, "go", user_id="u", session_id="s")
    assert result.message is not None
    assert result.message.text == NO_ANSWER
    assert len(model.requests) == 3


async def test_a_model_of_the_users_own_that_raises_anything_leaves_what_was_seen() -> None:
    agent, _ = agent_of([TextPiece("half"), ValueError("secret")], says("back"))
    async with Engine() as engine:
        events = await events_of(engine, agent, "go")
        assert kinds(events) == ["AgentStart", "TextStart", "TextDelta", "TextEnd", "RunFailed"]
        end = events[-1]
        assert isinstance(end, RunFailed)
        assert end.code == "internal"
        assert [m.text for m in await stored(engine)] == ["go", "half"]


async def test_a_closing_answer_that_breaks_off_is_kept_and_said_to_have_broken_off() -> None:
    closing: list[Any] = [TextPiece("so far"), ModelError("model_unreachable")]
    agent, _ = agent_of(calls(("add", '{"a":1,"b":1}')), closing, max_iterations=1, max_retries=0)
    async with Engine() as engine:
        result = await engine.call(agent, "go", user_id="u", session_id="s")
        assert [m.text for m in await stored(engine) if m.role == "assistant"] == ["", "so far", BROKEN_OFF]
    assert result.status == "max_iterations"


async def test_an_empty_conversation_ends_without_asking_the_model() -> None:
    agent, model = agent_of(says("hm?"))
    stray = Message(id="t", role="tool", tool_call_id="nobody's", content="42")
    async with Engine() as engine:
        result = await engine.call(agent, RunInput(messages=(stray,)), user_id="u", session_id="s")
    assert (result.status, result.message, model.requests) == ("completed", None, [])


async def test_pending_calls_are_settled_before_the_summary_in_this_order(caplog: pytest.LogCaptureFixture) -> None:
    agent, model = agent_of(says("so far"))
    async with Engine() as engine:
        key = SessionKey(user_id="u", session_id="s")
        run = engine.admit(agent, "go", user_id="u", session_id="s")
        events: list[Event] = []
        lane = run.lane
        lane.attach(Collected(events))
        lane.scope.acquire(
            await engine._runner.histories.open(engine._runner._leases, key, (agent.name, lane.id), wait=0)
        )
        lane.begin_on(lane.scope.writing.fold.standing)
        pending = Message(id="x", role="assistant", tool_calls=(ToolCall(id="c", name="add"),))
        await lane.commit(Message(id="u", role="user", content="go"))
        await lane.commit(pending)
        with caplog.at_level(logging.DEBUG):
            assert await summarize(lane) == "max_iterations"
        lane.scope.ticket.leave()
    assert kinds(events) == ["ToolResultEnd", "ExceedMaxIters", "TextStart", "TextDelta", "TextEnd"]
    assert [message.role for message in model.requests[0].messages][1:] == ["user", "assistant", "tool"]
    told = [record.levelname for record in caplog.records if record.name.startswith("agent_core")]
    assert told == ["WARNING", "DEBUG"]

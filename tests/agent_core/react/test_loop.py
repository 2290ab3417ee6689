"""The loop, driven by a scripted model: rounds, budget, summary, results, interrupts, pairing."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from agent_core.agent import Agent
from agent_core.context import ContextItem, RunContext, ToolContext
from agent_core.engine import Engine
from agent_core.errors import ModelError, RunError, ToolError
from agent_core.events import AgentEnd, Event, ExceedMaxIters, RunFailed, TextDelta, ToolResultEnd
from agent_core.messages import Message, ToolCall
from agent_core.models.base import CallPiece, ModelRequest, TextPiece, ThinkingPiece, UsagePiece
from agent_core.react.loop import NO_ANSWER, NO_SUMMARY
from agent_core.react.turn import CLOSING
from agent_core.run_input import RunInput
from agent_core.sessions.entries import SessionKey, history_of, message_entry
from agent_core.tools.base import ToolSpec
from agent_core.tools.function import tool
from agent_core.usage import Usage
from tests.doubles import ScriptedModel, Step, calls, events_of, kinds, says


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def fail() -> str:
    """Always fails."""
    raise ValueError("secret detail")


@tool
def refuse() -> str:
    """Refuses politely."""
    raise ToolError("out of stock")


@tool(approval=True)
def wipe() -> str:
    """Wipes everything."""
    raise AssertionError("this must never run")


def agent_of(*steps: Step, **limits: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(steps)
    return Agent("a", model, tools=[add, fail, refuse, wipe], **limits), model


async def stored(engine: Engine, session_id: str = "s") -> list[Message]:
    return history_of(await engine.store.load(SessionKey(user_id="u", session_id=session_id)), "a").messages


def results(events: Sequence[Event]) -> list[tuple[str, str]]:
    return [(event.status, event.content) for event in events if isinstance(event, ToolResultEnd)]


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


@pytest.mark.parametrize(
    ("call", "status", "told"),
    [
        (("fail", "{}"), "error", "ValueError (reference err_"),
        (("refuse", "{}"), "error", "out of stock"),
        (("nothing_of_the_kind", "{}"), "error", "The tools that can be called are: add, fail, refuse, wipe."),
        (("add", "{not json"), "error", "not a JSON object"),
        (("add", "[1]"), "error", "not a JSON object"),
        (("add", '{"a":1}'), "error", "b"),
        (("wipe", "{}"), "denied", "approval"),
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


PICK = ToolSpec(name="pick_colour", description="Ask the user for a colour.")


async def test_a_client_tool_ends_the_run_and_its_answer_goes_on() -> None:
    agent, model = agent_of(calls(("add", '{"a":1,"b":1}'), ("pick_colour", "")), says("blue it is"))
    async with Engine() as engine:
        ask = RunInput(messages=(Message(id="u1", role="user", content="colour?"),), tools=(PICK,))
        events = await events_of(engine, agent, ask)
        end = events[-1]
        assert isinstance(end, AgentEnd)
        assert end.status == "client_tools"
        assert results(events) == [("ok", "2")], "the server's tool beside it is run, the client's has no result"
        call = (await stored(engine))[1].tool_calls[1]
        back = Message(id="t1", role="tool", tool_call_id=call.id, content="blue")
        forged = Message(id="t2", role="tool", tool_call_id="call_add_0", content="99")
        done = await engine.call(agent, RunInput(messages=(forged, back), tools=(PICK,)), user_id="u", session_id="s")
        assert done.message is not None
        assert done.message.text == "blue it is"
    seen = [(m.tool_call_id, m.text) for m in model.requests[1].messages if m.role == "tool"]
    assert seen == [("call_add_0", "2"), (call.id, "blue")]


async def test_a_partly_answered_client_round_waits_for_the_rest_without_asking_the_model() -> None:
    agent, model = agent_of(calls(("pick_colour", ""), ("pick_colour", "")), says("both"))
    async with Engine() as engine:
        session = engine.session("u", "s")
        await session.call(agent, RunInput(messages=(Message(id="u1", role="user", content="?"),), tools=(PICK,)))
        one, two = (await stored(engine))[1].tool_calls
        back = [Message(id=c.id + "-r", role="tool", tool_call_id=c.id, content=c.id) for c in (one, two)]
        partly = await session.call(agent, RunInput(messages=(back[1],), tools=(PICK,)))
        assert partly.status == "client_tools"
        assert len(model.requests) == 1
        whole = await session.call(agent, RunInput(messages=(back[0],), tools=(PICK,)))
        assert whole.status == "completed"


async def test_a_new_user_message_settles_client_calls_as_not_run() -> None:
    agent, model = agent_of(calls(("pick_colour", "")), says("never mind"))
    async with Engine() as engine:
        ask = RunInput(messages=(Message(id="u1", role="user", content="?"),), tools=(PICK,))
        await events_of(engine, agent, ask)
        events = await events_of(engine, agent, "forget it")
    assert [status for status, _ in results(events)] == ["not_run"]
    assert [m.role for m in model.requests[1].messages] == ["user", "assistant", "tool", "user"]


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


async def test_a_history_damaged_by_a_crash_is_paired_before_the_next_request() -> None:
    agent, model = agent_of(says("fine"))
    async with Engine() as engine:
        session = engine.session("u", "s")
        hurt = Message(id="x", role="assistant", tool_calls=(ToolCall(id="lost", name="add"),))
        await session.observe(agent, [Message(id="u0", role="user", content="earlier")])
        lease = await engine.store.acquire(session.key, "lost worker")
        await engine.store.append(lease, [message_entry("r0", "a", hurt)])
        events = await events_of(engine, agent, "go on")
        assert results(events)[0][0] == "interrupted"
    assert [m.role for m in model.requests[0].messages] == ["user", "assistant", "tool", "user"]


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

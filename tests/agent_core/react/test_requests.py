"""What reaches the model beside the history: options, the choice of a tool, the fallback, a whole transcript."""

from agent_core.agent import Agent
from agent_core.engine import Engine
from agent_core.errors import ModelError
from agent_core.events import AgentEnd, Fallback, ModelCallEnd, RunFailed, TextDelta
from agent_core.messages import Message, ToolCall
from agent_core.models.base import CutPiece, ModelOptions, TextPiece, UsagePiece
from agent_core.run_input import RunInput
from agent_core.sessions.entries import SessionKey
from agent_core.sessions.history import history_of
from agent_core.usage import Usage
from tests.agent_core.react.agents import agent_of
from tests.agent_core.react.test_client_tools import PICK
from tests.doubles import Collected, ScriptedModel, calls, events_of, kinds, says


def user(text: str) -> Message:
    return Message(id=text, role="user", content=text)


async def test_options_go_with_every_call_and_a_forced_tool_only_with_the_first() -> None:
    agent, model = agent_of(calls(("add", '{"a":1,"b":1}')), says("2"))
    options = ModelOptions(temperature=0.5)
    async with Engine() as engine:
        await events_of(engine, agent, RunInput(messages=(user("go"),), tool_choice="add", options=options))
    assert [request.tool_choice for request in model.requests] == ["add", "auto"]
    assert [request.options for request in model.requests] == [options, options]


async def test_the_fallback_is_asked_once_where_the_model_fails_before_its_first_piece() -> None:
    first = ScriptedModel([[ModelError("model_auth")]], name="first")
    cost = UsagePiece(Usage(provider="p", model="second", input_tokens=1))
    second = ScriptedModel([[*says("saved"), cost]], name="second")
    async with Engine() as engine:
        events = await events_of(engine, Agent("a", first, fallback_model=second, max_retries=0), "go")
    assert kinds(events) == ["AgentStart", "Fallback", "TextStart", "TextDelta", "TextEnd", "AgentEnd"]
    [told] = [event for event in events if isinstance(event, Fallback)]
    assert (told.code, told.model) == ("model_auth", "second")
    [call] = [event for event in events if isinstance(event, ModelCallEnd)]
    assert call.usage is not None
    assert call.usage.model == "second"


async def test_a_fallback_that_fails_too_is_the_run_s_failure_and_is_not_tried_again() -> None:
    first = ScriptedModel([[ModelError("model_quota")]])
    second = ScriptedModel([[ModelError("model_unreachable", retryable=True)]])
    async with Engine() as engine:
        events = await events_of(engine, Agent("a", first, fallback_model=second), "go")
    end = events[-1]
    assert isinstance(end, RunFailed)
    assert end.code == "model_unreachable"
    assert (len(first.requests), len(second.requests)) == (1, 1)


async def test_nothing_falls_back_once_a_piece_was_forwarded() -> None:
    first = ScriptedModel([[TextPiece("half"), ModelError("model_unreachable", retryable=True)]])
    second = ScriptedModel([says("never")])
    async with Engine() as engine:
        events = await events_of(engine, Agent("a", first, fallback_model=second), "go")
    assert isinstance(events[-1], RunFailed)
    assert second.requests == []
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["half"]


async def test_a_whole_transcript_is_taken_as_it_is_and_nothing_in_it_is_carried_out() -> None:
    agent, model = agent_of(says("and so on"))
    asked = Message(id="a", role="assistant", tool_calls=(ToolCall(id="c1", name="add", arguments='{"a":1,"b":1}'),))
    transcript = (
        user("1+1?"),
        asked,
        Message(id="t", role="tool", tool_call_id="c1", content="2", name="add"),
        user("more"),
    )
    async with Engine() as engine:
        events = await events_of(engine, agent, RunInput(messages=transcript, whole=True))
        again = await events_of(engine, agent, RunInput(messages=(asked, user("again")), whole=True))
    assert [m.role for m in model.requests[0].messages] == ["user", "assistant", "tool", "user"]
    assert "ToolResultEnd" not in kinds(events)
    assert [m.text for m in model.requests[1].messages][-1] == "again", "a known session takes only what is new"
    assert isinstance(again[-1], AgentEnd)


async def test_an_ephemeral_session_is_forgotten_unless_calls_wait_for_the_client() -> None:
    agent, model = agent_of(calls(("pick_colour", "")), says("blue it is"))
    async with Engine() as engine:

        async def go(given: RunInput) -> None:
            run = engine.admit(agent, given, user_id="u", session_id="e", ephemeral=True)
            await engine.start(run, Collected([]))

        scratch = engine._runner.scratch
        key = SessionKey(user_id="u", session_id="e")
        await go(RunInput(messages=(user("?"),), tools=(PICK,), whole=True))
        assert [entry.kind for entry in await scratch.load(key)] == ["run", "message", "message", "end"]
        assert list(await engine.store.load(key)) == [], "the store of the others knows nothing of it"
        [call_id] = history_of(await scratch.load(key), agent.name).call_ids
        assert call_id != "call_pick_colour_0", "a provider's id may be another conversation's too"
        back = Message(id="t", role="tool", tool_call_id=call_id, content="blue")
        await go(RunInput(messages=(back,), tools=(PICK,)))
        assert model.requests[1].messages[-1].text == "blue"
        assert list(await scratch.load(key)) == []
        await go(RunInput(messages=(user("?"),), tools=(PICK,), whole=True))
        engine.forget(user_id="u", session_id="e")
        assert list(await scratch.load(key)) == []


async def test_a_provider_that_cuts_the_answer_is_told_with_the_call_s_end() -> None:
    async with Engine() as engine:
        model = ScriptedModel([[TextPiece("half"), CutPiece("length")], [TextPiece("whole")]])
        ends = [
            event
            for _ in range(2)
            for event in await events_of(engine, Agent("a", model), "go")
            if isinstance(event, ModelCallEnd)
        ]
    assert [end.cut for end in ends] == ["length", None]

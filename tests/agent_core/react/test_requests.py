"""What reaches the model beside the history: options, the choice of a tool, the fallback, a whole transcript."""

from agent_core.agent import Agent
from agent_core.engine import Engine
from agent_core.errors import ModelError, RunError
from agent_core.events import AgentEnd, Event, Fallback, ModelCallEnd, RunFailed, TextDelta, ToolResultStart
from agent_core.messages import Message, ToolCall
from agent_core.models.base import CutPiece, ModelOptions, TextPiece, UsagePiece
from agent_core.names import SessionKey
from agent_core.run import Run
from agent_core.run_input import RunInput
from agent_core.usage import Usage
from tests.agent_core.react.agents import add, agent_of
from tests.agent_core.react.test_client_tools import PICK
from tests.doubles import Collected, ScriptedModel, Step, calls, events_of, kinds, says


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


class Told:
    """Somebody outside, who notes what happened; `fails` names what it fails at."""

    def __init__(self, fails: str = "") -> None:
        self.told: list[str] = []
        self.call_ids: list[str] = []
        self._fails = fails

    async def before_calls(self) -> None:
        self._note("calls")

    async def at_end(self, run: Run, end: AgentEnd | RunFailed) -> None:
        self.call_ids = [call.id for message in run.messages for call in message.tool_calls]
        self._note(end.code if isinstance(end, RunFailed) else end.status)

    def _note(self, what: str) -> None:
        self.told.append(what)
        if what == self._fails:
            raise RunError("worker_lost" if what == "calls" else "internal")


async def outside_of(*steps: Step, fails: str = "") -> tuple[Told, list[Event], dict[SessionKey, object]]:
    """Run an ephemeral session. Returns what its Outside was told, its events, and the session that is left."""
    model = ScriptedModel(steps)
    given, outside, events = RunInput(messages=(user("?"),), tools=(PICK,), whole=True), Told(fails), list[Event]()
    async with Engine() as engine:
        agent = Agent("a", model, tools=[add])
        run = engine.admit(agent, given, user_id="u", session_id="e", ephemeral=True, outside=outside)
        await engine.start(run, Collected(events))
        assert list(await engine.store.load(run.key)) == [], "the store of the others knows nothing of it"
        return outside, events, dict(engine._runner.scratch._sessions)


async def test_an_ephemeral_session_is_forgotten_and_whoever_keeps_something_of_it_is_told_before_its_reader() -> None:
    outside, events, left = await outside_of(calls(("add", '{"a":1,"b":2}'), ("pick_colour", "")))
    assert outside.told == ["calls", "client_tools"]
    assert "call_pick_colour_1" not in outside.call_ids, "a provider's id may be another conversation's too"
    assert (left, kinds(events)[-1]) == ({}, "AgentEnd")


async def test_no_call_of_an_ephemeral_run_begins_where_somebody_outside_refuses() -> None:
    outside, events, left = await outside_of(calls(("add", '{"a":1,"b":2}')), fails="calls")
    assert outside.told == ["calls", "worker_lost"]
    assert (left, kinds(events)[-1]) == ({}, "RunFailed")
    assert not any(isinstance(event, ToolResultStart) for event in events)


async def test_an_ephemeral_run_has_failed_where_what_it_leaves_could_not_be_kept() -> None:
    _, events, left = await outside_of(says("hi"), fails="completed")
    end = events[-1]
    assert isinstance(end, RunFailed)
    assert (end.code, left) == ("store_unavailable", {})


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

"""A snapshot of a run: whenever it is taken, it and the events that come after it show the same as all events."""

from collections.abc import Sequence
from typing import Any

import pytest

from agent_core import Agent, Engine, ToolContext, tool
from agent_core.errors import ModelError
from agent_core.events import AgentEnd, Event
from agent_core.models.base import ArgumentsPiece, CallPiece, Piece, TextPiece, ThinkingPiece
from agent_core.run import Run
from converters.agui.dialect import Dialect
from converters.agui.stream import AguiStream
from tests.converters.agui.streams import check, read
from tests.doubles import ScriptedModel, Step, calls, says


@tool
async def look(what: str) -> str:
    """Look."""
    return f"a {what}"


class Watched:
    """A sink that has a snapshot taken at each event."""

    full = False
    attended = True
    next_number = 0

    def __init__(self, run: Run) -> None:
        self._run = run
        self.events: list[Event] = []
        self.snapshots: list[tuple[Event, ...]] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)
        self.snapshots.append(self._run.snapshot())

    async def room(self) -> None:
        pass


def shown(frames: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What a client has in the end, beside what it brought itself: messages by id, calls by id, results by call."""
    known: dict[str, Any] = {}
    for frame in frames:
        match frame["type"]:
            case "MESSAGES_SNAPSHOT":
                known = {}
                for message in frame["messages"]:
                    if message["role"] in ("assistant", "reasoning") and message.get("content"):
                        known[message["id"]] = message["content"]
                    for call in message.get("toolCalls", ()):
                        known[call["id"]] = call["function"]["arguments"]
                    if message["role"] == "tool":
                        known["result of " + message["toolCallId"]] = message["content"]
            case "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START":
                known.setdefault(frame["messageId"], "")
            case "TOOL_CALL_START":
                known[frame["toolCallId"]] = ""
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                known[frame["messageId"]] += frame["delta"]
            case "TOOL_CALL_ARGS":
                known[frame["toolCallId"]] += frame["delta"]
            case "TOOL_CALL_RESULT":
                known["result of " + frame["toolCallId"]] = frame["content"]
            case "RUN_FINISHED" | "RUN_ERROR":
                known["end"] = frame["type"]
    return {name: "" if value == "{}" else value for name, value in known.items()}


FIRST: list[Piece] = [
    ThinkingPiece("h"),
    ThinkingPiece("m"),
    TextPiece("I "),
    TextPiece("look. "),
    CallPiece(0, "c0", "look"),
    ArgumentsPiece(0, '{"what":'),
    CallPiece(1, "c1", "look"),
    ArgumentsPiece(1, '{"what":"dog"}'),
    ArgumentsPiece(0, '"cat"}'),
    TextPiece("And "),
    ThinkingPiece("again"),
    TextPiece("so."),
]

RUNS: dict[str, list[Step]] = {
    "an answer": [says("hel", "lo")],
    "everything": [FIRST, [ThinkingPiece("ok"), *says("a cat", " and a dog")]],
    "an unknown tool": [calls(("nothing", "{}")), says("sorry")],
    "a failure": [[*FIRST[:5], ModelError("model_unreachable")]],
    "a failure after a round": [FIRST, [*says("a cat"), ModelError("model_unreachable")]],
    "the budget is used up": [FIRST, FIRST, FIRST, says("enough")],
}


@pytest.mark.parametrize("name", RUNS)
async def test_a_picture_and_what_comes_after_it_show_what_all_events_show(name: str) -> None:
    agent = Agent("a", ScriptedModel(RUNS[name]), tools=[look], max_retries=0, max_iterations=3)
    async with Engine() as engine:
        run = engine.admit(agent, "go", user_id="u", session_id="s", run_id="r")
        sink = Watched(run)
        await engine.start(run, sink)
    whole = read(AguiStream("s", "r", Dialect.V1).feed(sink.events))
    check(whole)
    for place, snapshot in enumerate(sink.snapshots[:-1], start=1):
        wire = AguiStream("s", "r", Dialect.V1)
        frames = read(wire.rejoin(snapshot, place) + wire.feed(sink.events[place:]))
        check(frames)
        assert shown(frames) == shown(whole), f"at {type(sink.events[place - 1]).__name__}"


async def test_a_picture_holds_the_sessions_state() -> None:
    @tool
    async def count(context: ToolContext) -> str:
        """Count."""
        context.set_state({"n": 1})
        return "1"

    agent = Agent("a", ScriptedModel([calls(("count", "")), says("one")]), tools=[count])
    async with Engine() as engine:
        run = engine.admit(agent, "go", user_id="u", session_id="s", run_id="r")
        sink = Watched(run)
        end = await engine.start(run, sink)
        assert isinstance(end, AgentEnd)
    told = read(AguiStream("s", "r", Dialect.V1).rejoin(sink.snapshots[-2], 9))
    assert {"type": "STATE_SNAPSHOT", "snapshot": {"n": 1}} in told


async def test_before_the_session_is_read_a_picture_takes_no_messages_away() -> None:
    async with Engine() as engine:
        run = engine.admit(Agent("a", ScriptedModel([says("hi")])), "go", user_id="u", session_id="s", run_id="r")
        told = read(AguiStream("s", "r", Dialect.V1).rejoin(run.snapshot(), 1))
        assert [frame["type"] for frame in told] == ["RUN_STARTED"]
        await engine.start(run, Watched(run))

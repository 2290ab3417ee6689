"""Whole streams: the reference runs, the ways to end, a user's converters, and the public validator."""

import json
import logging
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.errors import SENTENCES
from agent_core.events import (
    AgentEnd,
    Custom,
    Event,
    ExceedMaxIters,
    FinalOutput,
    ModelCallEnd,
    ModelCallStart,
    RequireExternalExecution,
    Retry,
    RunFailed,
    StepEnd,
    StepStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolResultEnd,
    ToolResultStart,
)
from agent_core.usage import Usage, add_up
from converters.agui.dialect import Dialect
from converters.agui.encode import frame
from converters.agui.stream import AguiStream
from converters.wire import Frame
from tests.converters.agui.streams import RUN, START, THREAD, check, read

BOTH = pytest.mark.parametrize("dialect", Dialect)


def text(reply: str, *pieces: str) -> list[Event]:
    deltas = [TextDelta(run_id=RUN, reply_id=reply, text=each) for each in pieces]
    return [TextStart(run_id=RUN, reply_id=reply), *deltas, TextEnd(run_id=RUN, reply_id=reply)]


def thinking(reply: str, *pieces: str) -> list[Event]:
    ids: dict[str, Any] = {"run_id": RUN, "reply_id": reply, "block_id": f"th_{reply}"}
    return [ThinkingStart(**ids), *(ThinkingDelta(**ids, text=each) for each in pieces), ThinkingEnd(**ids)]


def tool_call(reply: str, call: str, name: str, *pieces: str) -> list[Event]:
    ids: dict[str, Any] = {"run_id": RUN, "reply_id": reply, "call_id": call}
    deltas = [ToolCallDelta(**ids, text=each) for each in pieces]
    return [ToolCallStart(**ids, name=name), *deltas, ToolCallEnd(**ids)]


def tool_result(call: str, name: str, content: str) -> list[Event]:
    start = ToolResultStart(run_id=RUN, call_id=call, name=name)
    end = ToolResultEnd(run_id=RUN, call_id=call, name=name, message_id=f"msg_{call}", status="ok", content=content)
    return [start, end]


def model_call(reply: str, *blocks: list[Event], usage: Usage | None = None) -> list[Event]:
    start = ModelCallStart(run_id=RUN, reply_id=reply, model="m")
    end = ModelCallEnd(run_id=RUN, reply_id=reply, model="m", usage=usage)
    return [start, *(event for block in blocks for event in block), end]


def usage(count: int) -> Usage:
    return Usage(provider="openai", model="m", input_tokens=count, output_tokens=1, total_tokens=count + 1)


ANSWER = "时间查询完成: 2026-09-29 14:39:32"

REFERENCE_RUN_1 = [
    START,
    StepStart(run_id=RUN, iteration=0),
    *model_call("msg_1", tool_call("msg_1", "call_1", "clock")),
    *tool_result("call_1", "clock", "2026-09-29 14:39:32"),
    StepEnd(run_id=RUN, iteration=0),
    ExceedMaxIters(run_id=RUN, max_iters=1, current_iter=1, created_at="2026-09-29T12:39:32.123Z"),
    *model_call("msg_2", thinking("msg_2", "I have the time."), text("msg_2", ANSWER)),
    FinalOutput(run_id=RUN, reply_id="msg_2", text=ANSWER),
    AgentEnd(run_id=RUN, status="max_iterations"),
]

REFERENCE_RUN_2 = [
    START,
    StepStart(run_id=RUN, iteration=0),
    *model_call("msg_1", tool_call("msg_1", "call_1", "schedule", '{"vessel":', '"A"}'), usage=usage(10)),
    *tool_result("call_1", "schedule", '{"voyage": 7}'),
    StepEnd(run_id=RUN, iteration=0),
    StepStart(run_id=RUN, iteration=1),
    *model_call("msg_2", tool_call("msg_2", "call_2", "cargo", '{"voyage":7}'), usage=usage(20)),
    *tool_result("call_2", "cargo", '{"cargo": 3}'),
    StepEnd(run_id=RUN, iteration=1),
    ExceedMaxIters(run_id=RUN, max_iters=2, current_iter=2),
    *model_call("msg_3", text("msg_3", "The cargo's ", "detail is missing."), usage=usage(30)),
    FinalOutput(run_id=RUN, reply_id="msg_3", text="The cargo's detail is missing."),
    AgentEnd(run_id=RUN, status="max_iterations", usage=add_up([usage(10), usage(20), usage(30)])),
]

CLIENT_TOOLS = [
    START,
    *model_call("msg_1", text("msg_1", "Pick one."), tool_call("msg_1", "call_1", "pick", "{}")),
    RequireExternalExecution(run_id=RUN, call_ids=("call_1",)),
    AgentEnd(run_id=RUN, status="client_tools"),
]

FAILED = [
    START,
    Retry(run_id=RUN, code="model_unreachable", attempt=1, delay=0.5),
    *model_call("msg_1", text("msg_1", "half an ans"))[:-2],
    RunFailed(run_id=RUN, code="model_unreachable", message=SENTENCES["model_unreachable"]),
]

RESUMED_TEXT = [
    START,
    *model_call("msg_1", text("msg_1", "First "), tool_call("msg_1", "call_1", "clock"), text("msg_1", "then.")),
    *tool_result("call_1", "clock", "12:00"),
    *model_call("msg_2", text("msg_2", "Done.")),
    Custom(run_id=RUN, name="note", value={"a": 1}),
    AgentEnd(run_id=RUN, status="completed"),
]

CANCELLED = [
    START,
    *model_call("msg_1", text("msg_1", "half"))[:-2],
    AgentEnd(run_id=RUN, status="cancelled"),
]

RUNS: dict[str, Sequence[Event]] = {
    "reference 1": REFERENCE_RUN_1,
    "reference 2": REFERENCE_RUN_2,
    "client tools": CLIENT_TOOLS,
    "failed": FAILED,
    "text around a call": RESUMED_TEXT,
    "cancelled": CANCELLED,
}


def play(events: Sequence[Event], dialect: Dialect = Dialect.V1) -> bytes:
    stream = AguiStream(THREAD, RUN, dialect)
    return stream.feed(events) + stream.finish()


@BOTH
def test_reference_run_1_is_exactly_twelve_events(dialect: Dialect) -> None:
    raw = {
        "type": "EXCEED_MAX_ITERS",
        "maxIters": 1,
        "currentIter": 1,
        "createdAt": "2026-09-29T12:39:32.123Z",
        "replyId": "",
    }
    ids: dict[str, Any] = {"threadId": THREAD, "runId": RUN}
    shown = {"messageId": "msg_call_1", "toolCallId": "call_1", "content": "2026-09-29 14:39:32", "role": "tool"}
    assert read(play(REFERENCE_RUN_1, dialect)) == [
        {"type": "RUN_STARTED", **ids, "protocolVersion": "1.0"},
        {"type": "TOOL_CALL_START", "toolCallId": "call_1", "toolCallName": "clock", "parentMessageId": "msg_1"},
        {"type": "TOOL_CALL_END", "toolCallId": "call_1"},
        {"type": "TOOL_CALL_RESULT", **shown},
        {"type": "RAW", "event": raw},
        {"type": "REASONING_MESSAGE_START", "messageId": "th_msg_2", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "th_msg_2", "delta": "I have the time."},
        {"type": "REASONING_MESSAGE_END", "messageId": "th_msg_2"},
        {"type": "TEXT_MESSAGE_START", "messageId": "msg_2", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "msg_2", "delta": ANSWER},
        {"type": "TEXT_MESSAGE_END", "messageId": "msg_2"},
        {"type": "RUN_FINISHED", **ids, "result": {"status": "max_iterations", "continuationRequired": True}},
    ]


@BOTH
def test_reference_run_2_tells_three_usages_and_their_sum(dialect: Dialect) -> None:
    events = read(play(REFERENCE_RUN_2, dialect))
    call = ["TOOL_CALL_START", "TOOL_CALL_ARGS"]
    ends = ["TOOL_CALL_END", "CUSTOM", "TOOL_CALL_RESULT"]
    answer = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "CUSTOM"]
    assert [each["type"] for each in events] == [
        "RUN_STARTED", *call, "TOOL_CALL_ARGS", *ends, *call, *ends, "RAW", *answer, "RUN_FINISHED",
    ]  # fmt: skip
    told = [each["value"] for each in events if each["type"] == "CUSTOM"]
    assert [(each["replyId"], each["inputTokens"]) for each in told] == [("msg_1", 10), ("msg_2", 20), ("msg_3", 30)]
    raw = next(each["event"] for each in events if each["type"] == "RAW")
    assert (raw["maxIters"], raw["currentIter"]) == (2, 2)
    assert events[-1]["usage"] == [
        {"provider": "openai", "model": "m", "inputTokens": 60, "outputTokens": 3, "totalTokens": 63}
    ]


@BOTH
@pytest.mark.parametrize("name", RUNS)
def test_the_client_accepts_every_run(name: str, dialect: Dialect) -> None:
    check(read(play(RUNS[name], dialect)), old=dialect is Dialect.OLD)


# The validator is from before 1.0 and does not know that a message may be continued after a call.
@BOTH
@pytest.mark.parametrize("name", sorted(set(RUNS) - {"text around a call"}))
def test_the_public_validator_accepts_every_run_without_a_warning(name: str, dialect: Dialect, tmp_path: Path) -> None:
    recorded = tmp_path / "stream.sse"
    recorded.write_bytes(play(RUNS[name], dialect))
    validate = Path(sys.executable).with_name("ag-ui-validate")
    command: list[str | Path] = [validate, recorded, "--max-warnings", "0", "--no-color"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(RUNS)), st.integers(0, 40), st.sampled_from(Dialect))
def test_a_run_cut_off_anywhere_still_ends_right(name: str, length: int, dialect: Dialect) -> None:
    events = read(play(RUNS[name][:length], dialect))
    check(events, old=dialect is Dialect.OLD)
    assert events[-1]["type"] in ("RUN_ERROR", "RUN_FINISHED")


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(sorted(RUNS)), st.lists(st.integers(1, 5), max_size=20))
def test_it_does_not_matter_how_many_events_come_at_once(name: str, sizes: list[int]) -> None:
    stream, parts, at = AguiStream(THREAD, RUN, Dialect.V1), list[bytes](), 0
    for size in sizes:
        parts.append(stream.feed(RUNS[name][at : at + size]))
        at += size
    parts.append(stream.feed(RUNS[name][at:]))
    assert b"".join(parts) == play(RUNS[name])


def test_a_stream_without_an_end_gets_one_error() -> None:
    stream = AguiStream(THREAD, RUN, Dialect.V1)
    stream.feed(REFERENCE_RUN_1[:3])
    before = stream.finished
    error = {"type": "RUN_ERROR", "message": SENTENCES["internal"], "code": "internal"}
    assert read(stream.finish())[-1] == error
    assert (before, stream.finished) == (False, True)
    assert stream.finish() == b""


def test_nothing_comes_after_the_terminal_event() -> None:
    stream = AguiStream(THREAD, RUN, Dialect.V1)
    stream.feed(CLIENT_TOOLS)
    assert stream.finished
    assert stream.feed([*FAILED, *CLIENT_TOOLS]) == stream.finish() == b""


def test_there_is_no_done_line() -> None:
    assert b"[DONE]" not in play(REFERENCE_RUN_1)


def test_a_client_tool_has_no_result_and_no_outcome() -> None:
    events = read(play(CLIENT_TOOLS))
    assert "TOOL_CALL_RESULT" not in [each["type"] for each in events]
    assert "outcome" not in events[-1]
    assert events[-1]["result"] == {"status": "client_tools"}


def test_what_is_open_when_a_run_fails_is_ended_before_the_error() -> None:
    assert [each["type"] for each in read(play(FAILED))[-2:]] == ["TEXT_MESSAGE_END", "RUN_ERROR"]


class Shouting:
    """A user's converter: text in capitals."""

    claims = (TextDelta,)

    def convert(self, event: Event) -> Sequence[Frame]:
        assert isinstance(event, TextDelta)
        delta = event.text.upper()
        return (frame({"type": "TEXT_MESSAGE_CONTENT", "messageId": event.reply_id, "delta": delta}),)


class Wild:
    """A user's converter that answers custom events with whatever it was told."""

    claims = (Custom,)

    def convert(self, event: Event) -> Sequence[Frame]:
        assert isinstance(event, Custom)
        return [frame(each) for each in event.value]


class Failing:
    """A user's converter with a fault."""

    claims = (TextDelta, AgentEnd)

    def convert(self, event: Event) -> Sequence[Frame]:
        raise LookupError("a fault")


def test_a_users_converter_wins() -> None:
    stream = AguiStream(THREAD, RUN, Dialect.V1, [Shouting()])
    deltas = [each["delta"] for each in read(stream.feed([START, *text("m", "a", "b")])) if "delta" in each]
    assert deltas == ["A", "B"]


@BOTH
def test_a_users_frames_pass_the_same_guard(dialect: Dialect) -> None:
    wild = [
        {"type": "TEXT_MESSAGE_END", "messageId": "nobody"},
        {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "n"},
        {"type": "RUN_FINISHED", "threadId": "other", "runId": "other"},
        {"type": "STEP_STARTED", "stepName": "s"},
    ]
    stream = AguiStream(THREAD, RUN, dialect, [Wild()])
    events = [START, *text("m", "a")[:-1], Custom(run_id=RUN, name="n", value=wild), TextEnd(run_id=RUN, reply_id="m")]
    check(read(stream.feed([*events, AgentEnd(run_id=RUN, status="completed")])), old=dialect is Dialect.OLD)


def test_a_converter_that_fails_costs_its_own_events_only(caplog: pytest.LogCaptureFixture) -> None:
    stream = AguiStream(THREAD, RUN, Dialect.V1, [Failing()])
    shown = stream.feed([START, *text("m", "a"), AgentEnd(run_id=RUN, status="completed")])
    types = ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_ERROR"]
    assert [each["type"] for each in read(shown)] == types, "its terminal event is not lost with it"
    assert stream.finish() == b""
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert f"TextDelta of run {RUN}" in caplog.text
    assert "LookupError" in caplog.text


def test_two_readers_of_one_run_see_it_each_in_their_own_dialect() -> None:
    new, old = AguiStream(THREAD, RUN, Dialect.V1), AguiStream(THREAD, RUN, Dialect.OLD)
    ends = []
    for each in CANCELLED:
        ends = [new.feed([each]), old.feed([each])]
    assert json.loads(ends[0].splitlines()[-2].removeprefix(b"data: "))["outcome"] == {"type": "cancelled"}
    assert json.loads(ends[1].splitlines()[-2].removeprefix(b"data: "))["result"] == {"status": "cancelled"}

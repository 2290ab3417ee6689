"""Frames for a user's own converters: checked, without nulls, in both dialects' shapes."""

from typing import Any

import pytest
from ag_ui.core import EventType, RunFinishedEvent, StateSnapshotEvent, StepStartedEvent, TextMessageContentEvent
from pydantic import ValidationError

from converters.agui.encode import frame
from converters.wire import Frame
from tests.converters.agui.streams import read

IDS = {"threadId": "t", "runId": "r"}


def shown(made: Frame, *, old: bool = False) -> dict[str, Any]:
    [event] = read(made.old if old and made.old is not None else made.data)
    return event


def test_a_model_becomes_a_frame() -> None:
    made = frame(StateSnapshotEvent(snapshot={"a": None}))
    assert (made.kind, made.key) == ("STATE_SNAPSHOT", "")
    assert shown(made) == {"type": "STATE_SNAPSHOT", "snapshot": {"a": None}}


@pytest.mark.parametrize("kind", ["STEP_STARTED", EventType.STEP_STARTED])
def test_members_become_a_frame(kind: object) -> None:
    made = frame({"type": kind, "stepName": "plan"})
    assert made.key == (None, "plan")
    assert shown(made) == {"type": "STEP_STARTED", "stepName": "plan"}


def test_optional_members_that_are_none_are_left_out() -> None:
    members = {"type": "TEXT_MESSAGE_START", "messageId": "m", "name": None, "timestamp": None, "metadata": None}
    assert shown(frame(members)) == {"type": "TEXT_MESSAGE_START", "messageId": "m"}


def test_nulls_inside_are_left_out_where_they_are_optional() -> None:
    interrupt = {"id": "i", "reason": "tool_call", "message": None, "toolCallId": None}
    outcome = {"type": "interrupt", "interrupts": [interrupt]}
    finished = shown(frame({"type": "RUN_FINISHED", **IDS, "outcome": outcome}))
    assert finished["outcome"]["interrupts"] == [{"id": "i", "reason": "tool_call"}]


def test_a_frame_knows_what_it_is_about() -> None:
    call = frame({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "n", "parentMessageId": "m"})
    assert (call.key, call.owner, call.ref) == ("c", None, "m")
    text = frame({"type": "TEXT_MESSAGE_END", "messageId": "m", "subagentRunId": "s"})
    assert (text.key, text.owner) == ("m", "s")
    child = frame({"type": "SUBAGENT_STARTED", "subagentRunId": "s", "name": "n", "parentSubagentRunId": "p"})
    assert (child.key, child.owner, child.ref) == ("s", None, "p")
    step = frame(StepStartedEvent(step_name="plan", subagent_run_id="s"))
    assert step.key == ("s", "plan")


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"type": "NO_SUCH_EVENT"},
        {"type": 5},
        {"type": "TEXT_MESSAGE_START"},
        {"type": "CUSTOM", "name": 4, "value": 1},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": "x"},
        {"type": "RUN_FINISHED", **IDS, "outcome": {"type": "maybe"}},
        {"type": "CUSTOM", "name": "n", "value": "x" * 1_000_001},
    ],
)
def test_an_event_that_agui_does_not_have_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        frame(members)


def test_what_is_missing_is_told() -> None:
    with pytest.raises(ValidationError, match="messageId"):
        frame({"type": "TEXT_MESSAGE_START"})


@pytest.mark.parametrize(
    "event",
    [
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": ""},
        TextMessageContentEvent(message_id="m", delta=""),
    ],
)
def test_an_empty_delta_sends_nothing(event: Any) -> None:
    assert frame(event).data == b""


def test_numbers_and_surrogates_are_made_json() -> None:
    made = frame({"type": "CUSTOM", "name": "\ud800", "value": [float("nan"), "\udfff", {1: 2}]})
    assert shown(made) == {"type": "CUSTOM", "name": "\ufffd", "value": [None, "\ufffd", {"1": 2}]}


def test_pending_calls_are_never_sent() -> None:
    outcome = {"type": "success", "pendingToolCallIds": ["c"]}
    finished = frame({"type": "RUN_FINISHED", **IDS, "outcome": outcome, "result": {"status": "client_tools"}})
    expected = {"type": "RUN_FINISHED", **IDS, "result": {"status": "client_tools"}}
    assert shown(finished) == shown(finished, old=True) == expected


def test_a_stop_has_another_shape_for_old_clients() -> None:
    finished = frame(RunFinishedEvent.model_validate({**IDS, "outcome": {"type": "cancelled"}}))
    assert shown(finished)["outcome"] == {"type": "cancelled"}
    assert shown(finished, old=True) == {"type": "RUN_FINISHED", **IDS, "result": {"status": "cancelled"}}


def test_a_result_with_parts_is_text_for_old_clients() -> None:
    image = {"type": "image", "source": {"type": "url", "value": "https://x/y.png"}}
    parts = [{"type": "text", "text": "a"}, image, {"type": "text", "text": "b"}]
    made = frame({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": parts})
    assert shown(made)["content"] == parts
    assert shown(made, old=True)["content"] == "ab"


def test_a_plain_frame_has_one_shape_only() -> None:
    assert frame({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": "x"}).old is None

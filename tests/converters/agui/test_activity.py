"""Guards and progress as activities, and what older clients get instead."""

import math
from typing import Any

import pytest
from ag_ui.core import ActivitySnapshotEvent

from agent_core.events import Event, Guard, Progress
from converters.agui.dialect import Dialect
from converters.agui.stream import AguiStream
from converters.openai.chat import ChatStream
from tests.converters.agui.streams import REPLY, RUN, START, THREAD, check, convert, read

TRIP = Guard(run_id=RUN, reply_id=REPLY, guard="repeats", action="nudge", tool="clock", count=3, message="Three times.")
HALF = Progress(run_id=RUN, call_id="call_1", name="upload", message="half", fraction=0.5)


def test_a_guard_is_an_activity() -> None:
    [shown] = convert(TRIP)
    assert shown == {
        "type": "ACTIVITY_SNAPSHOT",
        "messageId": "msg_1-guard-repeats-nudge-clock-3",
        "activityType": "guard",
        "content": {
            "guard": "repeats",
            "action": "nudge",
            "tool": "clock",
            "count": 3,
            "message": "Three times.",
        },
        "replace": True,
    }
    ActivitySnapshotEvent.model_validate(shown)


def test_a_guard_on_the_whole_run_names_no_tool() -> None:
    [shown] = convert(Guard(run_id=RUN, guard="seconds", action="answer", message="Time is up."))
    assert shown["content"] == {"guard": "seconds", "action": "answer", "message": "Time is up."}
    assert shown["messageId"].startswith(f"{RUN}-guard-seconds-answer")


def test_progress_is_one_activity_that_each_word_replaces() -> None:
    shown = convert(HALF, Progress(run_id=RUN, call_id="call_1", name="upload", message="done", fraction=1))
    assert shown[0] == {
        "type": "ACTIVITY_SNAPSHOT",
        "messageId": "call_1-progress",
        "activityType": "progress",
        "content": {"toolCallId": "call_1", "message": "half", "fraction": 0.5},
        "replace": True,
    }
    assert {each["messageId"] for each in shown} == {"call_1-progress"}
    assert shown[1]["content"]["fraction"] == 1
    for each in shown:
        ActivitySnapshotEvent.model_validate(each)


@pytest.mark.parametrize(
    ("fraction", "members"),
    [
        (None, {}),
        (0.0, {"fraction": 0.0}),
        (-1.0, {"fraction": 0.0}),
        (7.0, {"fraction": 1.0}),
        (math.nan, {}),
        (math.inf, {}),
    ],
)
def test_a_fraction_is_told_only_where_it_is_one(fraction: float | None, members: dict[str, float]) -> None:
    [shown] = convert(Progress(run_id=RUN, call_id="c", name="n", message="", fraction=fraction))
    assert shown["content"] == {"toolCallId": "c", "message": "", **members}


@pytest.mark.parametrize(
    ("event", "name", "value"),
    [
        (
            TRIP,
            "guard",
            {"guard": "repeats", "action": "nudge", "tool": "clock", "count": 3, "message": "Three times."},
        ),
        (HALF, "progress", {"toolCallId": "call_1", "message": "half", "fraction": 0.5}),
    ],
)
def test_an_old_client_is_told_as_custom(event: Event, name: str, value: dict[str, Any]) -> None:
    assert convert(event, dialect=Dialect.OLD) == [{"type": "CUSTOM", "name": name, "value": value}]


@pytest.mark.parametrize("dialect", Dialect)
def test_what_is_too_long_is_cut_and_lone_surrogates_are_replaced(dialect: Dialect) -> None:
    wild = "\ud800" + "x" * 3_000_000
    trip = Guard(run_id=RUN, guard="repeats", action="nudge", tool="t\ud800", message=wild)
    shown = convert(trip, Progress(run_id=RUN, call_id="c", name="n", message=wild), dialect=dialect)
    bodies = [each["value"] if dialect is Dialect.OLD else each["content"] for each in shown]
    assert [body["message"][:2] for body in bodies] == ["\ufffdx"] * 2
    assert all("characters are shown]" in body["message"] for body in bodies)


@pytest.mark.parametrize("dialect", Dialect)
def test_activities_break_no_order_and_have_the_same_ids_when_they_are_read_again(dialect: Dialect) -> None:
    streams = [AguiStream(THREAD, RUN, dialect) for _ in range(2)]
    first, again = ([stream.feed([START]), stream.feed([TRIP, HALF])] for stream in streams)
    assert first == again
    check(read(b"".join(first)), old=dialect is Dialect.OLD, ended=False)


def test_two_trips_are_two_activities() -> None:
    block = Guard(run_id=RUN, reply_id=REPLY, guard="repeats", action="block", tool="clock", count=4, message="No.")
    shown = convert(TRIP, block)
    assert len({each["messageId"] for each in shown}) == 2


def test_an_openai_client_is_told_only_where_it_asked_for_events() -> None:
    quiet, told = (
        ChatStream(RUN, THREAD, "m", frozenset(), events=events).feed([TRIP, HALF]) for events in (False, True)
    )
    assert b"x_agent" not in quiet
    assert told.count(b'"x_agent":{"type":') == 2
    assert told.count(b'"x_agent":{"type":"ACTIVITY_SNAPSHOT"') == 2

"""The ids of a stream's frames: each frame has one, and a stream goes on behind any of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.events import AgentEnd, Custom, Event, MessagesSnapshot, TextDelta, TextEnd, TextStart
from agent_core.messages import Message
from converters.agui.dialect import Dialect
from converters.agui.ids import WHOLE, FrameId, parse_id
from converters.agui.stream import AguiStream
from tests.converters.agui.streams import RUN, START, THREAD, check, read, read_ids
from tests.converters.agui.test_stream import BOTH, RUNS, Failing, Wild, play

HELLO = MessagesSnapshot(run_id=RUN, messages=(Message(id="u1", role="user", content="hello"),))
OPEN: tuple[Event, ...] = (TextStart(run_id=RUN, reply_id="m"), TextDelta(run_id=RUN, reply_id="m", text="so far"))


def stream(dialect: Dialect = Dialect.V1) -> AguiStream:
    return AguiStream(THREAD, RUN, dialect, [Wild()])


def wild(*members: dict[str, object]) -> Custom:
    """An event that the user's converter makes these frames of."""
    return Custom(run_id=RUN, name="wild", value=members)


SEVERAL = [
    START,
    *OPEN,
    wild({"type": "STEP_STARTED", "stepName": "s"}, {"type": "CUSTOM", "name": "c", "value": 1}),
    wild(),
    wild({"type": "REASONING_MESSAGE_START", "messageId": "r", "role": "reasoning"}),
    AgentEnd(run_id=RUN, status="completed"),
]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1.",
        ".1",
        "1.1.1",
        "-1.0",
        "1.-1",
        "0.0",
        "01.0",
        "1.01",
        " 1.0",
        "1.0\n",
        "1,0",
        "a.b",
        "².1",
        "1" * 11 + ".0",
    ],
)
def test_what_is_no_id_is_none(text: str) -> None:
    assert parse_id(text) is None


def test_an_id_is_the_event_and_its_frame() -> None:
    assert parse_id("12.3") == FrameId(12, 3)
    assert parse_id("1.0") == FrameId(1, 0)


def test_events_that_show_nothing_are_counted_and_ends_in_front_are_frames_of_the_event() -> None:
    shown = read_ids(stream().feed(SEVERAL))
    assert [(number, event["type"]) for number, event in shown] == [
        ((1, 0), "RUN_STARTED"),
        ((2, 0), "TEXT_MESSAGE_START"),
        ((3, 0), "TEXT_MESSAGE_CONTENT"),
        ((4, 0), "STEP_STARTED"),
        ((4, 1), "CUSTOM"),
        ((6, 0), "REASONING_MESSAGE_START"),
        ((7, 0), "TEXT_MESSAGE_END"),
        ((7, 1), "REASONING_MESSAGE_END"),
        ((7, 2), "STEP_FINISHED"),
        ((7, 3), "RUN_FINISHED"),
    ]


def go_on(events: list[Event], after: FrameId, dialect: Dialect) -> bytes | None:
    wire = stream(dialect)
    wire.feed(events[: after.event - 1])
    rest = wire.rest(events[after.event - 1], after.frame)
    return None if rest is None else rest + wire.feed(events[after.event :])


@BOTH
@pytest.mark.parametrize("events", [SEVERAL, *RUNS.values()], ids=["several", *RUNS])
def test_a_stream_goes_on_behind_each_of_its_frames(events: list[Event], dialect: Dialect) -> None:
    whole = stream(dialect).feed(events)
    frames = whole.split(b"\n\n")[:-1]
    assert len(frames) == len(read_ids(whole))
    for place, (number, _) in enumerate(read_ids(whole), start=1):
        assert number is not None
        rest = go_on(list(events), FrameId(*number), dialect)
        assert rest is not None
        assert rest.split(b"\n\n")[:-1] == frames[place:]


@settings(max_examples=200, deadline=None)
@given(st.integers(1, len(SEVERAL)), st.integers(0, 8))
def test_behind_a_frame_that_was_never_sent_there_is_nothing(event: int, frame: int) -> None:
    sent = {number for number, _ in read_ids(stream().feed(SEVERAL))}
    rest = go_on(list(SEVERAL), FrameId(event, frame), Dialect.V1)
    assert (rest is not None) == ((event, frame) in sent)


def test_behind_a_whole_event_the_next_one_follows() -> None:
    wire = stream()
    wire.feed(SEVERAL[:3])
    assert wire.rest(SEVERAL[3], WHOLE) == b""
    assert read_ids(wire.feed(SEVERAL[4:]))[0][0] == (6, 0)


@BOTH
def test_from_a_picture_a_stream_begins_and_only_its_last_frame_has_an_id(dialect: Dialect) -> None:
    wire = stream(dialect)
    told = read_ids(wire.rejoin((START, HELLO, *OPEN), 57))
    assert [(number, event["type"]) for number, event in told] == [
        (None, "RUN_STARTED"),
        (None, "MESSAGES_SNAPSHOT"),
        (None, "TEXT_MESSAGE_START"),
        ((57, WHOLE), "TEXT_MESSAGE_CONTENT"),
    ]
    end = [TextEnd(run_id=RUN, reply_id="m"), AgentEnd(run_id=RUN, status="completed")]
    rest = read_ids(wire.feed(end))
    assert [number for number, _ in rest] == [(58, 0), (59, 0)]
    check([event for _, event in (*told, *rest)], old=dialect is Dialect.OLD)


@BOTH
@pytest.mark.parametrize("name", RUNS)
def test_a_stream_that_missed_something_is_joined_without_a_second_start(name: str, dialect: Dialect) -> None:
    events = RUNS[name]
    for cut in range(1, len(events)):
        wire = stream(dialect)
        before = wire.feed(events[:cut])
        told = wire.rejoin((START, HELLO, *OPEN), 900)
        rest = wire.feed([TextEnd(run_id=RUN, reply_id="m"), AgentEnd(run_id=RUN, status="completed")])
        check(read(before + told + rest), old=dialect is Dialect.OLD)
        assert read_ids(told)[-1][0] == (900, WHOLE)


def test_a_terminal_event_whose_converter_fails_has_an_id_like_any_other() -> None:
    wire = AguiStream(THREAD, RUN, Dialect.V1, [Failing()])
    shown = read_ids(wire.feed([START, AgentEnd(run_id=RUN, status="completed")]))
    assert [(number, event["type"]) for number, event in shown] == [((1, 0), "RUN_STARTED"), ((2, 0), "RUN_ERROR")]
    again = AguiStream(THREAD, RUN, Dialect.V1, [Failing()])
    again.feed([START])
    assert again.rest(AgentEnd(run_id=RUN, status="completed"), 0) == b""
    assert again.finished


def test_the_ids_are_the_same_however_the_events_come() -> None:
    events = RUNS["reference 1"]
    one_by_one = AguiStream(THREAD, RUN, Dialect.V1)
    assert b"".join(one_by_one.feed([event]) for event in events) == play(events)

"""A stream that is not what the upstream said is found, whatever is wrong with it."""

import pytest

from bench.speed.floor import Turn
from bench.speed.scenarios import Scenario, WrongStream, check_agui, check_openai
from bench.speed.upstream import frames_of, program_of

TWO = Scenario(name="two", what="two chunks", chunks=2)
CALLED = Scenario(name="called", what="a call and a chunk", chunks=1, calls=1)

STARTED = b'data: {"type":"RUN_STARTED"}\n\n'
FIRST = b'id: 1.0\ndata: {"type":"TEXT_MESSAGE_CONTENT","delta":" word000"}\n\n'
SECOND = b'data: {"type":"TEXT_MESSAGE_CONTENT","delta":" word001"}\n\n'
BOTH = b'data: {"type":"TEXT_MESSAGE_CONTENT","delta":" word000 word001"}\n\n'
RESULT = b'data: {"type":"TOOL_CALL_RESULT"}\n\n'
FINISHED = b'data: {"type":"RUN_FINISHED"}\n\n'
FAILED = b'data: {"type":"RUN_ERROR"}\n\n'


@pytest.mark.parametrize(
    ("scenario", "stream"),
    [
        (TWO, STARTED + FIRST + b": ping\n\n" + SECOND + FINISHED),
        (CALLED, STARTED + RESULT + FIRST + FINISHED),
    ],
)
def test_a_whole_stream_is_taken(scenario: Scenario, stream: bytes) -> None:
    check_agui(scenario, 200, stream)


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        FIRST + SECOND + FINISHED,
        STARTED + FIRST + FINISHED,
        STARTED + FIRST + FIRST + SECOND + FINISHED,
        STARTED + SECOND + FIRST + FINISHED,
        STARTED + BOTH + FINISHED,
        STARTED + FIRST + SECOND,
        STARTED + FIRST + SECOND + FAILED,
        STARTED + FIRST + SECOND + FINISHED + FINISHED,
        STARTED + RESULT + FIRST + SECOND + FINISHED,
        STARTED + FIRST + SECOND + FINISHED[:-1],
        STARTED + FIRST + SECOND + b"data: {\n\n" + FINISHED,
        STARTED + FIRST + SECOND + b"data: []\n\n" + FINISHED,
    ],
)
def test_a_stream_that_is_wrong_anywhere_is_refused(stream: bytes) -> None:
    with pytest.raises(WrongStream, match=r"two|mid-frame"):
        check_agui(TWO, 200, stream)


def test_a_status_other_than_200_is_refused() -> None:
    with pytest.raises(WrongStream, match="status 503"):
        check_agui(TWO, 503, STARTED + FIRST + SECOND + FINISHED)


def test_only_a_reader_that_came_later_may_get_merged_chunks() -> None:
    check_agui(TWO, 200, STARTED + BOTH + FINISHED, merged=True)
    with pytest.raises(WrongStream):
        check_agui(TWO, 200, STARTED + FIRST + FINISHED, merged=True)


def test_a_chat_completion_is_checked_to_its_end() -> None:
    said = b"".join(b'data: {"choices":[{"delta":{"content":" word%03d"}}]}\n\n' % number for number in range(2))
    check_openai(TWO, 200, said + b"data: [DONE]\n\n")
    for wrong in (said, said + said + b"data: [DONE]\n\n", said + b"data: [DONE]\n\nx", b"data: [DONE]\n\n"):
        with pytest.raises(WrongStream):
            check_openai(TWO, 200, wrong)


def test_the_upstream_obeys_the_last_program_and_calls_until_there_is_a_result() -> None:
    asked = b'{"content":"bench:n=9:k=0:d=0:h=0"},{"content":"hello ' + CALLED.program.encode() + b'"}'
    assert program_of(asked) == {"n": 1, "k": 1, "d": 0, "h": 0}
    assert program_of(asked + b',{"role": "tool"}') == {"n": 1, "k": 0, "d": 0, "h": 0}
    assert program_of(b"hello") == {"n": 1, "k": 0, "d": 0, "h": 0}


def test_the_upstreams_answer_has_one_frame_for_each_chunk_or_call() -> None:
    extra = len([b"usage", b"stop", b"done"])
    assert len(frames_of(200, 0)) == len([b"role"]) + 200 + extra
    assert len(frames_of(200, 8)) == 8 + extra


def test_the_floor_tells_text_and_calls_as_events() -> None:
    turn = Turn()
    call = {"index": 0, "id": "c", "function": {"name": "get_time", "arguments": "{}"}}
    deltas = [{"content": ""}, {"content": "a"}, {"content": "b"}, {"tool_calls": [call]}]
    events = [event for delta in deltas for event in turn.events_of({"choices": [{"delta": delta}]})]
    text = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT"]
    assert [event["type"] for event in events] == [*text, "TOOL_CALL_START", "TOOL_CALL_ARGS"]
    assert turn.events_of({"choices": []}) == []

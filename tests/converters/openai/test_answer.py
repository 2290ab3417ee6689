"""The whole answer, for a client that does not stream."""

from typing import Any

import orjson
import pytest

from agent_core.events import AgentEnd, Event, RequireExternalExecution, RunFailed
from agent_core.usage import Usage
from tests.converters.openai.streams import (
    RUN,
    SESSION,
    START,
    follow,
    model_call,
    open_answer,
    open_stream,
    text,
    thinking,
    tool_call,
    tool_result,
)

USAGE = Usage(provider="p", model="m", input_tokens=9, output_tokens=2, total_tokens=11)
END = AgentEnd(run_id=RUN, status="completed", usage=(USAGE,))


def body_of(events: list[Event], /, **options: Any) -> dict[str, Any]:
    answer = open_answer(**options)
    answer.feed(events)
    body: dict[str, Any] = orjson.loads(answer.body())
    return body


def waiting(*calls: str) -> list[Event]:
    waits = RequireExternalExecution(run_id=RUN, call_ids=calls)
    return [waits, AgentEnd(run_id=RUN, status="client_tools")]


def test_an_answer_is_a_chat_completion() -> None:
    assert body_of([START, *thinking("m1", "Hm", "."), *text("m1", "Hi ", "you"), END]) == {
        "id": "chatcmpl-run_1",
        "object": "chat.completion",
        "created": 1764500000,
        "model": "agent",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hi you", "refusal": None, "reasoning_content": "Hm."},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
        "x_agent": {"status": "completed", "run_id": RUN, "session_id": SESSION},
    }


def test_an_answer_of_calls_alone_has_no_content() -> None:
    [choice] = body_of([START, *tool_call("m1", "c1", "pick", '{"a"', ":1}"), *waiting("c1")])["choices"]
    assert choice["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "pick", "arguments": '{"a":1}'}}],
    }
    assert choice["finish_reason"] == "tool_calls"


def test_calls_that_do_not_wait_for_the_client_are_left_out() -> None:
    calls = [
        *tool_call("m1", "c0", "pick", "[broken"),
        *tool_call("m1", "c1", "clock", "{}"),
        *tool_call("m1", "c2", "show"),
    ]
    [choice] = body_of([START, *calls, *tool_result("c1", "clock", "noon"), *waiting("c2")])["choices"]
    assert [(each["id"], each["function"]["arguments"]) for each in choice["message"]["tool_calls"]] == [("c2", "{}")]


def test_an_answer_without_waiting_calls_stops() -> None:
    [choice] = body_of([START, *tool_call("m1", "c0", "pick", "[broken"), *text("m2", "So."), END])["choices"]
    assert choice["finish_reason"] == "stop"
    assert "tool_calls" not in choice["message"]


def test_an_answer_that_says_nothing_has_an_empty_content() -> None:
    [choice] = body_of([START, END])["choices"]
    assert choice["message"] == {"role": "assistant", "content": "", "refusal": None}


def test_usage_is_there_even_where_nothing_is_known() -> None:
    usage = body_of([START, AgentEnd(run_id=RUN, status="completed")])["usage"]
    assert usage == {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def test_the_status_of_an_exceeded_run_is_told() -> None:
    answer = body_of([START, *text("m1", "So far."), AgentEnd(run_id=RUN, status="max_iterations")])
    assert answer["x_agent"]["status"] == "max_iterations"
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_events_are_listed_on_request() -> None:
    events = [START, *tool_call("m1", "c1", "clock", "{}"), *tool_result("c1", "clock", "noon"), END]
    assert "events" not in body_of(events)["x_agent"]
    shown = body_of(events, events=True)["x_agent"]["events"]
    assert [each["type"] for each in shown][-2:] == ["TOOL_CALL_END", "TOOL_CALL_RESULT"]


def test_the_whole_answer_says_what_the_stream_says() -> None:
    events = [
        START,
        *model_call("m1", thinking("m1", "a"), text("m1", "x\ud800\n\n", "data: y")),
        *model_call("m2", thinking("m2", "b"), text("m2", "z"), tool_call("m2", "c1", "pick", "{", "}")),
        *waiting("c1"),
    ]
    client = follow(open_stream().feed(events))
    [choice] = body_of(events)["choices"]
    assert choice["message"]["content"] == client.content
    assert choice["message"]["reasoning_content"] == client.reasoning
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == client.calls[0]["arguments"]
    assert choice["finish_reason"] == client.finish


def test_however_the_events_are_cut_the_answer_is_the_same() -> None:
    events = [START, *text("m1", "a", "b"), *tool_call("m1", "c1", "pick", "{", "}"), *waiting("c1")]
    answer = open_answer()
    for event in events:
        answer.feed([event])
    assert orjson.loads(answer.body()) == body_of(events)


def test_a_failed_run_has_no_answer() -> None:
    failure = RunFailed(run_id=RUN, code="model_quota", message="m")
    answer = open_answer()
    answer.feed([START, *text("m1", "half"), failure])
    assert (answer.finished, answer.failure) == (True, failure)
    with pytest.raises(RuntimeError):
        answer.body()


def test_a_run_that_is_not_over_has_no_answer_and_fails_at_the_end() -> None:
    answer = open_answer()
    answer.feed([START, *text("m1", "half")])
    assert not answer.finished
    with pytest.raises(RuntimeError):
        answer.body()
    answer.finish()
    assert answer.failure is not None
    assert answer.failure.code == "internal"


def test_the_end_of_a_good_run_changes_nothing() -> None:
    answer = open_answer()
    answer.feed([START, END])
    answer.finish()
    assert answer.failure is None
    assert b'"finish_reason":"stop"' in answer.body()


CUT: list[tuple[Any, str]] = [("length", "length"), ("filter", "content_filter"), (None, "stop")]


@pytest.mark.parametrize(("cut", "reason"), CUT)
def test_an_answer_that_the_provider_cut_says_why_streamed_and_not(cut: Any, reason: str) -> None:
    events = [START, *model_call("m1", text("m1", "one"), cut="length"), *model_call("m2", text("m2", "two"), cut=cut)]
    events.append(AgentEnd(run_id=RUN, status="completed", cut=cut))
    assert body_of(events)["choices"][0]["finish_reason"] == reason
    assert f'"finish_reason":"{reason}"'.encode() in open_stream().feed(events)


def test_a_cut_turn_with_calls_waits_for_them() -> None:
    events = [START, *model_call("m1", tool_call("m1", "c1", "pick", "{}"), cut="length"), *waiting("c1")]
    assert body_of(events)["choices"][0]["finish_reason"] == "tool_calls"


def test_calls_that_still_wait_from_an_earlier_answer_are_named() -> None:
    body = body_of([START, *waiting("c7", "c8")])
    assert body["x_agent"]["waiting"] == ["c7", "c8"]
    assert (body["choices"][0]["message"]["content"], body["choices"][0]["finish_reason"]) == ("", "stop")
    assert b'"waiting":["c7","c8"]' in open_stream().feed([START, *waiting("c7", "c8")])

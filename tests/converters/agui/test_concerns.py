"""Each internal event and what it shows: no more, no less, and never a null."""

from typing import Any

import pytest

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
    RequireUserConfirm,
    Retry,
    RunFailed,
    RunStatus,
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
from agent_core.usage import Usage
from converters.agui.dialect import Dialect
from converters.agui.stream import AguiStream
from tests.converters.agui.streams import REPLY, RUN, START, THREAD, convert, read

TEXT = (TextStart(run_id=RUN, reply_id=REPLY), TextDelta(run_id=RUN, reply_id=REPLY, text="Hi"))
CALL = ToolCallStart(run_id=RUN, reply_id=REPLY, call_id="call_1", name="clock")
COST = Usage(provider="openai", model="m", input_tokens=5, output_tokens=2, total_tokens=7)


def result(content: str) -> ToolResultEnd:
    return ToolResultEnd(run_id=RUN, call_id="call_1", name="clock", message_id="msg_2", status="ok", content=content)


def test_a_run_starts_with_our_version() -> None:
    assert read(AguiStream(THREAD, RUN, Dialect.OLD).feed([START])) == [
        {"type": "RUN_STARTED", "threadId": THREAD, "runId": RUN, "protocolVersion": "1.0"}
    ]


@pytest.mark.parametrize(
    ("status", "members"),
    [
        ("completed", {"result": {"status": "completed"}}),
        ("max_iterations", {"result": {"status": "max_iterations", "continuationRequired": True}}),
        ("client_tools", {"result": {"status": "client_tools"}}),
        ("cancelled", {"outcome": {"type": "cancelled"}}),
    ],
)
def test_a_run_finishes_with_its_own_ids_and_how_it_ended(status: RunStatus, members: dict[str, Any]) -> None:
    finished = {"type": "RUN_FINISHED", "threadId": THREAD, "runId": RUN}
    assert convert(AgentEnd(run_id=RUN, status=status)) == [finished | members]


@pytest.mark.parametrize("status", ["completed", "max_iterations", "client_tools", "cancelled"])
def test_an_old_client_gets_no_outcome(status: RunStatus) -> None:
    [finished] = convert(AgentEnd(run_id=RUN, status=status), dialect=Dialect.OLD)
    assert "outcome" not in finished
    assert finished["result"]["status"] == status


def test_a_finished_run_tells_its_usage_without_the_counts_that_are_not_known() -> None:
    usage = (COST, Usage(provider="openai", model="n", input_tokens=1, cached_input_tokens=1, reasoning_tokens=0))
    [finished] = convert(AgentEnd(run_id=RUN, status="completed", usage=usage))
    assert finished["usage"] == [
        {"provider": "openai", "model": "m", "inputTokens": 5, "outputTokens": 2, "totalTokens": 7},
        {"provider": "openai", "model": "n", "inputTokens": 1, "cachedInputTokens": 1, "reasoningTokens": 0},
    ]


def test_a_failure_is_an_error_with_its_code() -> None:
    failure = RunFailed(run_id=RUN, code="model_quota", message=SENTENCES["model_quota"], usage=(COST,))
    assert convert(failure) == [
        {
            "type": "RUN_ERROR",
            "message": SENTENCES["model_quota"],
            "code": "model_quota",
            "usage": [{"provider": "openai", "model": "m", "inputTokens": 5, "outputTokens": 2, "totalTokens": 7}],
        }
    ]


def test_text_is_a_message_of_the_assistant() -> None:
    assert convert(*TEXT, TextEnd(run_id=RUN, reply_id=REPLY)) == [
        {"type": "TEXT_MESSAGE_START", "messageId": REPLY, "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": REPLY, "delta": "Hi"},
        {"type": "TEXT_MESSAGE_END", "messageId": REPLY},
    ]


def test_reasoning_is_a_message_of_its_own_without_spans() -> None:
    events = (
        ThinkingStart(run_id=RUN, reply_id=REPLY, block_id="th_1"),
        ThinkingDelta(run_id=RUN, reply_id=REPLY, block_id="th_1", text="hm"),
        ThinkingEnd(run_id=RUN, reply_id=REPLY, block_id="th_1"),
    )
    assert convert(*events) == [
        {"type": "REASONING_MESSAGE_START", "messageId": "th_1", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "th_1", "delta": "hm"},
        {"type": "REASONING_MESSAGE_END", "messageId": "th_1"},
    ]


def test_a_tool_call_names_the_message_that_makes_it() -> None:
    events = (
        CALL,
        ToolCallDelta(run_id=RUN, reply_id=REPLY, call_id="call_1", text='{"zone":'),
        ToolCallDelta(run_id=RUN, reply_id=REPLY, call_id="call_1", text='"UTC"}'),
        ToolCallEnd(run_id=RUN, reply_id=REPLY, call_id="call_1"),
        ToolResultStart(run_id=RUN, call_id="call_1", name="clock"),
        result("12:00"),
    )
    assert convert(*events) == [
        {"type": "TOOL_CALL_START", "toolCallId": "call_1", "toolCallName": "clock", "parentMessageId": REPLY},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "call_1", "delta": '{"zone":'},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "call_1", "delta": '"UTC"}'},
        {"type": "TOOL_CALL_END", "toolCallId": "call_1"},
        {
            "type": "TOOL_CALL_RESULT",
            "messageId": "msg_2",
            "toolCallId": "call_1",
            "content": "12:00",
            "role": "tool",
        },
    ]


@pytest.mark.parametrize(
    "event",
    [
        StepStart(run_id=RUN, iteration=0),
        StepEnd(run_id=RUN, iteration=0),
        ModelCallStart(run_id=RUN, reply_id=REPLY, model="m"),
        ModelCallEnd(run_id=RUN, reply_id=REPLY, model="m"),
        ToolResultStart(run_id=RUN, call_id="c", name="n"),
        FinalOutput(run_id=RUN, text="t"),
        RequireExternalExecution(run_id=RUN, call_ids=("c",)),
        RequireUserConfirm(run_id=RUN, interrupts=()),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_clients_need_not_see_shows_nothing(event: Event) -> None:
    assert convert(event) == []


def test_usage_is_told_for_the_message_that_it_paid_for() -> None:
    event = ModelCallEnd(run_id=RUN, reply_id=REPLY, model="m", usage=COST)
    value = {"replyId": REPLY, "inputTokens": 5, "outputTokens": 2, "totalTokens": 7}
    assert convert(event) == [{"type": "CUSTOM", "name": "token_usage", "value": value}]


def test_cached_tokens_are_told_where_they_are_known_and_unknown_counts_are_not() -> None:
    usage = Usage(provider="p", model="m", input_tokens=5, cached_input_tokens=0)
    [told] = convert(ModelCallEnd(run_id=RUN, reply_id=REPLY, model="m", usage=usage))
    assert told["value"] == {"replyId": REPLY, "inputTokens": 5, "cachedInputTokens": 0}


def test_a_retry_is_told_in_milliseconds() -> None:
    [told] = convert(Retry(run_id=RUN, code="model_unreachable", attempt=2, delay=0.51))
    value = {"code": "model_unreachable", "attempt": 2, "delayMs": 510}
    assert told == {"type": "CUSTOM", "name": "retry", "value": value}


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, None), ({"a": [1, "x"]}, {"a": [1, "x"]}), (float("nan"), None), ({"a": 1j}, {"a": "1j"})],
)
def test_a_users_event_is_told_whatever_its_value_is(value: object, shown: object) -> None:
    assert convert(Custom(run_id=RUN, name="n", value=value)) == [{"type": "CUSTOM", "name": "n", "value": shown}]


def test_the_used_up_budget_is_raw_with_exactly_its_own_members() -> None:
    event = ExceedMaxIters(run_id=RUN, max_iters=1, current_iter=1, created_at="2026-09-29T12:39:32.123Z")
    shown = {
        "type": "EXCEED_MAX_ITERS",
        "maxIters": 1,
        "currentIter": 1,
        "createdAt": "2026-09-29T12:39:32.123Z",
        "replyId": "",
    }
    assert convert(event) == [{"type": "RAW", "event": shown}]


def test_raw_tells_the_lane_only_where_it_is_not_the_root() -> None:
    [raw] = convert(ExceedMaxIters(run_id=RUN, max_iters=1, current_iter=1, lane="call_7"))
    assert raw["event"]["lane"] == "call_7"
    assert "runId" not in raw["event"]


class CacheHit(Event, frozen=True):
    """A user's own kind of event, which no converter knows."""

    hit_rate: float
    where: Any


def test_an_event_that_nobody_claims_is_raw() -> None:
    [raw] = convert(CacheHit(run_id=RUN, hit_rate=float("inf"), where={"a\ud800"}))
    assert raw == {
        "type": "RAW",
        "event": {"type": "CACHE_HIT", "replyId": "", "hitRate": None, "where": ["a\ufffd"]},
    }


@pytest.mark.parametrize(
    "events",
    [
        (TEXT[0], TextDelta(run_id=RUN, reply_id=REPLY, text="")),
        (CALL, ToolCallDelta(run_id=RUN, call_id="call_1", text="")),
        (ThinkingStart(run_id=RUN, block_id="t"), ThinkingDelta(run_id=RUN, block_id="t", text="")),
    ],
)
def test_an_empty_delta_is_never_sent(events: tuple[Event, ...]) -> None:
    assert [each["type"].rpartition("_")[2] for each in convert(*events)] == ["START"]


def test_a_lone_surrogate_in_a_delta_is_replaced() -> None:
    [_, content] = convert(TEXT[0], TextDelta(run_id=RUN, reply_id=REPLY, text="a\ud83d"))
    assert content["delta"] == "a\ufffd"


def test_lone_surrogates_elsewhere_are_replaced_too() -> None:
    call = ToolCallStart(run_id=RUN, reply_id=REPLY, call_id="c", name="n\ud800")
    args = ToolCallDelta(run_id=RUN, reply_id=REPLY, call_id="c", text="\ud800")
    end = ToolCallEnd(run_id=RUN, call_id="c")
    shown = convert(call, args, end, result("x\udfff"), Custom(run_id=RUN, name="\ud800", value="\ud800"))
    assert [shown[0]["toolCallName"], shown[1]["delta"], shown[3]["content"]] == ["n\ufffd", "\ufffd", "x\ufffd"]
    assert shown[4] == {"type": "CUSTOM", "name": "\ufffd", "value": "\ufffd"}


@pytest.mark.parametrize("letter", ["x", "\x01", "\u20ac", "\U0001f600"])
def test_a_delta_over_the_cap_is_split(letter: str) -> None:
    text = letter * (2_500_000 // len(letter.encode()))
    shown = convert(TEXT[0], TextDelta(run_id=RUN, reply_id=REPLY, text=text))[1:]
    assert len(shown) > 1
    assert "".join(each["delta"] for each in shown) == text


def test_arguments_over_the_cap_are_split() -> None:
    shown = convert(CALL, ToolCallDelta(run_id=RUN, call_id="call_1", text="9" * 1_500_000))[1:]
    assert len(shown) > 1
    assert {each["type"] for each in shown} == {"TOOL_CALL_ARGS"}


def test_a_result_over_the_cap_is_cut_and_says_so() -> None:
    [shown] = convert(result("x" * 1_500_000))
    assert len(shown["content"]) > 900_000
    assert "of 1500000 characters are shown]" in shown["content"][-100:]


def test_custom_and_raw_values_over_the_cap_are_cut_and_say_so() -> None:
    value = ["é" * 1_000] * 1_000
    custom, raw = convert(Custom(run_id=RUN, name="n", value=value), CacheHit(run_id=RUN, hit_rate=1.0, where=value))
    assert custom["value"]["beginning"].startswith('["éé')
    assert "was cut" in custom["value"]["note"]
    assert raw["event"]["beginning"].startswith('{"type":"CACHE_HIT"')
    assert "was cut" in raw["event"]["note"]


def test_an_id_with_quotes_does_not_break_out_of_its_frame() -> None:
    wild = 'a"}\n\ndata: {"'
    events = (TextStart(run_id=RUN, reply_id=wild), TextDelta(run_id=RUN, reply_id=wild, text="t"))
    assert [each["messageId"] for each in convert(*events)] == [wild, wild]


def test_deltas_of_two_messages_keep_their_ids() -> None:
    first, second = TextStart(run_id=RUN, reply_id="a"), TextStart(run_id=RUN, reply_id="b")
    deltas = [TextDelta(run_id=RUN, reply_id=each, text=each) for each in "abab"]
    shown = convert(first, second, *deltas)[2:]
    assert [(each["messageId"], each["delta"]) for each in shown] == [(each, each) for each in "abab"]

import json
from typing import Any

import pytest

from agent_core.errors import ModelError
from agent_core.models.base import ArgumentsPiece, CallPiece, Piece, TextPiece, ThinkingPiece, UsagePiece
from agent_core.models.openai_chunks import ChunkDecoder
from agent_core.models.sse_lines import SseLines
from agent_core.usage import Usage
from tests.scripted import chunk, done, finish, sse, text, thinking, tool_call, usage


def decode(*chunks: bytes) -> list[Piece]:
    """The pieces of a stream of bytes, each argument being one read."""
    lines, decoder = SseLines(), ChunkDecoder(provider="openai", model="m", hide=("sk-secret",))
    pieces = [piece for each in chunks for payload in lines.feed(each) for piece in decoder.feed(payload)]
    pieces += [piece for payload in lines.close() for piece in decoder.feed(payload)]
    return pieces + decoder.finish()


def whole(*pieces: Piece) -> list[Any]:
    """The pieces with neighbours of one kind joined, as they are to the reader of an answer."""
    joined: list[Any] = []
    for piece in pieces:
        if isinstance(piece, TextPiece | ThinkingPiece) and joined and joined[-1][0] is type(piece):
            joined[-1] = (type(piece), joined[-1][1] + piece.text)
        elif isinstance(piece, TextPiece | ThinkingPiece):
            joined.append((type(piece), piece.text))
        else:
            joined.append((type(piece), piece))
    return joined


def deltas(*calls: dict[str, Any], reason: str = "tool_calls") -> bytes:
    return b"".join(chunk({"tool_calls": [call]}) for call in calls) + finish(reason) + done()


def function(name: str | None = None, arguments: Any = None) -> dict[str, Any]:
    return {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}


def calls_of(*chunks: bytes) -> list[tuple[str, str, str]]:
    """(id, name, arguments) of each call; checks that indexes are dense and opened before use."""
    found: list[list[str]] = []
    for piece in decode(*chunks):
        if isinstance(piece, CallPiece):
            assert piece.index == len(found)
            found.append([piece.id, piece.name, ""])
        elif isinstance(piece, ArgumentsPiece):
            found[piece.index][2] += piece.text
    return [(call_id, name, arguments) for call_id, name, arguments in found]


def failure_of(*chunks: bytes) -> ModelError:
    with pytest.raises(ModelError) as failure:
        decode(*chunks)
    return failure.value


STREAMS = {
    "text": text("Grüße", " 世界 😀") + finish() + usage(9, 2) + done(),
    "reasoning, then a call": thinking("let me", " see") + tool_call("get_time", '{"tz": "UTC"}') + finish() + done(),
    "a think block": text("<think>a", " b</th", "ink>\n\nHi", " there") + finish() + done(),
    "comments and a lone surrogate": b": ping\n\n" + sse('{"choices":[{"delta":{"content":"\\ud83d!"}}]}') + done(),
}


@pytest.mark.parametrize("name", STREAMS)
def test_the_pieces_are_the_same_wherever_the_bytes_are_split(name: str) -> None:
    stream = STREAMS[name]
    expected = whole(*decode(stream))
    assert expected
    for split in range(len(stream) + 1):
        assert whole(*decode(stream[:split], stream[split:])) == expected
    assert whole(*decode(*(bytes([byte]) for byte in stream))) == expected


def test_an_answer_is_text_then_usage() -> None:
    assert decode(STREAMS["text"]) == [
        TextPiece("Grüße"),
        TextPiece(" 世界 😀"),
        UsagePiece(Usage(provider="openai", model="m", input_tokens=9, output_tokens=2, total_tokens=11)),
    ]


def test_a_lone_surrogate_is_replaced() -> None:
    assert decode(STREAMS["comments and a lone surrogate"]) == [TextPiece("\ufffd!")]


def test_an_escaped_pair_of_surrogates_beside_a_lone_one_stays_a_character() -> None:
    stream = sse('{"choices":[{"delta":{"content":"\\ud83d\\ude00\\ud83d"}}]}') + done()
    assert decode(stream) == [TextPiece("😀\ufffd")]


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert decode(sse(b'{"choices":[{"delta":{"content":"a\xffb"}}]}') + done()) == [TextPiece("a\ufffdb")]


def test_a_raw_line_separator_in_text_is_kept() -> None:
    assert decode(sse('{"choices":[{"delta":{"content":"a\u2028b\u0085c"}}]}') + done()) == [
        TextPiece("a\u2028b\u0085c")
    ]


@pytest.mark.parametrize("member", ["reasoning_content", "reasoning"])
def test_reasoning_is_thinking_under_either_name(member: str) -> None:
    assert decode(chunk({member: "hm", "content": "Hi"}), done()) == [ThinkingPiece("hm"), TextPiece("Hi")]


def test_reasoning_under_both_names_is_taken_once() -> None:
    assert decode(chunk({"reasoning_content": "hm", "reasoning": "hm"}), done()) == [ThinkingPiece("hm")]


def test_a_think_block_at_the_front_is_thinking() -> None:
    assert whole(*decode(STREAMS["a think block"])) == [(ThinkingPiece, "a b"), (TextPiece, "Hi there")]


def test_a_think_tag_after_text_is_text() -> None:
    stream = text("Hi", "<think>x</think>") + done()
    assert whole(*decode(stream)) == [(TextPiece, "Hi<think>x</think>")]


def test_text_that_was_held_back_comes_before_a_call() -> None:
    pieces = decode(text("<thi") + tool_call("a", "") + finish() + done())
    assert pieces == [TextPiece("<thi"), CallPiece(0, "call_1", "a")]


def test_a_refusal_is_text() -> None:
    assert decode(chunk({"refusal": "No."}), finish(), done()) == [TextPiece("No.")]


def test_content_in_parts_is_read() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "Hi"}, 7]
    assert decode(chunk({"content": parts}), done()) == [ThinkingPiece("hm"), TextPiece("Hi")]


ODD = [
    {"choices": []},
    {"choices": None},
    {},
    {"choices": {}},
    {"choices": [None]},
    {"choices": [{}]},
    {"choices": [{"delta": None}]},
    {"choices": [{"delta": {"content": None, "tool_calls": None, "reasoning_content": None}}]},
    {"choices": [{"delta": {"content": 7, "tool_calls": {}, "refusal": [], "reasoning": {}}}]},
    {"choices": [{"delta": {"tool_calls": [None, 7]}}]},
    {"error": None, "choices": [{"delta": {"role": "assistant", "content": ""}}]},
    {"usage": None, "choices": [{"delta": {}, "finish_reason": None, "usage": None}]},
    {"usage": [1], "choices": [{"delta": {}, "finish_reason": 7, "usage": "x"}]},
]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: json.dumps(odd))
def test_a_frame_that_says_nothing_is_passed_over(odd: Any) -> None:
    assert decode(sse(odd), text("Hi"), sse(odd), finish(), sse(odd), done()) == [TextPiece("Hi")]


def test_the_last_usage_counts_and_none_is_added() -> None:
    stream = (
        chunk({"content": "Hi"}, usage={"prompt_tokens": 1, "completion_tokens": 1}) + finish() + usage(9, 2) + done()
    )
    assert decode(stream)[1:] == [
        UsagePiece(Usage(provider="openai", model="m", input_tokens=9, output_tokens=2, total_tokens=11))
    ]


def test_usage_inside_a_choice_is_found() -> None:
    choice = {"delta": {}, "finish_reason": "stop", "usage": {"prompt_tokens": 3}}
    assert decode(sse({"choices": [choice]})) == [UsagePiece(Usage(provider="openai", model="m", input_tokens=3))]


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 4}}, {"cached_input_tokens": 4}),
        ({"prompt_cache_hit_tokens": 5}, {"cached_input_tokens": 5}),
        ({"prompt_tokens_details": {"cached_tokens": 0}, "prompt_cache_hit_tokens": 5}, {"cached_input_tokens": 0}),
        ({"completion_tokens_details": {"reasoning_tokens": 6}}, {"reasoning_tokens": 6}),
        ({"prompt_tokens": "9", "completion_tokens": True, "total_tokens": 3}, {"total_tokens": 3}),
        ({"prompt_tokens": -1, "completion_tokens": 2.5, "total_tokens": 0}, {"total_tokens": 0}),
        ({"prompt_tokens": 1, "prompt_tokens_details": None, "completion_tokens_details": []}, {"input_tokens": 1}),
    ],
)
def test_counts_that_are_reported_are_known_and_the_others_are_none(said: Any, known: dict[str, int]) -> None:
    assert decode(chunk({}, "stop", usage=said)) == [UsagePiece(Usage(provider="openai", model="m", **known))]


def test_usage_without_a_single_count_is_none() -> None:
    assert decode(text("Hi"), chunk({}, "stop", usage={"prompt_tokens": None, "x": 1})) == [TextPiece("Hi")]


def test_a_call_has_its_id_and_name_once_and_its_arguments_in_pieces() -> None:
    assert decode(tool_call("get_time", '{"a":1}', id="c9") + finish("tool_calls") + done()) == [
        CallPiece(0, "c9", "get_time"),
        ArgumentsPiece(0, '{"a":1}'),
    ]


def test_calls_side_by_side_keep_their_arguments_apart() -> None:
    stream = deltas(
        {"index": 0, "id": "a", "function": function("x", "")},
        {"index": 1, "id": "b", "function": function("y", "")},
        {"index": 0, "function": function(None, '{"n"')},
        {"index": 1, "function": function(None, '{"m"')},
        {"index": 0, "function": function(None, ":1}")},
        {"index": 1, "function": function(None, ":2}")},
    )
    assert calls_of(stream) == [("a", "x", '{"n":1}'), ("b", "y", '{"m":2}')]


QUIRKS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str, str]]]] = {
    "all at index 0 with new ids": (
        [
            {"index": 0, "id": "a", "function": function("x", '{"n":1}')},
            {"index": 0, "id": "b", "function": function("x", '{"n":')},
            {"index": 0, "function": function(None, "2}")},
        ],
        [("a", "x", '{"n":1}'), ("b", "x", '{"n":2}')],
    ),
    "two calls under one id": (
        [
            {"index": 0, "id": "a", "function": function("x", '{"n":1}')},
            {"index": 1, "id": "a", "function": function("x", '{"n":2}')},
        ],
        [("a", "x", '{"n":1}'), ("a", "x", '{"n":2}')],
    ),
    "no index": (
        [
            {"id": "a", "function": function("x", '{"n"')},
            {"function": function(None, ":1}")},
            {"id": "b", "function": function("y", "{}")},
        ],
        [("a", "x", '{"n":1}'), ("b", "y", "{}")],
    ),
    "an empty id and the name again on continuations": (
        [
            {"index": 0, "id": "a", "function": function("x", "")},
            {"index": 0, "id": "", "function": function("x", '{"n"')},
            {"index": 0, "id": None, "function": function("x", ":1}")},
        ],
        [("a", "x", '{"n":1}')],
    ),
    "the id again on continuations": (
        [
            {"index": 0, "id": "a", "function": function("x", '{"n"')},
            {"index": 0, "id": "a", "function": function("x", ":1}")},
        ],
        [("a", "x", '{"n":1}')],
    ),
    "a new id on each nameless continuation": (
        [
            {"index": 0, "id": "a", "function": function("x", '{"n"')},
            {"index": 0, "id": "a2", "function": function(None, ":1}")},
        ],
        [("a", "x", '{"n":1}')],
    ),
    "the name after the id": (
        [
            {"index": 0, "id": "a", "function": function(None, "")},
            {"index": 0, "function": function(None, "{")},
            {"index": 0, "function": function("x", "}")},
        ],
        [("a", "x", "{}")],
    ),
    "arguments as an object": ([{"index": 0, "id": "a", "function": function("x", {"n": 1})}], [("a", "x", '{"n":1}')]),
    "arguments null": ([{"index": 0, "id": "a", "function": {"name": "x", "arguments": None}}], [("a", "x", "")]),
    "arguments that are no JSON": ([{"index": 0, "id": "a", "function": function("x", "{no")}], [("a", "x", "{no")]),
}


@pytest.mark.parametrize("quirk", QUIRKS)
def test_a_providers_quirk_is_read_the_same_wherever_the_bytes_are_split(quirk: str) -> None:
    calls, expected = QUIRKS[quirk]
    stream = deltas(*calls)
    for split in range(len(stream) + 1):
        assert calls_of(stream[:split], stream[split:]) == expected


@pytest.mark.parametrize("quirk", QUIRKS)
def test_a_call_is_put_together_in_spite_of(quirk: str) -> None:
    given, expected = QUIRKS[quirk]
    assert calls_of(deltas(*given)) == expected


ANONYMOUS = {
    "other names": [function("x", '{"n":1}'), function("y", "{}")],
    "the same name with arguments that start afresh": [function("x", '{"n":1}'), function("x", '{"n":2}')],
}


@pytest.mark.parametrize("case", ANONYMOUS)
@pytest.mark.parametrize("index", [{}, {"index": 0}])
def test_calls_without_ids_are_told_apart_by(case: str, index: dict[str, int]) -> None:
    found = calls_of(deltas(*({"function": each, **index} for each in ANONYMOUS[case])))
    assert [(name, arguments) for _, name, arguments in found] == [
        (each["name"], each["arguments"]) for each in ANONYMOUS[case]
    ]
    ids = {call_id for call_id, _, _ in found}
    assert len(ids) == 2
    assert all(call_id.startswith("call_") for call_id in ids)


def test_calls_without_ids_are_told_apart_by_their_index() -> None:
    stream = deltas({"index": 0, "function": function("x", "")}, {"index": 1, "function": function("x", "{}")})
    assert [(name, arguments) for _, name, arguments in calls_of(stream)] == [("x", ""), ("x", "{}")]


def test_members_that_a_provider_adds_to_a_call_are_kept() -> None:
    signature = {"google": {"thought_signature": "abc"}}
    pieces = decode(deltas({"id": "a", "function": function("x"), "extra_content": signature, "nothing": None}))
    assert pieces == [CallPiece(0, "a", "x", {"extra_content": signature})]


def test_a_call_that_never_gets_a_name_is_an_unreadable_answer() -> None:
    assert failure_of(deltas({"index": 0, "id": "a", "function": function(None, "{}")})).code == "model_bad_answer"


@pytest.mark.parametrize("reason", ["stop", "tool_calls"])
def test_what_came_decides_and_not_the_finish_reason(reason: str) -> None:
    assert decode(text("Hi") + finish(reason) + done()) == [TextPiece("Hi")]
    assert decode(tool_call("x", "") + finish(reason) + done()) == [CallPiece(0, "call_1", "x")]


def test_a_completion_that_is_not_streamed_is_read() -> None:
    message = {
        "role": "assistant",
        "content": "Hi",
        "refusal": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "x", "arguments": "{}"}},
            {"type": "function", "function": {"name": "x", "arguments": "{}"}},
        ],
    }
    completion = {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": {"total_tokens": 3}}
    decoder = ChunkDecoder(provider="openai", model="m")
    pieces = decoder.feed(json.dumps(completion).encode()) + decoder.finish()
    assert [type(piece) for piece in pieces] == [
        TextPiece, CallPiece, ArgumentsPiece, CallPiece, ArgumentsPiece, UsagePiece,
    ]  # fmt: skip
    assert pieces[1] == CallPiece(0, "a", "x")


def test_a_stream_may_end_with_either_sign_of_completion() -> None:
    assert decode(text("Hi") + finish()) == decode(text("Hi") + done()) == [TextPiece("Hi")]


def test_what_follows_done_is_ignored() -> None:
    assert decode(text("Hi") + done() + text("no") + sse("{not json")) == [TextPiece("Hi")]


@pytest.mark.parametrize("stream", [b"", text("Hi"), tool_call("x"), usage(1, 1), b": ping\n\n"])
def test_a_stream_without_any_sign_of_completion_is_an_unreadable_answer(stream: bytes) -> None:
    assert failure_of(stream).code == "model_bad_answer"


@pytest.mark.parametrize("garbage", ["{not json", "[]", "7", '"text"', "null", "[" * 100_000])
def test_a_frame_that_is_no_chunk_is_an_unreadable_answer(garbage: str) -> None:
    error = failure_of(text("Hi"), sse(garbage), finish(), done())
    assert error.code == "model_bad_answer"
    assert not error.retryable
    assert len(error.detail) < 600


@pytest.mark.parametrize(
    ("said", "code", "retryable"),
    [
        ({"message": "slow down", "code": 429}, "model_quota", True),
        ({"message": "slow down", "code": "rate_limit_exceeded"}, "model_quota", True),
        ({"message": "no money", "code": "insufficient_quota", "type": "insufficient_quota"}, "model_quota", False),
        ({"message": "who?", "code": "401"}, "model_auth", False),
        ({"message": "who?", "type": "authentication_error"}, "model_auth", False),
        ({"message": "long", "code": "context_length_exceeded"}, "context_overflow", False),
        ({"message": "This model's maximum context length is 8 tokens", "code": 400}, "context_overflow", False),
        ({"message": "down", "type": "server_error", "code": 503}, "model_unreachable", True),
        ({"message": "down", "type": "overloaded_error"}, "model_unreachable", True),
        ({"message": "no", "code": 404}, "model_refused", False),
        ({"message": "no", "type": "invalid_request_error"}, "model_refused", False),
        ({"message": "hm"}, "model_bad_answer", False),
        ("hm", "model_bad_answer", False),
    ],
)
def test_an_error_frame_fails_with_its_own_code(said: Any, code: str, retryable: bool) -> None:
    for frame in ({"choices": [], "error": said}, [{"error": said}], {"error": said}):
        error = failure_of(text("Hi"), sse(frame), done())
        assert (error.code, error.retryable) == (code, retryable)


def test_an_error_object_of_older_servers_fails() -> None:
    assert failure_of(sse({"object": "error", "message": "no such model", "code": 404})).code == "model_refused"


def test_the_key_is_not_in_the_detail_of_an_error_frame() -> None:
    error = failure_of(sse({"error": {"message": "key sk-secret is bad", "code": 401}}))
    assert "sk-secret" not in str(error)
    assert "key *** is bad" in error.detail


def test_an_answer_that_was_filtered_out_whole_is_refused() -> None:
    assert failure_of(finish("content_filter") + done()).code == "model_refused"
    assert failure_of(thinking("hm") + finish("content_filter") + done()).code == "model_refused"


def snapshot(message: dict[str, Any], **choice: Any) -> bytes:
    """A chunk that carries the whole message, as some providers send it at the end."""
    return sse({"choices": [{"index": 0, "message": {"role": "assistant", **message}, **choice}]})


def entry(call_id: str | None, name: str, arguments: Any) -> dict[str, Any]:
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return call if call_id is None else {"id": call_id, **call}


SNAPSHOTS: dict[str, tuple[bytes, list[Any]]] = {
    "the same text": (text("Good ", "day") + snapshot({"content": "Good day"}), [(TextPiece, "Good day")]),
    "beside a delta that is null": (
        text("Good ", "day") + snapshot({"content": "Good day"}, delta=None, finish_reason="stop"),
        [(TextPiece, "Good day")],
    ),
    "beside a last delta": (
        text("Good ") + snapshot({"content": "Good day"}, delta={"content": "day"}),
        [(TextPiece, "Good day")],
    ),
    "beside a delta that has less": (
        text("Good ") + snapshot({"content": "Good day, Ann"}, delta={"content": "day"}),
        [(TextPiece, "Good day, Ann")],
    ),
    "beside an empty delta that is all there is": (snapshot({"content": "Hi"}, delta={}), [(TextPiece, "Hi")]),
    "more text": (text("Good ") + snapshot({"content": "Good day"}), [(TextPiece, "Good day")]),
    "another text": (text("Good ", "day") + snapshot({"content": "good day."}), [(TextPiece, "Good day")]),
    "no text": (text("Good ", "day") + snapshot({"content": None}), [(TextPiece, "Good day")]),
    "the text in parts": (
        text("Good ") + snapshot({"content": [{"type": "text", "text": "Good "}, {"type": "text", "text": "day"}]}),
        [(TextPiece, "Good day")],
    ),
    "the same refusal": (chunk({"refusal": "No."}) + snapshot({"refusal": "No."}), [(TextPiece, "No.")]),
    "the same reasoning": (
        thinking("h", "m") + text("Hi") + snapshot({"reasoning_content": "hm", "content": "Hi"}),
        [(ThinkingPiece, "hm"), (TextPiece, "Hi")],
    ),
    "the think block as it was": (
        text("<think>a</think>", "Hi") + snapshot({"content": "<think>a</think>Hi"}),
        [(ThinkingPiece, "a"), (TextPiece, "Hi")],
    ),
    "the think block told apart": (
        text("<think>a</think>", "Hi") + snapshot({"content": "Hi", "reasoning_content": "a"}),
        [(ThinkingPiece, "a"), (TextPiece, "Hi")],
    ),
    "nothing but messages that grow": (
        snapshot({"content": "Good "}) + snapshot({"content": "Good day"}) + snapshot({"content": "Good day"}),
        [(TextPiece, "Good day")],
    ),
    "nothing but messages that are pieces": (
        snapshot({"content": "Good "}) + snapshot({"content": "day"}),
        [(TextPiece, "Good day")],
    ),
}


@pytest.mark.parametrize("case", SNAPSHOTS)
def test_a_whole_message_behind_its_deltas_adds_only_what_is_missing(case: str) -> None:
    stream, expected = SNAPSHOTS[case]
    assert whole(*decode(stream + finish() + done())) == expected


STREAMED = [{"index": 0, "id": "a", "function": function("x", '{"n":')}, {"index": 0, "function": function(None, "1}")}]
REPEATS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str, str]]]] = {
    "with its id": ([entry("a", "x", '{"n":1}')], [("a", "x", '{"n":1}')]),
    "with its id and its arguments written otherwise": ([entry("a", "x", {"n": 1})], [("a", "x", '{"n":1}')]),
    "without an id": ([entry(None, "x", '{"n":1}')], [("a", "x", '{"n":1}')]),
    "under another id": ([entry("z", "x", '{"n":1}')], [("a", "x", '{"n":1}')]),
    "twice": ([entry("a", "x", '{"n":1}'), entry("a", "x", '{"n":1}')], [("a", "x", '{"n":1}')]),
    "with one that is new": (
        [entry("a", "x", '{"n":1}'), entry("b", "x", '{"n":1}')],
        [("a", "x", '{"n":1}'), ("b", "x", '{"n":1}')],
    ),
}


@pytest.mark.parametrize("case", REPEATS)
def test_a_call_that_a_whole_message_repeats_is_no_second_call(case: str) -> None:
    given, expected = REPEATS[case]
    streamed = b"".join(chunk({"tool_calls": [call]}) for call in STREAMED)
    assert calls_of(streamed + snapshot({"tool_calls": given}, finish_reason="tool_calls") + done()) == expected


def test_a_whole_message_completes_arguments_that_broke_off() -> None:
    streamed = chunk({"tool_calls": [STREAMED[0]]})
    assert calls_of(streamed + snapshot({"tool_calls": [entry("a", "x", '{"n":1}')]})) == [("a", "x", '{"n":1}')]


def test_a_call_that_comes_again_with_all_its_arguments_is_the_same_call() -> None:
    again = {"index": 0, "id": "a", "function": function("x", '{"n":1}')}
    assert calls_of(deltas(*STREAMED, again)) == [("a", "x", '{"n":1}')]
    assert calls_of(deltas(*STREAMED, {**again, "index": None})) == [("a", "x", '{"n":1}')]

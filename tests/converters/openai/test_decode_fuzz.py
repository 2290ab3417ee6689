"""Whatever the bytes are: a ChatRequest, or InvalidRequest with a bounded message. 2 000 bodies."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_core.errors import InvalidRequest
from converters.openai.decode import ChatRequest, parse_chat
from tests.converters.mangling import mangled

GOOD: dict[str, Any] = {
    "model": "agent",
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "developer", "content": [{"type": "text", "text": "d"}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
                {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
                {"type": "file", "file": {"file_data": "AA"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "pick", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "x"},
    ],
    "tools": [{"type": "function", "function": {"name": "pick", "parameters": {"type": "object"}}}],
    "tool_choice": {"type": "function", "function": {"name": "pick"}},
    "stream": True,
    "stream_options": {"include_usage": True},
    "x_agent": {"events": True},
    "temperature": 1,
    "max_tokens": 5,
    "stop": ["a"],
    "n": 1,
    "response_format": {"type": "text"},
}

BODY = json.dumps(GOOD).encode()

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None, categories=None), max_size=5)
    | st.sampled_from(["user", "tool", "assistant", "text", "function", "none", "data:;base64,"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "role", "content", "function", "name", "url", "id"]), inner)
    ),
    max_leaves=6,
)

fragments = st.sampled_from(
    [b"NaN", b"1e999", b'"\\ud800"', b"\xff", b"{", b"}", b"[", b"]", b'"', b"\\", b",", b"null", b"-0", b"[[[["]
) | st.binary(max_size=4)


def judge(body: bytes) -> None:
    answer: ChatRequest | InvalidRequest
    try:
        answer = parse_chat(body)
    except InvalidRequest as refusal:
        answer = refusal
    if isinstance(answer, InvalidRequest):
        assert 0 < len(answer.message.encode()) <= 4_000
        assert answer.param is None or len(answer.param.encode()) <= 200
    else:
        assert answer.input.messages
        assert answer.agent


@settings(max_examples=900, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_good_body_with_other_values_in_it(data: st.DataObject) -> None:
    judge(mangled(data, BODY, values))


@settings(max_examples=600, deadline=None)
@given(st.integers(0, len(BODY)), st.integers(0, 20), fragments)
def test_a_good_body_with_other_bytes_in_it(at: int, length: int, fragment: bytes) -> None:
    judge(BODY[:at] + fragment + BODY[at + length :])


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=50).map(str.encode))
def test_any_bytes_at_all(body: bytes) -> None:
    judge(body)


@settings(max_examples=300, deadline=None)
@given(values, st.sampled_from([*GOOD, "logprobs", "functions", "modalities", "seed", "reasoning_effort"]))
def test_any_value_for_a_member(value: Any, name: str) -> None:
    judge(json.dumps(GOOD | {name: value}).encode())


def test_the_body_that_is_changed_is_a_good_one() -> None:
    assert parse_chat(BODY).input.tool_choice == "pick"

"""Whatever the bytes are: an AguiRequest, or InvalidRequest with a bounded message."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_core.errors import InvalidRequest
from converters.agui.decode import AguiRequest, parse_run_input
from tests.converters.mangling import mangled

GOOD: dict[str, Any] = {
    "threadId": "t1",
    "runId": "r1",
    "protocolVersion": "1.0",
    "messages": [
        {"id": "1", "role": "system", "content": "s"},
        {"id": "2", "role": "user", "content": [{"type": "text", "text": "a"}, {"type": "binary", "data": "x"}]},
        {"id": "3", "role": "user", "content": [{"type": "image", "source": {"type": "url", "value": "u"}}]},
        {
            "id": "4",
            "role": "assistant",
            "toolCalls": [{"id": "c", "type": "function", "function": {"name": "n", "arguments": "{}"}}],
        },
        {"id": "5", "role": "tool", "toolCallId": "c", "content": "x", "error": "e"},
        {"id": "6", "role": "activity", "activityType": "a", "content": {}},
    ],
    "tools": [{"name": "pick", "description": "d", "parameters": {"type": "object"}}],
    "context": [{"description": "d", "value": "v"}],
    "state": {"a": 1},
    "forwardedProps": {},
}

BODY = json.dumps(GOOD).encode()

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None, categories=None), max_size=5)
    | st.sampled_from(["user", "text"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "id", "role", "x"]), inner),
    max_leaves=6,
)

fragments = st.sampled_from(
    [b"NaN", b"1e999", b'"\\ud800"', b"\xff", b"{", b"}", b"[", b"]", b'"', b"\\", b",", b"null", b"-0", b"[[[["]
) | st.binary(max_size=4)


def judge(body: bytes) -> None:
    answer: AguiRequest | InvalidRequest
    try:
        answer = parse_run_input(body)
    except InvalidRequest as refusal:
        answer = refusal
    if isinstance(answer, InvalidRequest):
        assert 0 < len(answer.message.encode()) <= 4_000
        assert answer.param is None or len(answer.param.encode()) <= 200
    else:
        assert answer.input.messages


@settings(max_examples=700, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_good_body_with_other_values_in_it(data: st.DataObject) -> None:
    judge(mangled(data, BODY, values))


@settings(max_examples=800, deadline=None)
@given(st.integers(0, len(BODY)), st.integers(0, 20), fragments)
def test_a_good_body_with_other_bytes_in_it(at: int, length: int, fragment: bytes) -> None:
    judge(BODY[:at] + fragment + BODY[at + length :])


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=50).map(str.encode))
def test_any_bytes_at_all(body: bytes) -> None:
    judge(body)


@settings(max_examples=200, deadline=None)
@given(values, st.sampled_from(["messages", "tools", "context", "resume", "threadId", "state"]))
def test_any_value_for_a_member(value: Any, name: str) -> None:
    judge(json.dumps(GOOD | {name: value}).encode())

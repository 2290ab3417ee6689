"""Messages that are given to an agent to know, and not to answer."""

from typing import Any

import orjson
import pytest

from agent_core.errors import InvalidRequest
from converters.agui.observed import parse_observed

USER: dict[str, Any] = {"id": "u1", "role": "user", "content": "hello"}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CALLING: dict[str, Any] = {"id": "a1", "role": "assistant"}
RESULT: dict[str, Any] = {"id": "t1", "role": "tool", "toolCallId": "c1", "content": "done"}


def observed(*messages: Any) -> list[tuple[str, str, str]]:
    parsed = parse_observed(orjson.dumps({"messages": messages, "other": 1}))
    return [(each.id, each.role, each.text) for each in parsed]


def test_what_was_said_is_read_in_order_and_each_id_once() -> None:
    answer = {"id": "a1", "role": "assistant", "content": "hi"}
    assert observed(USER, answer, USER | {"content": "again"}) == [("u1", "user", "hello"), ("a1", "assistant", "hi")]


@pytest.mark.parametrize("bad", [RESULT, CALLING | {"toolCalls": [CALL]}, CALLING | {"tool_calls": [CALL]}])
def test_calls_and_results_are_refused_by_their_place(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="cannot be observed") as refused:
        observed(USER, bad)
    assert refused.value.param == "messages[1]"

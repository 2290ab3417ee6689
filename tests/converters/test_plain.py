"""Plain messages are read in a quick way: as the careful way reads them, or not at all."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from ag_ui.core import RunAgentInput
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_core.errors import InvalidRequest
from converters import parsing
from converters.agui import decode, lenient
from converters.agui.decode import MOST_CHECKED, parse_run_input
from converters.agui.plain_messages import plain_message
from converters.bounds import MOST_MESSAGES
from converters.openai import messages as chat_messages
from converters.openai.decode import parse_chat
from tests.converters.mangling import mangled

CALL = {"id": "c", "type": "function", "function": {"name": "pick", "arguments": "{}"}}
PLAIN: dict[str, list[dict[str, Any]]] = {
    "agui": [
        {"id": "1", "role": "system", "content": "s"},
        {"id": "2", "role": "user", "content": "hi"},
        {"id": "3", "role": "assistant", "toolCalls": [CALL, {**CALL, "id": "d"}]},
        {"id": "4", "role": "tool", "toolCallId": "c", "content": "x"},
        {"id": "5", "role": "assistant", "content": "a text", "toolCalls": None},
        {"id": "6", "role": "assistant", "content": "a text"},
        {"id": "7", "role": "developer", "content": ""},
    ],
    "chat": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "d"}], "refusal": None},
        {"role": "tool", "tool_call_id": "c", "content": "x"},
        {"role": "assistant", "content": "a text", "annotations": []},
        {"role": "developer", "content": ""},
    ],
}
WIRES: dict[str, tuple[Callable[[bytes], Any], dict[str, Any]]] = {
    "agui": (parse_run_input, {"threadId": "t", "runId": "r", "state": None, "tools": [], "context": []}),
    "chat": (parse_chat, {"model": "agent"}),
}

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=3)
    | st.sampled_from(["user", "tool", "assistant", "reasoning", "unknown", "function", "1"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "id", "role", "content", "name", "error", "extra"]), inner, max_size=2
        )
    ),
    max_leaves=4,
)
EXTRA = st.dictionaries(
    st.sampled_from(
        ["name", "error", "encryptedValue", "tool_calls", "toolCalls", "tool_call_id", "refusal", "audio", "metadata"]
    ),
    values,
    max_size=1,
)


def outcome(wire: str, messages: list[Any]) -> object:
    """What the body is read as, or how it is refused."""
    parse, members = WIRES[wire]
    body = json.dumps({**members, "messages": messages}).encode()
    try:
        return parse(body)
    except InvalidRequest as error:
        return (error.message, error.param)


def careful(wire: str, messages: list[Any]) -> object:
    """The same, in the careful way alone."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lenient, "plain_message", lambda _: None)
        patched.setattr(chat_messages, "_plain", lambda *_: None)
        return outcome(wire, messages)


@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_both_ways_read_the_same_and_refuse_the_same_in_the_same_words(wire: str, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(PLAIN[wire]), min_size=1, max_size=5))
    messages: list[Any] = [each | data.draw(EXTRA) for each in chosen]
    if data.draw(st.booleans()):
        messages = json.loads(
            mangled(data, json.dumps({"messages": messages, "a": 0, "b": 0, "c": 0}).encode(), values)
        ).get("messages", [])
    assert outcome(wire, messages) == careful(wire, messages)


HI: dict[str, Any] = {"id": "1", "role": "user", "content": "hi"}
SAID: dict[str, Any] = {"id": "2", "role": "assistant", "tool_calls": [CALL]}
ODD: dict[str, list[Any]] = {
    "the same id twice": [HI, HI],
    "an assistant's id twice": [HI, HI | {"role": "assistant"}],
    "an empty id": [HI, HI | {"id": ""}],
    "the longest id": [HI | {"id": "x" * 256}],
    "an id that is too long": [HI, HI | {"id": "x" * 257}],
    "a sound instead of a content": [HI, SAID | {"audio": {"id": "a"}}],
    "thinking instead of a content": [HI, SAID | {"reasoning_content": "hm"}],
    "a refusal beside calls": [HI, SAID | {"content": None, "refusal": "no"}],
    "a call of another type": [HI, SAID | {"tool_calls": [CALL | {"type": "custom"}]}],
    "a call with a signature": [HI, SAID | {"tool_calls": [CALL | {"extra_content": {"g": 1}}]}],
    "a function with other members": [HI, SAID | {"tool_calls": [CALL | {"function": {"name": "f", "args": "{}"}}]}],
    "no role": [HI, {"id": "2", "content": "hi", "name": None}],
    "a list as the role": [HI, HI | {"role": ["user"]}],
    "no object": [HI, "hi", None, 5, [HI]],
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", ODD)
def test_odd_messages_are_read_the_same_both_ways(wire: str, name: str) -> None:
    spelled = json.dumps(ODD[name]).replace("tool_calls", "toolCalls") if wire == "agui" else json.dumps(ODD[name])
    assert outcome(wire, json.loads(spelled)) == careful(wire, json.loads(spelled))


@pytest.mark.parametrize("wire", WIRES)
def test_a_transcript_is_not_walked_level_by_level(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[object] = []
    monkeypatch.setattr(parsing, "_has_more_levels", walked.append)
    assert not isinstance(outcome(wire, [each | {"id": str(at)} for at, each in enumerate(PLAIN[wire] * 50)]), tuple)
    assert walked == []


@pytest.mark.parametrize("each", PLAIN["agui"])
def test_nearly_all_messages_are_plain(each: dict[str, Any]) -> None:
    assert plain_message(each) is not None


@pytest.mark.parametrize("each", PLAIN["chat"])
def test_nearly_all_messages_of_a_chat_are_plain(each: dict[str, Any]) -> None:
    assert chat_messages._plain(0, each) is not None


@pytest.mark.parametrize("wire", WIRES)
def test_ten_thousand_messages_are_read_and_one_more_is_refused(wire: str) -> None:
    parse, members = WIRES[wire]
    many = [{"id": str(number), "role": "user", "content": "hi"} for number in range(MOST_MESSAGES + 1)]
    read = parse(json.dumps({**members, "messages": many[1:]}).encode())
    assert len(read.input.messages) == MOST_MESSAGES == 10_000
    assert outcome(wire, many) == ("messages: at most 10000 are allowed, and there are 10001.", "messages")


def test_of_many_wrong_messages_the_first_are_named_by_their_places() -> None:
    good = {"id": "g", "role": "user", "content": "hi"}
    wrong = [{"id": str(number), "role": "user"} for number in range(9_000)]
    told = outcome("agui", [good, good, *wrong])
    assert isinstance(told, tuple)
    assert told[1] == "messages[2].content"
    assert told[0].startswith("messages[2].content: is missing. messages[3].content: is missing.")
    late = [{"id": str(number), "role": "user", "content": [{"type": "text", "text": "x"}]} for number in range(1_500)]
    late[MOST_CHECKED + 7] = {"id": "w", "role": "user"}
    told = outcome("agui", [good, *late])
    assert told == (f"messages[{MOST_CHECKED + 8}].content: is missing.", f"messages[{MOST_CHECKED + 8}].content")


def test_messages_that_are_not_plain_are_read_in_slices_and_nothing_else_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[tuple[int, int, int]] = []

    def counted(members: dict[str, Any]) -> RunAgentInput:
        taken.append(tuple(len(members[name]) for name in ("messages", "tools", "context")))  # type: ignore[arg-type]
        return RunAgentInput.model_validate(members)

    monkeypatch.setattr(decode, "RunAgentInput", SimpleNamespace(model_validate=counted))
    named = [{"id": f"m{at}", "role": "user", "content": str(at), "name": "n"} for at in range(2 * MOST_CHECKED + 1)]
    given = [each for at, one in enumerate(named) for each in (one, HI | {"id": f"h{at}"})]
    members = WIRES["agui"][1] | {"messages": given, "tools": [{"name": "f", "description": "", "parameters": {}}]}
    read = parse_run_input(json.dumps(members).encode()).input
    assert [each.id for each in read.messages] == [each["id"] for each in given]
    assert [each.name for each in read.messages] == [each.get("name") for each in given]
    assert len(read.tools) == 1
    assert taken == [(MOST_CHECKED, 1, 0), (MOST_CHECKED, 0, 0), (1, 0, 0)]


@pytest.mark.parametrize("wire", WIRES)
def test_a_body_that_is_nested_too_deep_says_so_however_it_is_read(wire: str) -> None:
    parse, _ = WIRES[wire]
    for deep in (b'{"a":' + b"[" * 200 + b"]" * 200 + b"}", b'{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}", b"[" * 300):
        with pytest.raises(InvalidRequest, match="nested more than 200 levels deep"):
            parse(deep)
    with pytest.raises(InvalidRequest) as caught:
        parse(b'{"a":' + b"[" * 199 + b"]" * 199 + b"}")
    assert "nested" not in caught.value.message

"""Snapshots of messages and state, in both dialects, and within a frame's size."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from agent_core.events import MessagesSnapshot, Rewound, StateDelta, StateSnapshot
from agent_core.messages import MediaPart, Message, TextPart, ToolCall
from converters.agui.dialect import Dialect
from converters.agui.stream import AguiStream
from tests.converters.agui.streams import RUN, START, THREAD, convert

PICTURE = MediaPart(kind="image", source="data", value="QUJD", mime_type="image/png")

TALK = (
    Message(id="u1", role="user", content=(TextPart(text="look"), PICTURE)),
    Message(id="m1", role="assistant", thoughts=("hm",), tool_calls=(ToolCall(id="c1", name="see", arguments="{}"),)),
    Message(id="t1", role="tool", tool_call_id="c1", name="see", content="a cat", status="error"),
    Message(id="m2", role="assistant", content="A cat."),
)


def snapshot(
    *messages: Message, dialect: Dialect = Dialect.V1, clients: Sequence[str] = (), reasoning: bool = False
) -> list[dict[str, Any]]:
    event = MessagesSnapshot(run_id=RUN, messages=messages, clients=frozenset(clients))
    if dialect is Dialect.OLD:  # the protocol's models no longer know `binary`
        stream = AguiStream(THREAD, RUN, dialect, reasoning=reasoning)
        stream.feed([START])
        told = stream.feed([event]).partition(b"data: ")[2]
        assert len(told) + 6 <= 1_000_000
        shown = json.loads(told)
    else:
        [shown] = convert(event)
    assert shown["type"] == "MESSAGES_SNAPSHOT"
    messages_shown: list[dict[str, Any]] = shown["messages"]
    return messages_shown


def test_the_messages_as_they_stand() -> None:
    shown = snapshot(*TALK)
    assert [(each["id"], each["role"]) for each in shown] == [
        ("u1", "user"),
        ("m1-thinking-1", "reasoning"),
        ("m1", "assistant"),
        ("t1", "tool"),
        ("m2", "assistant"),
    ]
    assert snapshot() == []


def test_clients_of_before_1_0_get_no_reasoning_and_media_as_they_know_it() -> None:
    shown = snapshot(*TALK, dialect=Dialect.OLD)
    assert [each["role"] for each in shown] == ["user", "assistant", "tool", "assistant"]
    assert shown[0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "binary", "mimeType": "image/png", "data": "QUJD"},
    ]


@pytest.mark.parametrize(
    ("clients", "reasoning", "takes"),
    [
        ((), True, True),
        (("agui/1.0",), False, True),
        (("agui/0.x", "agui/0.x+reasoning"), False, True),
        (("agui/0.x",), False, False),
        (("", "agui", "openai", "agui/2.0+reasoning"), False, False),
    ],
)
def test_those_that_have_shown_that_they_take_it_get_reasoning_and_the_rest_as_before(
    clients: tuple[str, ...], reasoning: bool, takes: bool
) -> None:
    shown = snapshot(*TALK, dialect=Dialect.OLD, clients=clients, reasoning=reasoning)
    thinking = [each for each in shown if each["role"] == "reasoning"]
    assert thinking == ([{"id": "m1-thinking-1", "role": "reasoning", "content": "hm"}] if takes else [])
    assert [each for each in shown if each not in thinking] == snapshot(*TALK, dialect=Dialect.OLD)


@pytest.mark.parametrize(("dialect", "parts"), [(Dialect.V1, 2), (Dialect.OLD, None)])
def test_a_result_with_media_is_text_for_clients_of_before_1_0(dialect: Dialect, parts: int | None) -> None:
    [shown] = snapshot(
        Message(id="t1", role="tool", tool_call_id="c1", content=(TextPart(text="a cat"), PICTURE)), dialect=dialect
    )
    assert shown["content"] == "a cat" if parts is None else len(shown["content"]) == parts


@pytest.mark.parametrize("dialect", Dialect)
def test_a_snapshot_that_is_too_large_is_cut_where_it_is_long_and_says_so(dialect: Dialect) -> None:
    shown = snapshot(
        Message(id="u1", role="user", content="short"),
        Message(id="u2", role="user", content=(PICTURE, MediaPart(kind="image", source="data", value="x" * 900_000))),
        Message(
            id="m1",
            role="assistant",
            content="\x01" * 500_000,
            thoughts=("y" * 600_000,),
            tool_calls=(ToolCall(id="c", name="n", arguments=json.dumps({"a": "z" * 700_000})),),
        ),
        dialect=dialect,
    )
    assert shown[0]["content"] == "short"
    assert "900000 characters" in shown[1]["content"][-1]["text"]
    last = shown[-1]
    assert last["content"].endswith("of 500000 characters are shown]")
    assert "not shown here" in json.loads(last["toolCalls"][0]["function"]["arguments"])["note"]


def test_of_too_many_messages_the_last_are_shown() -> None:
    shown = snapshot(*(Message(id=f"u{n}", role="user", content="x" * 1_000) for n in range(5_000)))
    assert 1_000 < len(shown) < 5_000
    assert shown[-1]["id"] == "u4999"


def test_the_state_is_told_whole_and_then_as_patches() -> None:
    patch = [{"op": "replace", "path": "/a", "value": None}]
    assert convert(StateSnapshot(run_id=RUN, value={"a": 1}), StateDelta(run_id=RUN, patch=patch)) == [
        {"type": "STATE_SNAPSHOT", "snapshot": {"a": 1}},
        {"type": "STATE_DELTA", "delta": patch},
    ]
    assert convert(StateSnapshot(run_id=RUN, value=None)) == [{"type": "STATE_SNAPSHOT", "snapshot": None}]
    assert convert(StateDelta(run_id=RUN, patch=[])) == []


def test_a_history_that_goes_on_from_earlier_is_told() -> None:
    assert convert(Rewound(run_id=RUN, after="m1")) == [
        {"type": "CUSTOM", "name": "session_rewound", "value": {"after": "m1"}}
    ]


def edited_result(arguments: dict[str, Any]) -> Message:
    return Message(id="r", role="tool", tool_call_id="c", name="send", content="sent", edited_arguments=arguments)


def test_edited_arguments_are_told_to_clients_of_1_0_under_two_names_and_to_no_others() -> None:
    result = edited_result({"to": "zed"})
    [told] = snapshot(result)
    assert (told["editedArguments"], told["metadata"]) == ({"to": "zed"}, {"editedArguments": {"to": "zed"}})
    [older] = snapshot(result, dialect=Dialect.OLD)
    assert older == {"id": "r", "role": "tool", "toolCallId": "c", "content": "sent"}


def test_edited_arguments_that_are_too_large_for_a_snapshot_are_a_note() -> None:
    [told] = snapshot(edited_result({"to": "z" * 2_000_000}))
    assert told["editedArguments"] == {"note": "2000009 characters of arguments, not shown here"}
    assert told["content"] == "sent"

"""What is told whole: the messages and the session's state."""

from collections.abc import Sequence
from typing import Any

import orjson

from agent_core.events import Event, MessagesSnapshot, Rewound, StateDelta, StateSnapshot
from agent_core.messages import Message
from agent_core.shortened import note_of
from converters.agui.custom import custom
from converters.agui.dialect import take_reasoning
from converters.agui.encode import compose
from converters.agui.messages_out import Members, edited, to_agui
from converters.wire import TEXT_LIMIT, Frame, cut, server_sent, text_json, to_json

SHORTEST = 500
"""Bytes of JSON to which texts are cut at most where a snapshot is too large; after that messages are left out."""


class Messages:
    """The conversation as it stands, as MESSAGES_SNAPSHOT, and that an earlier part of it counts no more, as
    CUSTOM `session_rewound`.

    Clients of before 1.0 know media as `binary` parts, no media in results and no `editedArguments`, and those of
    them that have not shown it, in the request that is answered (`reasoning`) or in one of the session's, no reasoning
    messages.
    """

    claims = (MessagesSnapshot, Rewound)

    def __init__(self, *, reasoning: bool = False) -> None:
        self._reasoning = reasoning

    def convert(self, event: Event) -> Sequence[Frame]:
        if isinstance(event, MessagesSnapshot):
            return (snapshot(event.messages, reasoning=self._reasoning or take_reasoning(event.clients)),)
        if isinstance(event, Rewound):
            return (custom("session_rewound", {"after": event.after}),)
        return ()


class StateSync:
    """The session's state: whole as STATE_SNAPSHOT, and what changes as STATE_DELTA."""

    claims = (StateSnapshot, StateDelta)

    def convert(self, event: Event) -> Sequence[Frame]:
        if isinstance(event, StateSnapshot):
            return (compose({"type": "STATE_SNAPSHOT", "snapshot": event.value}),)
        if isinstance(event, StateDelta):
            return (compose({"type": "STATE_DELTA", "delta": event.patch}),) if event.patch else ()
        return ()


def snapshot(messages: Sequence[Message], *, reasoning: bool = False) -> Frame:
    """MESSAGES_SNAPSHOT. Where it would be too large for a frame, long texts are cut, each with a note, and
    if that is not enough, the oldest messages are left out. With `reasoning` a client of before 1.0 gets thinking."""
    shown = _fitting(to_agui(messages))
    older = [_before_1_0(each) for each in shown if reasoning or each["role"] != "reasoning"]
    frame = compose({"type": "MESSAGES_SNAPSHOT", "messages": shown})
    if older == shown:
        return frame
    old = server_sent(to_json({"type": "MESSAGES_SNAPSHOT", "messages": older}))
    return Frame(frame.kind, frame.data, old=old)


def _before_1_0(members: Members) -> Members:
    if "editedArguments" in members:
        members = {name: value for name, value in members.items() if name not in ("editedArguments", "metadata")}
    content = members.get("content")
    if not isinstance(content, list):
        return members
    if members["role"] == "tool":
        return members | {"content": "".join(part["text"] for part in content if part["type"] == "text")}
    return members | {"content": [_binary(part) for part in content]}


def _binary(part: Members) -> Members:
    if part["type"] == "text":
        return part
    source = part["source"]
    name = {"data": "data", "url": "url", "file": "id"}[source["type"]]
    return {
        "type": "binary",
        "mimeType": source.get("mimeType", "application/octet-stream"),
        name: source["value"],
    }


def _fitting(messages: list[Members]) -> list[Members]:
    limit = TEXT_LIMIT // 2
    shown, sizes = list(messages), [len(to_json(each)) + 1 for each in messages]
    while sum(sizes) > TEXT_LIMIT and limit >= SHORTEST:
        for place, size in enumerate(sizes):
            if size > limit:  # else nothing in it is longer
                shown[place] = _shortened(messages[place], limit)
                sizes[place] = len(to_json(shown[place])) + 1
        limit //= 2
    first, size = 0, sum(sizes)
    while size > TEXT_LIMIT:
        size -= sizes[first]
        first += 1
    return shown[first:]


def _shortened(members: Members, limit: int) -> Members:
    """The message with no text longer than `limit` bytes of JSON."""
    found: Members = {}
    for name in ("content", "error"):
        value = members.get(name)
        if isinstance(value, str):
            found[name] = cut(value, limit)
        elif isinstance(value, list):
            found[name] = [_shortened_part(part, limit) for part in value]
    if "editedArguments" in members:
        found |= edited(_shortened_arguments(members["editedArguments"], limit))
    if "toolCalls" in members:
        found["toolCalls"] = [_shortened_call(call, limit) for call in members["toolCalls"]]
    return members | found


def _shortened_part(part: Members, limit: int) -> Members:
    if part["type"] == "text":
        return {"type": "text", "text": cut(part["text"], limit)}
    if len(part["source"]["value"]) <= limit:
        return part
    return {"type": "text", "text": note_of(part["type"], len(part["source"]["value"]))}


def _shortened_call(call: Members, limit: int) -> Members:
    arguments: Any = call["function"]["arguments"]
    if len(text_json(arguments)) <= limit:
        return call
    note = orjson.dumps(_note(len(arguments))).decode()
    return call | {"function": call["function"] | {"arguments": note}}


def _shortened_arguments(arguments: Members, limit: int) -> Members:
    size = len(to_json(arguments))
    return arguments if size <= limit else _note(size)


def _note(size: int) -> Members:
    """What stands in the place of arguments that are too large: cut, they would be no JSON any more, on which
    clients fail."""
    return {"note": f"{size} characters of arguments, not shown here"}

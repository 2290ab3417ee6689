"""Snapshots: the messages and the session's state, told whole."""

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
"""If a snapshot is too large, texts are cut, but not below so many bytes of JSON. After that messages are left out."""


class Messages:
    """The conversation as it stands as MESSAGES_SNAPSHOT, and a rewind as CUSTOM `session_rewound`.

    Clients from before 1.0 get media as `binary` parts, results without media, and no `editedArguments`. They get
    reasoning messages only if a client has shown that it takes them: in the request that is answered (`reasoning`), or
    in another request of the session.
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
    """The session's state: the whole as STATE_SNAPSHOT, a change as STATE_DELTA."""

    claims = (StateSnapshot, StateDelta)

    def convert(self, event: Event) -> Sequence[Frame]:
        if isinstance(event, StateSnapshot):
            return (compose({"type": "STATE_SNAPSHOT", "snapshot": event.value}),)
        if isinstance(event, StateDelta):
            return (compose({"type": "STATE_DELTA", "delta": event.patch}),) if event.patch else ()
        return ()


def snapshot(messages: Sequence[Message], *, reasoning: bool = False) -> Frame:
    """MESSAGES_SNAPSHOT. If it is too large for a frame, long texts are cut, each with a note. If that is not enough,
    the oldest messages are left out. With `reasoning` a client from before 1.0 gets thinking too."""
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
            if size > limit:  # else no text in it is longer
                shown[place] = _shortened(messages[place], limit)
                sizes[place] = len(to_json(shown[place])) + 1
        limit //= 2
    first, size = 0, sum(sizes)
    while size > TEXT_LIMIT:
        size -= sizes[first]
        first += 1
    return shown[first:]


def _shortened(members: Members, limit: int) -> Members:
    """The message, each of its texts cut to `limit` bytes of JSON."""
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
    """A note in place of arguments that are too large. They are not cut, because clients fail on broken JSON."""
    return {"note": f"{size} characters of arguments, not shown here"}

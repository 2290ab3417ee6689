"""The engine's messages as AG-UI's messages, under the ids with which they were streamed."""

from collections.abc import Iterable, Iterator
from typing import Any

from agent_core.messages import MediaPart, Message, Part, ToolCall

Members = dict[str, Any]


def to_agui(messages: Iterable[Message]) -> list[Members]:
    """The messages as members in camel case, in order. Members without a value are left out.

    - Each block of an assistant's thinking becomes a `reasoning` message in front of its message.
    - An assistant message without text and calls is left out, since no client was shown one.
    - A result that is no success has its text in `error` too. A result with media has parts. If a person has edited the
      call's arguments, the result has them (`edited`).
    """
    return [members for message in messages for members in _members(message)]


def _members(message: Message) -> Iterator[Members]:
    if message.role == "assistant":
        for number, thought in enumerate(message.thoughts, start=1):
            yield {"id": f"{message.id}-thinking-{number}", "role": "reasoning", "content": thought}
        if message.text or message.tool_calls:
            yield _assistant(message)
    elif message.role == "tool":
        yield _result(message)
    elif message.role == "user":
        yield _named(message, to_content(message.content))
    else:
        yield _named(message, message.text)


def _named(message: Message, content: str | list[Members]) -> Members:
    members: Members = {"id": message.id, "role": message.role, "content": content}
    return members if message.name is None else members | {"name": message.name}


def _assistant(message: Message) -> Members:
    members = _named(message, message.text)
    if message.tool_calls:
        members["toolCalls"] = [_call(call) for call in message.tool_calls]
        if not members["content"]:
            del members["content"]
    return members


def _call(call: ToolCall) -> Members:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _result(message: Message) -> Members:
    members: Members = {
        "id": message.id,
        "role": "tool",
        "toolCallId": message.tool_call_id or "",
        "content": to_content(message.content),
    }
    if message.status != "ok":
        members["error"] = message.text
    if message.edited_arguments is not None:
        members |= edited(message.edited_arguments)
    return members


def edited(arguments: Members) -> Members:
    """The members of a tool message that hold the edited arguments: a member of our own, and the same in `metadata`.
    AG-UI's client removes members that the protocol does not name, but keeps `metadata`."""
    return {"editedArguments": arguments, "metadata": {"editedArguments": arguments}}


def to_content(content: str | tuple[Part, ...]) -> str | list[Members]:
    """A message's content as AG-UI has it."""
    if isinstance(content, str):
        return content
    return [_media(part) if isinstance(part, MediaPart) else {"type": "text", "text": part.text} for part in content]


def _media(part: MediaPart) -> Members:
    source: Members = {"type": part.source, "value": part.value}
    if part.mime_type is not None:
        source["mimeType"] = part.mime_type
    elif part.source == "data":  # the protocol demands a type here
        source["mimeType"] = "application/octet-stream"
    return {"type": part.kind, "source": source}

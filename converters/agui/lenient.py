"""Corrects an AG-UI input before ag-ui-protocol's models see it. The models refuse more than a server may: unknown
roles, kinds of parts and sources, parts from before 1.0, and nulls.

An unknown part is not removed. Something empty takes its place, so that the paths in errors stay those of the client's
input.
"""

from collections.abc import Iterator
from typing import Any

from agent_core.errors import InvalidRequest
from agent_core.messages import Message
from converters.agui.plain_messages import plain_message
from converters.bounds import MOST_ITEMS, MOST_MESSAGES, MOST_TOOLS, check_items
from converters.fields import check_length

_ROLES = frozenset({"developer", "system", "user", "assistant", "tool", "reasoning", "activity"})
_MEDIA = frozenset({"image", "audio", "video", "document"})
_SOURCES = frozenset({"data", "url", "file"})


def tidy(members: dict[str, Any]) -> dict[int, Message]:
    """Correct the input in place, and return its plain messages, each under its index. They need no correction.

    Raises InvalidRequest if a list is missing or too long.
    """
    messages = members.get("messages")
    if messages is None:
        raise InvalidRequest("messages: is missing.", "messages")
    _limit(messages, MOST_MESSAGES, "messages")
    _limit(members.get("tools"), MOST_TOOLS, "tools")
    _limit(members.get("context"), MOST_ITEMS, "context")
    plain: dict[int, Message] = {}
    if isinstance(messages, list):
        plain = {at: found for at, each in enumerate(messages) if (found := plain_message(each)) is not None}
        others = [at for at in range(len(messages)) if at not in plain] if len(plain) < len(messages) else []
        calls = sum(len(each.tool_calls) for each in plain.values())
        # The models accept both spellings.
        check_items((messages[at] for at in others), ("content", "toolCalls", "tool_calls"), beside=calls)
        for at in others:
            messages[at] = _message(messages[at])
    for tool in _objects(members.get("tools")):
        if tool.get("description") is None:
            tool["description"] = ""
    return plain


def _limit(value: object, most: int, name: str) -> None:
    if isinstance(value, list):
        check_length(value, most, name)


def _objects(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, dict))


def _message(message: Any) -> Any:
    if not isinstance(message, dict):
        return message
    role = message.get("role")
    if isinstance(role, str) and role not in _ROLES:
        return {"role": "activity", "id": "", "activityType": "", "content": {}}
    content = message.get("content")
    if isinstance(content, list):
        message["content"] = [_part(each) for each in content]
    elif content is None and role == "tool" and message.get("error"):
        message["content"] = ""
    for call in _objects(message.get("toolCalls")):
        if call.get("type") is None:
            call.pop("type", None)
    return message


def _part(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    kind = part.get("type")
    if kind == "binary":
        return _from_binary(part)
    source = part.get("source")
    known = kind == "text" or kind in _MEDIA if isinstance(kind, str) else True
    if kind != "text" and isinstance(source, dict) and isinstance(source.get("type"), str):
        known = known and source["type"] in _SOURCES
    return part if known else _nothing()


def _from_binary(part: dict[str, Any]) -> dict[str, Any]:
    """A file part of a client from before 1.0, in today's shape. Empty if it has no content."""
    mime_type = part.get("mimeType")
    kind = mime_type.partition("/")[0] if isinstance(mime_type, str) else "document"
    for member, source in (("data", "data"), ("url", "url"), ("id", "file")):
        if part.get(member):
            found = {"type": source, "value": part[member]}
            if mime_type is not None or source == "data":
                found["mimeType"] = "application/octet-stream" if mime_type is None else mime_type
            return {"type": kind if kind in _MEDIA else "document", "source": found}
    return _nothing()


def _nothing() -> dict[str, Any]:
    return {"type": "text", "text": ""}

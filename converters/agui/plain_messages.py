"""Reads the plain messages of a transcript: texts, calls and results as nearly all of them are.

A client sends its whole transcript with each request. To read a message with the protocol's models takes several times
as long as with this, and most of it was read before. Whatever is not plain, wrong messages too, is left to the models.
"""

from typing import Any

from agent_core.messages import Message
from converters.bounds import MOST_ITEMS
from converters.plain_calls import plain_calls


def plain_message(given: Any) -> Message | None:
    """The message, as the models and `to_messages` would read it. None if it has any member that is not plain."""
    # The types are those that orjson makes, and to compare them takes half the time of isinstance.
    if type(given) is not dict:
        return None
    role, message_id, content = given.get("role"), given.get("id"), given.get("content")
    if type(message_id) is not str:
        return None
    if type(content) is str:
        if len(given) == 3:
            if role == "user" or role == "assistant" or role == "system" or role == "developer":
                return Message(id=message_id, role=role, content=content)
            return None
        if role == "tool":
            call_id = given.get("toolCallId")
            if len(given) == 4 and type(call_id) is str:
                return Message(id=message_id, role="tool", tool_call_id=call_id, content=content)
            return None
    return _with_calls(given, message_id) if role == "assistant" and "toolCalls" in given else None


def _with_calls(given: dict[str, Any], message_id: str) -> Message | None:
    content = given.get("content")
    if len(given) != 3 + ("content" in given) or not (content is None or isinstance(content, str)):
        return None
    calls = plain_calls(given["toolCalls"], MOST_ITEMS)
    return None if calls is None else Message(id=message_id, role="assistant", content=content or "", tool_calls=calls)

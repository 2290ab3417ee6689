"""OpenAI's chat messages as the engine's messages. Shapes: the request messages of Chat Completions."""

from hashlib import sha256
from typing import Any

import orjson

from agent_core.messages import Message, ToolCall, plain
from converters.bounds import MOST_MESSAGES, check_items
from converters.fields import Members, an_object, list_at, needed_text, object_at, refuse, text_at
from converters.openai.parts import content_of, text_of
from converters.parsing import step
from converters.plain_calls import plain_calls

MOST_CALLS = 128
"""Tool calls of one message at most."""


def messages_of(members: Members) -> tuple[Message, ...]:
    """The conversation in order. Raises InvalidRequest for messages that cannot be read, and if there are none.

    OpenAI's messages have no ids. Each gets an id that is made of its place, role and content, so the same conversation
    has the same ids when it comes again.
    """
    given = list_at(members, "messages", MOST_MESSAGES)
    if not given:
        missing = members.get("messages") is None
        raise refuse("messages", "is missing." if missing else "there must be at least one message.")
    plain = [_plain(index, each) for index, each in enumerate(given)]
    calls = sum(len(each.tool_calls) for each in plain if each is not None)
    others = [index for index, read in enumerate(plain) if read is None]
    check_items((given[index] for index in others), ("content", "tool_calls"), beside=calls)
    for index in others:
        plain[index] = _message(index, given[index], step("messages", index))
    return tuple(each for each in plain if each is not None)


def _plain(index: int, given: object) -> Message | None:
    """The message, if it is a text, calls or a result, as nearly all of a long conversation are. It is as `_message`
    would read it, at half the cost. None for anything else, wrong messages too."""
    if type(given) is not dict or given.get("name") is not None:  # the types are those that orjson makes
        return None
    role, content = given.get("role"), given.get("content")
    if role == "assistant":
        if not (content is None or type(content) is str):
            return None
        if len(given) > 1 + ("content" in given) + ("tool_calls" in given) and not _is_usual(given):
            return None
        calls = plain_calls(given.get("tool_calls"), MOST_CALLS)
        if calls is None:
            return None
        return Message(id=_id(index, role, content), role=role, content=content or "", tool_calls=calls)
    if type(content) is not str:
        return None
    if role == "user" or role == "system" or role == "developer":
        return Message(id=_id(index, role, content), role=role, content=content)
    call_id = given.get("tool_call_id")
    if role == "tool" and type(call_id) is str and call_id:
        return Message(id=_id(index, role, content), role=role, tool_call_id=call_id, content=content)
    return None


def _is_usual(given: Members) -> bool:
    """Whether an assistant's message has none of the members that mean something and are mostly null."""
    get = given.get
    return (
        get("refusal") is None
        and get("audio") is None
        and get("function_call") is None
        and get("reasoning_content") is None
    )


def _message(index: int, value: object, path: str) -> Message:
    message = an_object(value, path)
    role = needed_text(message, "role", path)
    message_id = _id(index, role, message.get("content"))
    name = text_at(message, "name", path)
    match role:
        case "user":
            return Message(id=message_id, role="user", content=content_of(message, path), name=name)
        case "system" | "developer":
            return Message(id=message_id, role=role, content=text_of(message, path), name=name)
        case "assistant":
            return _assistant(message_id, message, path)
        case "tool":
            call_id = needed_text(message, "tool_call_id", path)
            content = "" if message.get("content") is None else plain(content_of(message, path))
            return Message(id=message_id, role="tool", tool_call_id=call_id, content=content, name=name)
    raise refuse(step(path, "role"), "must be developer, system, user, assistant or tool.")


def _id(index: int, role: str, content: object) -> str:
    return f"in_{sha256(orjson.dumps([index, role, content])).hexdigest()[:16]}"


def _assistant(message_id: str, message: Members, path: str) -> Message:
    """An assistant's message as clients send it back. Its annotations and parsed values only repeat the content."""
    for name in ("audio", "function_call"):
        if message.get(name) is not None:
            raise refuse(step(path, name), "is not available here.")
    refusal = text_at(message, "refusal", path) or ""
    said = refusal if message.get("content") is None else text_of(message, path, replayed=True)
    calls = list_at(message, "tool_calls", MOST_CALLS, path)
    where = step(path, "tool_calls")
    thought = text_at(message, "reasoning_content", path)
    return Message(
        id=message_id,
        role="assistant",
        content=said,
        name=text_at(message, "name", path),
        thoughts=(thought,) if thought else (),
        tool_calls=tuple(_call(an_object(each, step(where, at)), step(where, at)) for at, each in enumerate(calls)),
    )


def _call(call: dict[str, Any], path: str) -> ToolCall:
    if call.get("type") not in (None, "function"):
        raise refuse(step(path, "type"), "only calls of type 'function' are available here.")
    function = object_at(call, "function", path)
    if function is None:
        raise refuse(step(path, "function"), "is missing.")
    inside = step(path, "function")
    # Gemini refuses a call that comes back without the signature that it put there.
    signature = object_at(call, "extra_content", path)
    return ToolCall(
        id=needed_text(call, "id", path),
        name=needed_text(function, "name", inside),
        arguments=text_at(function, "arguments", inside) or "{}",
        extra={} if signature is None else {"extra_content": signature},
    )

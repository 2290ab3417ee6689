"""What counts as the same call and as the same result; and what the guards add to a result, which does not count."""

from hashlib import blake2b

import orjson
from msgspec.structs import replace

from agent_core.messages import Message, Part, TextPart, ToolCall, well_formed

LONGEST = 128 * 1024
"""Characters of arguments that are read to be compared."""


def noted(result: Message, told: str) -> Message:
    """The result with what a guard says to the model behind it, once."""
    if not told or result.noted:
        return result
    if isinstance(result.content, str):
        told = f"\n\n{told}" if result.content else told
        return replace(result, content=result.content + told, noted=len(told))
    return replace(result, content=(*result.content, TextPart(text=told)), noted=len(told))


def bare(result: Message) -> str | tuple[Part, ...]:
    """The result's content without what the guards have added."""
    if not result.noted:
        return result.content
    if isinstance(result.content, str):
        return result.content[: max(0, len(result.content) - result.noted)]
    return result.content[:-1]


def canonical(arguments: str) -> bytes:
    """The arguments in one form for all that mean the same: JSON with sorted keys, or the text where it is none.
    No arguments and null are `{}`, and very long ones are only the same where their text is."""
    if len(arguments) > LONGEST:
        return well_formed(arguments).encode()
    try:
        value = orjson.loads(arguments or "{}")
        return orjson.dumps({} if value is None else value, option=orjson.OPT_SORT_KEYS)
    except (ValueError, TypeError):  # no JSON, or nested deeper than can be written
        return well_formed(arguments).encode()


def call_digest(call: ToolCall) -> bytes:
    """What the guards know a call by: its name and arguments."""
    name = call.name.encode("utf-8", "replace")
    return blake2b(name + b"\0" + canonical(call.arguments), digest_size=16).digest()


def result_digest(result: Message) -> bytes:
    """What the guards know a result by. Of one that is no success the class of the error counts: its text holds
    references that are never the same."""
    if result.status != "ok":
        return f"{result.status}:{result.error}".encode("utf-8", "replace")
    content = bare(result)
    text = content if isinstance(content, str) else repr(content)
    return b"ok" + blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()

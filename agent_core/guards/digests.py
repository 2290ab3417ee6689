"""Which calls count as the same, and which results. The guards' own notes in a result do not count."""

from hashlib import blake2b

import orjson
from msgspec.structs import replace

from agent_core.messages import Message, Part, TextPart, ToolCall, well_formed

LONGEST = 128 * 1024
"""Arguments of more characters are compared as text, not as JSON."""


def noted(result: Message, told: str) -> Message:
    """The result with a guard's note for the model at its end. A result gets one note at most."""
    if not told or result.noted:
        return result
    if isinstance(result.content, str):
        told = f"\n\n{told}" if result.content else told
        return replace(result, content=result.content + told, noted=len(told))
    return replace(result, content=(*result.content, TextPart(text=told)), noted=len(told))


def bare(result: Message) -> str | tuple[Part, ...]:
    """The result's content without the guards' note."""
    if not result.noted:
        return result.content
    if isinstance(result.content, str):
        return result.content[: max(0, len(result.content) - result.noted)]
    return result.content[:-1]


def canonical(arguments: str) -> bytes:
    """One form for all arguments that mean the same: JSON with sorted keys. No arguments and null are `{}`. Text that
    is no JSON, or is longer than LONGEST, stays as it is."""
    if len(arguments) > LONGEST:
        return well_formed(arguments).encode()
    try:
        value = orjson.loads(arguments or "{}")
        return orjson.dumps({} if value is None else value, option=orjson.OPT_SORT_KEYS)
    except (ValueError, TypeError):  # no JSON, or nested deeper than can be written
        return well_formed(arguments).encode()


def call_digest(call: ToolCall) -> bytes:
    """The call's digest, made of its name and arguments: equal for the same calls."""
    name = call.name.encode("utf-8", "replace")
    return blake2b(name + b"\0" + canonical(call.arguments), digest_size=16).digest()


def result_digest(result: Message) -> bytes:
    """The result's digest, equal for the same results. Of a failure only the error's class counts, because its text
    may hold a reference that is new each time."""
    if result.status != "ok":
        return f"{result.status}:{result.error}".encode("utf-8", "replace")
    content = bare(result)
    text = content if isinstance(content, str) else repr(content)
    return b"ok" + blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()

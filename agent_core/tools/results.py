"""A tool's return value as its result: text that the model reads, parts with media, or the promise of one.

| returned | result |
|---|---|
| text | itself |
| None, blank text, no bytes | NOTHING, so that the model is not left to guess |
| bytes | base64 |
| TextPart, MediaPart, or a list or tuple of them and texts, with one part at least | those parts |
| Pending | itself: the result comes later |
| all else | compact JSON; `[]`, `{}`, 0 and false say themselves what they are |
| what JSON has no form for | its own text, where its class has one; else NoJson, which is an error |
"""

import base64
import json
from collections.abc import Collection, Iterator
from typing import Any

from msgspec.structs import replace
from pydantic_core import PydanticSerializationError

from agent_core.messages import MediaPart, Part, TextPart, well_formed
from agent_core.plain import json_of, jsonable
from agent_core.tools.base import Pending, Result

NOTHING = "(the tool returned nothing)"


def result_from(value: object) -> Result:
    """The result that the return value stands for; its text is never empty, and always well formed. Raises NoJson,
    and ValueError for a value that refers to itself."""
    if isinstance(value, Pending):
        return value
    if isinstance(value, TextPart | MediaPart):
        return _parts((value,))
    if isinstance(value, list | tuple) and _is_made_of_parts(value):
        return _parts(value)
    return render(value)


def render(value: object) -> str:
    """The value as text: what is text already stays as it is, bytes become base64, and all else JSON. Raises
    what `compact` does."""
    if isinstance(value, str):
        # str.__str__ gives the text itself where a subclass (an enum) has a form of its own.
        text = well_formed(str.__str__(value))
        return NOTHING if not text or text.isspace() else text
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode() or NOTHING
    return NOTHING if value is None else compact(value)


def compact(value: object) -> str:
    """Compact JSON. What JSON has no form for is written as its own text, a number that is not finite as null.
    Raises NoJson, and ValueError for a value that refers to itself."""
    if isinstance(value, Iterator):
        value = list(value)  # it may be needed twice
    try:
        return json_of(value).decode()
    except (PydanticSerializationError, UnicodeEncodeError):
        # A lone surrogate: pydantic cannot write it as UTF-8, so it is replaced after the encoding.
        return well_formed(json.dumps(jsonable(value), ensure_ascii=False, separators=(",", ":")))


def _is_made_of_parts(values: Collection[Any]) -> bool:
    return any(isinstance(each, TextPart | MediaPart) for each in values) and all(
        isinstance(each, TextPart | MediaPart | str) for each in values
    )


def _parts(values: Collection[Any]) -> str | tuple[Part, ...]:
    """The parts, neighbouring texts apart as they came; plain text where there is nothing but text."""
    parts: list[Part] = []
    for each in values:
        if isinstance(each, MediaPart):
            # A hostile or broken source must not end the run in an encoder.
            parts.append(replace(each, value=well_formed(each.value)))
            continue
        text = well_formed(str.__str__(each) if isinstance(each, str) else each.text)
        if text:
            parts.append(TextPart(text=text))
    if any(isinstance(each, MediaPart) for each in parts):
        return tuple(parts)
    return "\n".join(each.text for each in parts if isinstance(each, TextPart)) or NOTHING

"""A tool's return value as its result: a text for the model, parts with media, or a result that comes later.

| returned | result |
|---|---|
| text | itself |
| None, blank text, no bytes | NOTHING, so that the model need not guess |
| bytes | base64 |
| TextPart, MediaPart, or a list or tuple of them and texts, with one part at least | those parts |
| Pending | itself: the result comes later |
| a value that JSON has no form for | its own text, if its class has one; else NoJson, which is an error |
| any other value | compact JSON, also `[]`, `{}`, 0 and false |
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
    """The result for the return value. Its text is never empty, and always well formed. Raises NoJson, and ValueError
    for a value that refers to itself."""
    if isinstance(value, Pending):
        return value
    if isinstance(value, TextPart | MediaPart):
        return _parts((value,))
    if isinstance(value, list | tuple) and _is_made_of_parts(value):
        return _parts(value)
    return render(value)


def render(value: object) -> str:
    """The value as text: a text stays as it is, bytes become base64, any other value becomes JSON. Raises as `compact`
    does."""
    if isinstance(value, str):
        # A subclass such as an enum may have another `__str__`; this one gives the text itself.
        text = well_formed(str.__str__(value))
        return NOTHING if not text or text.isspace() else text
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode() or NOTHING
    return NOTHING if value is None else compact(value)


def compact(value: object) -> str:
    """The value as compact JSON. A value that JSON has no form for becomes its own text, and a number that is not
    finite becomes null. Raises NoJson, and ValueError for a value that refers to itself."""
    if isinstance(value, Iterator):
        value = list(value)  # it may be read twice below
    try:
        return json_of(value).decode()
    except (PydanticSerializationError, UnicodeEncodeError):
        # Pydantic cannot write a lone surrogate as UTF-8, so it is replaced after the encoding.
        return well_formed(json.dumps(jsonable(value), ensure_ascii=False, separators=(",", ":")))


def _is_made_of_parts(values: Collection[Any]) -> bool:
    return any(isinstance(each, TextPart | MediaPart) for each in values) and all(
        isinstance(each, TextPart | MediaPart | str) for each in values
    )


def _parts(values: Collection[Any]) -> str | tuple[Part, ...]:
    """The parts as they came; one plain text if there are only texts. Texts side by side are not joined in parts."""
    parts: list[Part] = []
    for each in values:
        if isinstance(each, MediaPart):
            # A broken value would otherwise make an encoder fail later, and end the run.
            parts.append(replace(each, value=well_formed(each.value)))
            continue
        text = well_formed(str.__str__(each) if isinstance(each, str) else each.text)
        if text:
            parts.append(TextPart(text=text))
    if any(isinstance(each, MediaPart) for each in parts):
        return tuple(parts)
    return "\n".join(each.text for each in parts if isinstance(each, TextPart)) or NOTHING

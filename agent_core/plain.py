"""Values as JSON, and what JSON has no form for: whether it has a text of its own."""

import inspect
import re
from functools import partial
from typing import Any, Literal

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

BETTER = "a text, a number, a dict, a list, a dataclass or a pydantic model"
"""What to give instead."""


class NoJson(ValueError):
    """The value, or something in it, has no form as JSON and no text of its own: a row of a database, a function, what
    would have to be awaited. `kind` is its class."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"{kind} is no JSON, and its class has no text for it; give {BETTER}")
        self.kind = kind


def json_of(value: object, *, bytes_mode: Literal["utf8", "base64"] = "base64") -> bytes:
    """The value as compact JSON: what pydantic can write, and the text of what has one of its own (`text_of`); a
    number that is not finite is null. An iterator is used up.

    Raises NoJson; ValueError for a value that refers to itself; UnicodeEncodeError for a lone surrogate.
    """
    found = _Fallback()
    try:
        return to_json(value, fallback=found, inf_nan_mode="null", bytes_mode=bytes_mode)
    except PydanticSerializationError:
        if found.refused is not None:  # else it was used up here, where it was an iterator's
            raise found.refused from None
        raise


def jsonable(value: object) -> Any:
    """As `json_of`, as Python has it, in which bytes are base64 and lone surrogates are left as they are."""
    return to_jsonable_python(value, fallback=_Fallback(), inf_nan_mode="null", bytes_mode="base64")


def text_of(value: object) -> str:
    """The value's text by its class's own `__str__` or `__repr__`.

    Raises NoJson where it has neither, or where that says no more than where in memory it lies; and for what is to be
    called or awaited, whatever it says.
    """
    kind = type(value)
    silent = kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__
    if silent or inspect.isroutine(value) or inspect.isasyncgen(value) or inspect.isawaitable(value):
        raise NoJson(_name_of(value))
    if isinstance(value, partial):
        raise NoJson(_name_of(value))
    text = str(value)
    if re.search(f"0x0*{id(value):x}", text, re.IGNORECASE):
        raise NoJson(_name_of(value))
    return text


class _Fallback:
    """What pydantic asks about a value that it cannot write. `refused` is kept since pydantic shows another error."""

    def __init__(self) -> None:
        self.refused: NoJson | None = None

    def __call__(self, value: object) -> str:
        try:
            return text_of(value)
        except NoJson as error:
            self.refused = error
            raise


def _name_of(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"

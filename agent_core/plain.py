"""Values as JSON. A value that JSON has no form for becomes its text, if its class has one."""

import inspect
import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

BETTER = "a text, a number, a dict, a list, a dataclass or a pydantic model"
"""The end of the error's sentence: what to give instead."""


class NoJson(ValueError):
    """The value, or a value in it, has no form as JSON and no text of its own. Examples are a database row, a function
    and a coroutine. `kind` is the name of its class."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"{kind} is no JSON, and its class has no text for it; give {BETTER}")
        self.kind = kind


def json_of(value: object, *, bytes_mode: Literal["utf8", "base64"] = "base64") -> bytes:
    """The value as compact JSON. It uses an iterator up.

    Writes what pydantic can write, and otherwise the value's text (`text_of`). A number that is not finite is null.

    Raises NoJson; ValueError for a value that refers to itself; UnicodeEncodeError for a lone surrogate.
    """
    found = _Fallback()
    try:
        return to_json(value, fallback=found, inf_nan_mode="null", bytes_mode=bytes_mode)
    except PydanticSerializationError:
        if found.refused is not None:  # pydantic hides the reason: raise the one that was kept
            raise found.refused from None
        raise


def jsonable(value: object) -> Any:
    """As `json_of`, but as Python values. Bytes become base64, and lone surrogates stay as they are."""
    return to_jsonable_python(value, fallback=_Fallback(), inf_nan_mode="null", bytes_mode="base64")


def text_of(value: object) -> str:
    """The value's text, from the `__str__` or `__repr__` of its class.

    Raises NoJson if the class has neither, or if the text holds the value's address in memory. Raises it also for
    functions, partials, coroutines and asynchronous generators, whatever their text.
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


def levels_of(value: object) -> Iterator[list[object]]:
    """The values at each depth of a JSON value, itself first."""
    level = [value]
    while level:
        yield level
        inside = [each for each in level if isinstance(each, dict | list)]
        level = [inner for each in inside for inner in (each.values() if isinstance(each, dict) else each)]


class _Fallback:
    """Pydantic calls this for a value that it cannot write. `refused` keeps our error, since pydantic raises another
    one in its place."""

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

"""Reads a request body as JSON, and tells what is wrong with it.

JSON is RFC 8259 with limits: UTF-8, numbers that a double can hold, no lone surrogates, at most DEEPEST levels of
nesting and at most MOST_VALUES values. Only InvalidRequest is raised, whatever the bytes are.
"""

import json
import math
import re
from collections.abc import Iterator
from functools import reduce
from itertools import accumulate

import orjson

from agent_core.errors import InvalidRequest
from agent_core.messages import well_formed

DEEPEST = 200
"""Levels that objects and lists may be nested at most."""

MOST_VALUES = 150_000
"""Objects, lists and items in them, at most. Reading one takes up to half a microsecond and holds the interpreter."""

_REFUSED = 255
"""Levels of nesting that orjson refuses to write."""

LONGEST_MESSAGE = 4_000
"""Bytes of an error's message at most."""

LONGEST_PATH = 200
"""Bytes of a field's path at most."""

# The closing quote is optional and nothing is tried twice, so the time is linear for any bytes.
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_SIGNS = (b"[", b"{", b",")
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def read_object(body: bytes) -> dict[str, object]:
    """The body as a JSON object. Raises InvalidRequest: its message tells the place, and `param` the field."""
    brackets = body.count(b"[") + body.count(b"{")
    if brackets + body.count(b",") > MOST_VALUES and _has_too_many(body):
        raise InvalidRequest(f"The body has more than {MOST_VALUES} values.")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if brackets > DEEPEST and _depth(body) > DEEPEST:  # orjson refuses a thousand levels, and says nothing of them
            raise _too_deep() from None
        raise _reason(body, error) from None
    if brackets > DEEPEST and _is_too_deep(value):
        raise _too_deep()
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object.")
    return value


def step(path: str, name: str | int) -> str:
    """The path of a member or an item of what `path` names, such as `messages[2].content`."""
    if isinstance(name, int):
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name


def shorten(text: str, limit: int) -> str:
    """The text, well formed and cut to at most `limit` bytes."""
    encoded = well_formed(text).encode()
    if len(encoded) <= limit:
        return encoded.decode()
    return encoded[: limit - 3].decode("utf-8", "ignore") + "…"


def invalid(message: str, param: str | None = None) -> InvalidRequest:
    """The error with its message and path cut, because both may quote the input."""
    return InvalidRequest(shorten(message, LONGEST_MESSAGE), None if param is None else shorten(param, LONGEST_PATH))


def _has_too_many(body: bytes) -> bool:
    """Whether the body has more than MOST_VALUES brackets and commas outside of texts."""
    count = end = 0
    # One text after another, and not in one call into C, so that other threads can run between.
    for text in _STRINGS.finditer(body):
        count += sum(body.count(each, end, text.start()) for each in _SIGNS)
        if count > MOST_VALUES:
            return True
        end = text.end()
    return count + sum(body.count(each, end) for each in _SIGNS) > MOST_VALUES


def _too_deep() -> InvalidRequest:
    return InvalidRequest(f"The body is nested more than {DEEPEST} levels deep.")


def _is_too_deep(value: object) -> bool:
    # A value that orjson still writes inside of so many lists is not too deep. It takes a quarter of the walk's time.
    within = value
    for _ in range(_REFUSED - 1 - DEEPEST):
        within = [within]
    try:
        orjson.dumps(within)
    except orjson.JSONEncodeError:
        return _has_more_levels(value)
    return False


def _has_more_levels(value: object) -> bool:
    """The same, told by walking over the levels, whatever orjson refuses to write."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEEPEST):
        level = [
            each
            for outer in level
            for each in (outer.values() if type(outer) is dict else outer)
            if type(each) is dict or type(each) is list  # what orjson makes; isinstance would take twice as long
        ]
        if not level:
            return False
    return True


def _depth(body: bytes) -> int:
    brackets = _STRINGS.sub(b"", body).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)


def _reason(body: bytes, refusal: orjson.JSONDecodeError) -> InvalidRequest:
    """The reason why orjson refused the body. The standard parser is slower, but it accepts more and tells more."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        return InvalidRequest(f"The body is not JSON: byte {error.start} is not UTF-8.")
    try:
        # Read integers as floats: int() refuses very long ones, and both overflow in the same way.
        value = json.loads(text, parse_int=float)
    except (json.JSONDecodeError, RecursionError) as error:
        where = error if isinstance(error, json.JSONDecodeError) else refusal
        return invalid(f"The body is not JSON: {where.msg} (line {where.lineno}, column {where.colno}).")
    found = _impossible(value)
    if found is not None:
        path, what = found
        return invalid(f"{shorten(path, LONGEST_PATH) or 'The body'}: {what}", path or None)
    return invalid(f"The body is not JSON: {refusal.msg} (line {refusal.lineno}, column {refusal.colno}).")


def _impossible(value: object) -> tuple[str, str] | None:
    """The path of the first value that the standard parser accepts but JSON cannot hold, and what is wrong with it."""
    names: list[str | int] = []
    waiting: list[Iterator[tuple[str | int, object]]] = [iter([("", value)])]
    while waiting:
        for name, each in waiting[-1]:
            what = _wrong(each)
            if what is not None:
                return reduce(step, [*names, name][1:], ""), what
            if isinstance(each, dict | list):
                names.append(name)
                waiting.append(iter(each.items()) if isinstance(each, dict) else iter(enumerate(each)))
                break
        else:
            waiting.pop()
            names[-1:] = []
    return None


def _wrong(value: object) -> str | None:
    if isinstance(value, float) and not math.isfinite(value):
        return "numbers must be finite."
    if isinstance(value, str) and not _encodes(value):
        return "the text has a lone surrogate."
    if isinstance(value, dict) and not all(map(_encodes, value)):
        return "a member's name has a lone surrogate."
    return None


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

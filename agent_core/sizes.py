"""How many bytes values take in memory, roughly: enough to hold what keeps them to a bound."""

import sys
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

OBJECT = 64
"""An object beside what it holds: its head, and its place in whatever holds it."""

MEMBER = 120
"""A dict's place for one member, beside its key and its value."""


def size_of(value: object) -> int:
    """What the value takes with all that it holds. What it holds twice counts twice."""
    if value.__class__ is str:  # nearly every member of an event
        return sys.getsizeof(value)
    if value is None:
        return 0
    if value == ():
        return OBJECT
    total, left = 0, [value]
    while left:
        each = left.pop()
        if isinstance(each, str | bytes):
            total += sys.getsizeof(each)
        elif isinstance(each, Struct):
            total += OBJECT
            left += [getattr(each, name) for name in each.__struct_fields__]
        elif isinstance(each, Mapping):
            total += OBJECT + MEMBER * len(each)
            left += each
            left += each.values()
        elif isinstance(each, list | tuple):
            total += OBJECT + 8 * len(each)
            left += each
        elif each is not None and not isinstance(each, bool):
            total += OBJECT
    return total


@cache
def members_of(struct: type[Struct], aside: frozenset[str]) -> tuple[str, ...]:
    """The names of a class's members, but for these, and for those that are never large."""
    hints = get_type_hints(struct)
    return tuple(name for name in struct.__struct_fields__ if name not in aside and not _is_small(hints[name]))


def _is_small(hint: Any) -> bool:
    """Whether all values of this type are a number, or one of a few words."""
    inner = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return all(each in (int, float, bool, type(None)) or get_origin(each) is Literal for each in inner)


def size_of_json(text: bytes) -> int:
    """What the value takes that this JSON is of; from its length and its marks, which is quick also where it is
    large. Marks inside of texts count too, so it may be less in truth."""
    members = text.count(b",") + text.count(b":")
    return len(text) + OBJECT * (members + text.count(b"[") + text.count(b"{"))

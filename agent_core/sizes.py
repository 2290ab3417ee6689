"""Roughly how many bytes values take in memory. It is exact enough to keep caches and logs within a bound."""

import sys
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

OBJECT = 64
"""Bytes of an object without its contents: its header, and the reference to it."""

MEMBER = 120
"""Bytes of one member of a dict, without its key and value."""

_TEXTS, _ITEMS = (str, bytes), (list, tuple)


def size_of(value: object) -> int:
    """Bytes of the value and of all that it holds. An object that it holds twice counts twice."""
    if value.__class__ is str:  # nearly every member of an event
        return sys.getsizeof(value)
    if value is None:
        return 0
    if value == ():
        return OBJECT
    total, left = 0, [value]
    while left:
        each = left.pop()
        # The usual kinds first. A snapshot has ten thousand messages, and to ask for a Mapping takes the longest.
        if each is None or each is True or each is False:
            continue
        if isinstance(each, _TEXTS):
            total += sys.getsizeof(each)
        elif isinstance(each, _ITEMS):
            total += OBJECT + 8 * len(each)
            left += each
        elif isinstance(each, Struct):
            total += OBJECT
            left += [getattr(each, name) for name in each.__struct_fields__]
        elif isinstance(each, Mapping):
            total += OBJECT + MEMBER * len(each)
            left += each
            left += each.values()
        else:
            total += OBJECT
    return total


@cache
def members_of(struct: type[Struct], aside: frozenset[str]) -> tuple[str, ...]:
    """The names of the struct's members, without those in `aside` and without those that are never large."""
    hints = get_type_hints(struct)
    return tuple(name for name in struct.__struct_fields__ if name not in aside and not _is_small(hints[name]))


def _is_small(hint: Any) -> bool:
    """Whether every value of this type is a number, None, or one of a few literals."""
    inner = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return all(each in (int, float, bool, type(None)) or get_origin(each) is Literal for each in inner)


def size_of_json(text: bytes) -> int:
    """Bytes that the value of this JSON takes.

    Counts the JSON's marks instead of reading it, so it is quick for large texts too. Marks within strings count as
    well, so the value may take less.
    """
    members = text.count(b",") + text.count(b":")
    return len(text) + OBJECT * (members + text.count(b"[") + text.count(b"{"))

"""The session's state: one JSON value that the client and the tools share, changed by patches (RFC 6902)."""

from collections.abc import Iterable
from typing import Any

import msgspec
import orjson
from pydantic_core import to_json

LARGEST_STATE = 256 * 1024
"""Bytes of JSON that a session's state may have."""

MOST_PATCHES = 50
"""Patches in a row before the whole value is stored again, so that a fold stays short."""

Patch = list[dict[str, Any]]


class StateTooLarge(ValueError):
    """The state would be larger than LARGEST_STATE."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the session's state would have {size} bytes as JSON, but at most {LARGEST_STATE} are kept")


def as_json(value: Any) -> Any:
    """The value as JSON has it, a copy: NaN becomes null, and what JSON does not know its text.

    Raises StateTooLarge, and ValueError for a value that refers to itself.
    """
    text = to_json(value, fallback=str, inf_nan_mode="null")
    if len(text) > LARGEST_STATE:
        raise StateTooLarge(len(text))
    return orjson.loads(text)


def copy_of(value: Any) -> Any:
    """A copy of a JSON value that shares nothing with it."""
    return value if value is None or isinstance(value, str | int | float) else orjson.loads(orjson.dumps(value))


def same_json(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same; unlike Python, JSON tells 1 and true apart, and 1 and 1.0."""
    if type(one) is not type(other):
        return False
    return orjson.dumps(one, option=orjson.OPT_SORT_KEYS) == orjson.dumps(other, option=orjson.OPT_SORT_KEYS)


def apply_patches(value: Any, patches: Iterable[Patch]) -> Any:
    """The value with the patches applied, one after another; it may be changed itself. Raises
    msgspec.ValidationError for a patch that does not fit."""
    # Imported here: most sessions have no state, and start-up time counts.
    import jsonpatch

    try:
        for patch in patches:
            value = jsonpatch.apply_patch(value, patch, in_place=True)
        return value
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        raise msgspec.ValidationError("a patch of the session's state does not fit") from error


def patch_between(old: Any, new: Any) -> Patch:
    """The patch that makes `new` of `old`."""
    import jsonpatch

    if not (isinstance(old, dict) and isinstance(new, dict)):
        return [{"op": "replace", "path": "", "value": new}]
    # Where Python sees no difference there may still be one (1 and 1.0): then all is replaced.
    return list(jsonpatch.make_patch(old, new)) or [{"op": "replace", "path": "", "value": new}]

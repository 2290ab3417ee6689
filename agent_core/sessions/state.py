"""The session's state: one JSON value that the client and the tools share, changed by patches (RFC 6902)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import msgspec
import orjson

from agent_core.errors import InvalidRequest
from agent_core.plain import json_of
from agent_core.sessions.patches import Misfit, Patch, Patched

LARGEST_STATE = 256 * 1024
"""Bytes of JSON that a session's state may have."""

DEEPEST_STATE = 100
"""Levels that a state may be nested: it must come back in through limits of a request's body."""

MOST_PATCHES = 50
"""Patches in a row before the whole value is stored again, so that a fold stays short."""

MOST_OPERATIONS = 2_000
"""Operations in these patches, likewise."""

MOST_COMPARED = 20_000
"""Values that are compared to find what has changed; of a larger state, all has."""


class StateTooLarge(ValueError):
    """The state would be larger than LARGEST_STATE."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the session's state would have {size} bytes as JSON, but at most {LARGEST_STATE} are kept")


def as_json(value: Any) -> Any:
    """The value as JSON has it, a copy: NaN becomes null, and what JSON does not know its own text.

    Raises StateTooLarge, NoJson, and ValueError for a value that refers to itself or is nested too deep.
    """
    text = json_of(value, bytes_mode="utf8")
    if len(text) > LARGEST_STATE:
        raise StateTooLarge(len(text))
    made = orjson.loads(text)
    if text.count(b"[") + text.count(b"{") > DEEPEST_STATE and _depth(made) > DEEPEST_STATE:
        raise ValueError(f"the session's state is nested more than {DEEPEST_STATE} levels deep")
    return made


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level := [each for each in level if isinstance(each, dict | list)]:
        depth += 1
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
    return depth


def copy_of(value: Any) -> Any:
    """A copy of a JSON value that shares nothing with it."""
    return value if value is None or isinstance(value, str | int | float) else orjson.loads(orjson.dumps(value))


def check_state(value: Any) -> None:
    """Raise InvalidRequest where a client's state is no JSON; None and an empty one are none."""
    if value is not None and value != {}:
        try:
            as_json(value)
        except ValueError as error:
            raise InvalidRequest(f"state: {error}.", "state") from error


def same_json(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same; unlike Python, JSON tells 1 and true apart, and 1 and 1.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, str | int) or one is None:
        return bool(one == other)
    return orjson.dumps(one, option=orjson.OPT_SORT_KEYS) == orjson.dumps(other, option=orjson.OPT_SORT_KEYS)


def apply_patches(value: Any, patches: Iterable[Patch]) -> Any:
    """The value with the patches applied, one after another; it may be changed itself. Raises
    msgspec.ValidationError for a patch that does not fit."""
    patched = Patched(value)
    try:
        for patch in patches:
            patched.apply(patch)
    except Misfit as error:
        raise msgspec.ValidationError("a patch of the session's state does not fit") from error
    return patched.value


def weight_of(patch: Patch) -> int:
    """How much the patch counts towards MOST_PATCHES: more than one where it has many operations."""
    return 1 + len(patch) * MOST_PATCHES // MOST_OPERATIONS


def apply_fitting(value: Any, patches: Sequence[Patch]) -> tuple[Any, list[int]]:
    """The same, passing over the patches that do not fit: also which these are, counted from 0.

    Takes longer than `apply_patches`, since nothing of a patch that does not fit is kept.
    """
    misfits: list[int] = []
    for place, patch in enumerate(patches):
        before = orjson.dumps(value)
        try:
            value = apply_patches(value, (patch,))
        except msgspec.ValidationError:
            value = orjson.loads(before)
            misfits.append(place)
    return value, misfits


@dataclass(slots=True)
class StateChanges:
    """The last whole value of a state, and the patches since, each with the number of its entry."""

    value: Any = None
    patches: list[tuple[int, Patch]] = field(default_factory=list)

    def take(self, value: Any, patch: Patch | None, seq: int) -> None:
        """The state is this value, or is changed by the patch if there is one."""
        if patch is None:
            self.value = value
            self.patches.clear()
        else:
            self.patches.append((seq, patch))

    @property
    def weight(self) -> int:
        """How much the patches count towards MOST_PATCHES."""
        return sum(weight_of(patch) for _, patch in self.patches)

    def apply(self) -> Any:
        """The state. It and the patches may be changed themselves. Raises msgspec.ValidationError for a patch that
        does not fit."""
        return apply_patches(self.value, (patch for _, patch in self.patches))

    def apply_fitting(self) -> tuple[Any, list[int]]:
        """The state without the patches that do not fit, and the numbers of their entries."""
        value, misfits = apply_fitting(self.value, [patch for _, patch in self.patches])
        return value, [self.patches[each][0] for each in misfits]


def patch_between(old: Any, new: Any) -> Patch:
    """A patch that makes `new` of `old`, never longer than one that replaces all.

    It is found in one pass: objects are compared key by key, lists place by place; a list that became shorter
    is replaced. A shorter patch may exist, but looking for it costs more than it saves (a quadratic search
    for the longest common part, on a value that a client may choose).
    """
    whole: Patch = [{"op": "replace", "path": "", "value": new}]
    patch: Patch = []
    try:
        _compare(old, new, "", patch, count(1))
    except _TooMany:
        return whole
    return patch if len(orjson.dumps(patch)) < len(orjson.dumps(whole)) else whole


class _TooMany(Exception):
    pass


def _compare(old: Any, new: Any, path: str, patch: Patch, compared: Iterator[int]) -> None:
    if next(compared) > MOST_COMPARED:
        raise _TooMany
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            if key in new:
                _compare(value, new[key], f"{path}/{_escape(key)}", patch, compared)
            else:
                patch.append({"op": "remove", "path": f"{path}/{_escape(key)}"})
        patch += ({"op": "add", "path": f"{path}/{_escape(key)}", "value": new[key]} for key in new if key not in old)
    elif isinstance(old, list) and isinstance(new, list) and len(old) <= len(new):
        for place, (before, after) in enumerate(zip(old, new, strict=False)):
            _compare(before, after, f"{path}/{place}", patch, compared)
        patch += ({"op": "add", "path": f"{path}/-", "value": value} for value in new[len(old) :])
    elif not same_json(old, new):
        patch.append({"op": "replace", "path": path, "value": new})


def _escape(key: str) -> str:
    """A key in a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")

"""The session's state: a JSON value that the client and the tools share. Patches change it (RFC 6902)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import msgspec
import orjson

from agent_core.errors import InvalidRequest
from agent_core.plain import json_of, levels_of
from agent_core.sessions.patches import Misfit, Patch, Patched

LARGEST_STATE = 256 * 1024
"""Bytes of JSON that a session's state may have at most."""

DEEPEST_STATE = 100
"""Levels that a state may be nested. A client sends the state back, so it must pass the limits of a request's body."""

MOST_PATCHES = 50
"""Patches that may be stored in a row. Then the whole value is stored again, so that a fold stays short."""

MOST_OPERATIONS = 2_000
"""Operations that these patches may have together."""

MOST_COMPARED = 20_000
"""Values that are compared at most to find a change. A larger state is replaced whole."""


class StateTooLarge(ValueError):
    """The state would be larger than LARGEST_STATE."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the session's state would have {size} bytes as JSON, but at most {LARGEST_STATE} are kept")


def as_json(value: Any) -> Any:
    """A copy of the value as JSON has it. NaN becomes null; a value that JSON has no form for becomes its own text.

    Raises StateTooLarge, NoJson, and ValueError for a value that refers to itself or is nested too deep.
    """
    text = json_of(value, bytes_mode="utf8")
    if len(text) > LARGEST_STATE:
        raise StateTooLarge(len(text))
    made = orjson.loads(text)
    brackets = text.count(b"[") + text.count(b"{")
    if brackets > DEEPEST_STATE and sum(map(_has_inside, levels_of(made))) > DEEPEST_STATE:
        raise ValueError(f"the session's state is nested more than {DEEPEST_STATE} levels deep")
    return made


def _has_inside(level: list[object]) -> bool:
    return any(isinstance(each, dict | list) for each in level)


def copy_of(value: Any) -> Any:
    """A copy of a JSON value that shares no part with it."""
    return value if value is None or isinstance(value, str | int | float) else orjson.loads(orjson.dumps(value))


def check_state(value: Any) -> None:
    """Raise InvalidRequest if a client's state is no JSON value that may be kept. None and `{}` count as no state."""
    if value is not None and value != {}:
        try:
            as_json(value)
        except ValueError as error:
            raise InvalidRequest(f"state: {error}.", "state") from error


def same_json(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same. Unlike in Python, 1, 1.0 and true differ."""
    if type(one) is not type(other):
        return False
    if isinstance(one, str | int) or one is None:
        return bool(one == other)
    return orjson.dumps(one, option=orjson.OPT_SORT_KEYS) == orjson.dumps(other, option=orjson.OPT_SORT_KEYS)


def apply_patches(value: Any, patches: Iterable[Patch]) -> Any:
    """The value with the patches applied in order. The value itself may be changed. Raises msgspec.ValidationError for
    a patch that does not fit."""
    patched = Patched(value)
    try:
        for patch in patches:
            patched.apply(patch)
    except Misfit as error:
        raise msgspec.ValidationError("a patch of the session's state does not fit") from error
    return patched.value


def weight_of(patch: Patch) -> int:
    """The patch's share of MOST_PATCHES: 1, and more for many operations."""
    return 1 + len(patch) * MOST_PATCHES // MOST_OPERATIONS


def apply_fitting(value: Any, patches: Sequence[Patch]) -> tuple[Any, list[int]]:
    """The value with the patches that fit, and the places of the others, from 0.

    It takes longer than `apply_patches`, because no part of a patch that does not fit may stay.
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
    """A session's state: a whole value, and the patches since that were not applied yet, each with the number of its
    entry.

    - weight: the share of MOST_PATCHES of all patches since the last whole value that is stored
    - misfits: how many of those did not fit and were passed over
    - last: the number of the last entry that changed it, 0 if none did
    """

    value: Any = None
    patches: list[tuple[int, Patch]] = field(default_factory=list)
    weight: int = 0
    misfits: int = 0
    last: int = 0

    def take(self, value: Any, patch: Patch | None, seq: int) -> None:
        """Take a patch if there is one, else a whole value."""
        self.last = seq
        if patch is None:
            self.value = value
            self.patches.clear()
            self.weight = self.misfits = 0
        else:
            self.patches.append((seq, patch))
            self.weight += weight_of(patch)

    def know(self, value: Any) -> None:
        """Somebody knows what all patches make of the value: this."""
        self.value = value
        self.patches.clear()

    def apply(self) -> list[int]:
        """Apply the patches that fit. Returns the numbers of the entries of the others.

        It works on copies. Others may hold the value; and if a patch does not fit, those before it have changed the
        value and one another.
        """
        if not self.patches:
            return []
        seqs, patches = zip(*self.patches, strict=True)
        value, copies = orjson.dumps(self.value), orjson.dumps(patches)
        misfits: list[int] = []
        try:
            known = apply_patches(orjson.loads(value), orjson.loads(copies))
        except msgspec.ValidationError:
            known, misfits = apply_fitting(orjson.loads(value), orjson.loads(copies))
        self.know(known)
        self.misfits += len(misfits)
        return [seqs[each] for each in misfits]


def patch_between(old: Any, new: Any) -> Patch:
    """A patch that makes `new` of `old`. It is never longer than one that replaces the whole value.

    One pass finds it: objects are compared key by key and lists place by place. A list that became shorter is replaced.
    A shorter patch may exist. To find it would take a quadratic search for the longest common part, on a value that a
    client may choose.
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

"""JSON Patch (RFC 6902), applied in place, with a count of the cost.

Libraries do this too, at about 15 µs for each operation, but they do not bound the cost. An operation may cost much
more than others: an item that is put into the middle of a long list moves all items behind it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

Patch = list[dict[str, Any]]

MOVED = 1_000
"""Moving this many items of a list by one place costs as much as one operation."""

LARGEST_COPY = 256 * 1024
"""Bytes of JSON that one operation may copy."""


class Misfit(ValueError):
    """The patch is malformed, or does not fit the value."""


class Patched:
    """A JSON value that patches change in place.

    `work` counts the cost so far, in operations of about a microsecond.
    """

    __slots__ = ("value", "work")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.work = 0

    def apply(self, patch: Sequence[Mapping[str, Any]], most: int | None = None) -> None:
        """Apply the operations in order, and stop when `work` is over `most`. Raises Misfit; the operations before it
        stay applied."""
        for operation in patch:
            self.work += 1
            if most is not None and self.work > most:
                return
            try:
                self._apply(operation)
            except (KeyError, IndexError, TypeError, AttributeError) as error:
                raise Misfit("an operation of the patch does not fit") from error

    def _apply(self, operation: Mapping[str, Any]) -> None:
        path, name = _steps(operation["path"]), operation["op"]
        if name == "add":
            self._add(path, operation["value"])
        elif name == "replace":
            self._replace(path, operation["value"])
        elif name == "remove":
            self._remove(path)
        elif name == "move":
            start = _steps(operation["from"])
            if path[: len(start)] == start and path != start:
                raise Misfit("a value cannot be moved into itself")
            self._add(path, self._remove(start)) if path != start else self._at(start)
        elif name == "copy":
            text = orjson.dumps(self._at(_steps(operation["from"])))
            if len(text) > LARGEST_COPY:
                raise Misfit("what is copied is too large")
            self.work += len(text) // MOVED
            self._add(path, orjson.loads(text))
        elif name == "test":
            if _text(self._at(path)) != _text(operation["value"]):
                raise Misfit("a test fails")
        else:
            raise Misfit("there is no such operation")

    def _add(self, path: Sequence[str], value: Any) -> None:
        if not path:
            self.value = value
            return
        where, last = self._at(path[:-1]), path[-1]
        if isinstance(where, list):
            place = len(where) if last == "-" else _place(last, len(where) + 1)
            self.work += (len(where) - place) // MOVED
            where.insert(place, value)
        else:
            _members(where)[last] = value

    def _replace(self, path: Sequence[str], value: Any) -> None:
        if not path:
            self.value = value
            return
        where, last = self._at(path[:-1]), path[-1]
        if isinstance(where, list):
            where[_place(last, len(where))] = value
        elif last in _members(where):
            where[last] = value
        else:
            raise Misfit("there is nothing to replace")

    def _remove(self, path: Sequence[str]) -> Any:
        where, last = self._at(path[:-1]), path[-1]
        if not isinstance(where, list):
            return _members(where).pop(last)
        place = _place(last, len(where))
        self.work += (len(where) - place) // MOVED
        return where.pop(place)

    def _at(self, path: Sequence[str]) -> Any:
        found = self.value
        for step in path:
            found = found[_place(step, len(found))] if isinstance(found, list) else _members(found)[step]
        return found


def _steps(pointer: str) -> list[str]:
    """The steps of a JSON pointer (RFC 6901)."""
    if not pointer:
        return []
    if pointer[0] != "/":
        raise Misfit("a pointer begins with a slash")
    steps = pointer[1:].split("/")
    return [each.replace("~1", "/").replace("~0", "~") for each in steps] if "~" in pointer else steps


def _place(step: str, length: int) -> int:
    if not (step.isascii() and step.isdigit()) or (step[0] == "0" and step != "0") or len(step) > 9:
        raise Misfit("a place in a list is a number")
    place = int(step)
    if place >= length:
        raise Misfit("there is no such place in the list")
    return place


def _members(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Misfit("there is no such member")
    return value


def _text(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)

"""A JSON Schema made safe to check against, whoever wrote it.

A client's tool brings its own schema. References are what makes one dangerous: they can lead to the network, and
sixty lines of them can stand for more checks than a machine can do (each definition naming the next one twice).
So `unroll` writes every reference out, within bounds; what is left is a tree whose cost is known.

Patterns are the other danger. Only those are kept that the caller agrees to; what is left out allows too much, and
never refuses what the schema allows.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import orjson

from agent_core.checking.costs import TEXTS

LARGEST = 10_000
"""The size that a schema may have when it is written out: about one for each schema, and for each 50 bytes in it."""

DEEPEST = 60

PATTERN = 100
"""What a pattern counts for the size."""

NESTINGS = (8, 3, 1)
"""How often a definition is written out inside itself, the largest that fits; deeper down, everything is right."""

ONE = frozenset({
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
SEVERAL = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
NAMED = frozenset({"dependencies", "dependentSchemas", "patternProperties", "properties"})
PLAIN = frozenset({
    "$schema", "const", "contentEncoding", "contentMediaType", "dependentRequired", "enum", "exclusiveMaximum",
    "exclusiveMinimum", "format", "maxContains", "maxItems", "maxLength", "maxProperties", "maximum", "minContains",
    "minItems", "minLength", "minProperties", "minimum", "multipleOf", "pattern", "required", "type", "uniqueItems",
})  # fmt: skip
"""The keywords that count; all others say nothing about what is right, and are left out."""

_BEFORE_2019 = re.compile(r"draft-0[3467]")


class Unusable(Exception):
    """The schema is too large, or says something that is not understood here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrolled:
    """`size` is the room that it takes: about one for each schema in it, and for each 50 bytes."""

    schema: Mapping[str, Any]
    size: int


def unroll(schema: Mapping[str, Any], keep: Callable[[str, str], bool] = lambda _key, _text: True) -> Unrolled:
    """The same schema without references. A definition that stands in itself is written out a few times.

    `keep` is asked for each keyword that reads a text to its end, with what it says (and as `pattern` for the
    pattern of `patternProperties`); where it says no, the keyword is left out.

    Raises Unusable: beyond the bounds, and for references that are not pointers into this very schema.
    """
    for nesting in NESTINGS:
        unrolling = _Unrolling(schema, nesting, keep)
        try:
            tree = unrolling.schema(schema, 0)
        except _TooLarge:
            if not unrolling.nested:
                raise  # nothing stands in itself: fewer nestings would not help
            continue
        return Unrolled(schema=tree, size=unrolling.size)
    raise _TooLarge


class _TooLarge(Unusable):
    pass


def _loosen(written: dict[str, Any], key: str) -> None:
    """Something under the key was cut and allows too much: see that the keyword does not refuse too much for it."""
    if key in ("not", "if", "contains"):
        del written[key]  # `then` and `else` say nothing without their `if`
    elif key == "oneOf":
        written["allOf"] = [*written.get("allOf", ()), {"anyOf": written.pop("oneOf")}]


class _Unrolling:
    __slots__ = ("_before_2019", "_keep", "_nesting", "_open", "_root", "cuts", "nested", "size")

    def __init__(self, root: Mapping[str, Any], nesting: int, keep: Callable[[str, str], bool]) -> None:
        self._root = root
        self._nesting = nesting
        self._keep = keep
        self._open: dict[str, int] = {}
        self._before_2019 = bool(_BEFORE_2019.search(str(root.get("$schema", ""))))
        self.size = self.cuts = 0
        self.nested = False

    def schema(self, value: Any, depth: int) -> Any:
        self._weigh(1)
        if isinstance(value, bool):
            return value
        if not isinstance(value, Mapping):
            raise Unusable
        if depth > DEEPEST:
            raise _TooLarge
        cuts = self.cuts
        written = self._members(value, depth)
        whole = self._with_reference(written, value["$ref"], depth) if "$ref" in value else written
        if self.cuts > cuts and isinstance(whole, dict):
            # What was cut would have said which members it knows.
            whole.pop("unevaluatedItems", None)
            whole.pop("unevaluatedProperties", None)
        return whole

    def _members(self, value: Mapping[str, Any], depth: int) -> dict[str, Any]:
        written: dict[str, Any] = {}
        known = True
        for key, inner in value.items():
            before = self.cuts
            if key in TEXTS and isinstance(inner, str):
                if self._keeps(key, inner):
                    written[key] = inner
            elif key in PLAIN:
                written[key] = self._plain(inner)
            elif key in SEVERAL and isinstance(inner, list | tuple):
                written[key] = [*written.get(key, ()), *(self.schema(each, depth + 1) for each in inner)]
            elif key in ONE:
                written[key] = self.schema(inner, depth + 1)
            elif key in NAMED:
                written[key] = self._named(key, inner, depth)
                known = known and (key != "patternProperties" or len(written[key]) == len(inner))
            elif key in ("$dynamicRef", "$recursiveRef") or (key == "$id" and depth):
                raise Unusable  # they change what references mean
            if self.cuts > before:
                _loosen(written, key)
        if not known:
            written.pop(
                "additionalProperties", None
            )  # the members under the pattern that was left out are none of them
        return written

    def _with_reference(self, written: dict[str, Any], pointer: Any, depth: int) -> Any:
        if not isinstance(pointer, str):
            raise Unusable
        already = self._open.get(pointer, 0)
        if already > self._nesting:
            self.cuts += 1
            target: Any = True
        else:
            self.nested = self.nested or already > 0
            self._open[pointer] = already + 1
            target = self.schema(self._at(pointer), depth + 1)
            self._open[pointer] = already
        if self._before_2019:  # then what stands beside a reference does not count
            return {"$schema": written["$schema"], "allOf": [target]} if "$schema" in written else target
        return {**written, "allOf": [*written.get("allOf", ()), target]} if written else target

    def _at(self, pointer: str) -> Any:
        """What the JSON pointer (RFC 6901, in a URI's fragment) leads to."""
        if pointer != "#" and not pointer.startswith("#/"):
            raise Unusable
        found: Any = self._root
        for step in pointer.split("/")[1:]:
            step = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and step in found:
                found = found[step]
            elif isinstance(found, list) and step.isascii() and step.isdigit() and int(step) < len(found):
                found = found[int(step)]
            else:
                raise Unusable
        return found

    def _named(self, key: str, inner: Any, depth: int) -> dict[str, Any]:
        if not isinstance(inner, Mapping):
            raise Unusable
        written = {}
        for name, each in inner.items():
            self._weigh(len(name) // 50)
            if key == "patternProperties" and not self._keeps("pattern", name):
                continue
            names = key == "dependencies" and isinstance(each, list)
            written[name] = self._plain(each) if names else self.schema(each, depth + 1)
        return written

    def _plain(self, value: Any) -> Any:
        try:
            text = orjson.dumps(value)
        except TypeError:  # a number over 64 bits, or what is no JSON at all
            text = repr(value).encode(errors="replace")
        self._weigh(1 + len(text) // 50)
        return value

    def _keeps(self, key: str, text: str) -> bool:
        """Whether the keyword stays; else it is a cut."""
        self._weigh((PATTERN if key == "pattern" else 1) + len(text) // 50)
        if not self._keep(key, text):
            self.cuts += 1
            return False
        return True

    def _weigh(self, size: int) -> None:
        self.size += size
        if self.size > LARGEST:
            raise _TooLarge

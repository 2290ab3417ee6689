"""A JSON Schema made safe to check against, whoever wrote it: a client's tool brings its own.

References are what makes one dangerous: they can lead to the network, and sixty lines of them can stand for more
checks than a machine can do. The copy holds each definition once, its references lead nowhere else, and what a check
may cost is counted over them (`costs.py`).

Patterns are the other danger. The copy has only those that the caller agrees to; what is left out allows too much,
and never refuses what the schema allows.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import unquote

import orjson

from agent_core.checking.costs import (
    BESIDE,
    CHECKS,
    DEEPEST,
    ITEMS,
    MEMBERS,
    SAME,
    TEXTS,
    WIDE,
    Cost,
    Place,
    Unusable,
    cost_of,
)

LARGEST = 10_000
"""The size that a copy may have: about one for each schema, and for each 50 bytes in it."""

PATTERN = 100
"""What a pattern counts for the size."""

UNEVALUATED = 3
"""How many times more what stands beside `unevaluatedProperties` or `unevaluatedItems` costs: it is looked at again to
find out what it has looked at, and so once more for each of them that stands above."""

LEADS_TO = {
    **dict.fromkeys(("allOf", "anyOf", "dependencies", "dependentSchemas", "oneOf"), SAME),
    **dict.fromkeys(("else", "if", "not", "then"), SAME),
    **dict.fromkeys(("additionalProperties", "properties", "unevaluatedProperties"), MEMBERS),
    **dict.fromkeys(("additionalItems", "items", "prefixItems", "unevaluatedItems"), ITEMS),
    **dict.fromkeys(("contains", "patternProperties", "propertyNames"), BESIDE),
}  # fmt: skip
"""The keywords that hold schemas, and which of the ways that a `Place` leads to others they are."""

NAMED = frozenset({"dependencies", "dependentSchemas", "patternProperties", "properties"})
READING = frozenset({"contentEncoding", "contentMediaType", "format", "pattern"})
"""Keywords that read a text to its end."""

PLAIN = frozenset({
    "const", "dependentRequired", "enum", "exclusiveMaximum", "exclusiveMinimum", "maxContains", "maxItems",
    "maxLength", "maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties", "minimum",
    "multipleOf", "required", "type", "uniqueItems",
})  # fmt: skip
"""With those above, the keywords that count; all others say nothing about what is right, and are left out."""

_BEFORE_2019 = re.compile(r"draft-0[3467]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeCopy:
    """`size` is the room that it takes: about one for each schema in it, and for each 50 bytes."""

    schema: Mapping[str, Any]
    size: int
    cost: Cost


def safe_copy(schema: Mapping[str, Any], keep: Callable[[str, str], bool] = lambda _key, _text: True) -> SafeCopy:
    """What counts of the schema, with all that its references lead to under `definitions`, each once.

    `keep` is asked for each keyword that reads a text to its end, with what it says (and as `pattern` for the
    pattern of `patternProperties`); where it says no, the keyword is left out.

    Raises Unusable: for what is too large, nested too deep, or no schema, and for references that are not pointers
    into this very schema.
    """
    keep = cache(keep)
    copying = _Copying(schema, keep, wary=False)
    copied = copying.whole()
    if copying.cuts and copying.targets:  # then a reference may lead to what was cut
        copied = _Copying(schema, keep, wary=True).whole()
    return SafeCopy(schema=copied, size=copying.size, cost=cost_of(copying.places))


def _loosen(copied: dict[str, Any], key: str) -> None:
    """Something under the key was cut and allows too much: see that the keyword does not refuse too much for it."""
    if key in ("not", "if", "contains"):
        del copied[key]  # `then` and `else` say nothing without their `if`
    elif key == "oneOf":
        copied["allOf"] = [*copied.get("allOf", ()), {"anyOf": copied.pop("oneOf")}]


class _Copying:
    """`cuts` counts the keywords that were left out; one that is `wary` counts each reference as one too."""

    __slots__ = ("_before_2019", "_keep", "_numbers", "_root", "_wary", "cuts", "places", "size", "targets")

    def __init__(self, root: Mapping[str, Any], keep: Callable[[str, str], bool], *, wary: bool) -> None:
        self._root = root
        self._keep = keep
        self._wary = wary
        self._before_2019 = bool(_BEFORE_2019.search(str(root.get("$schema", ""))))
        self.places: list[Place] = []
        self.targets: list[tuple[str, Place]] = []
        self._numbers: dict[str, int] = {}
        self.size = self.cuts = 0

    def whole(self) -> dict[str, Any]:
        copied: dict[str, Any] = self._schema(self._root, self._place([]), 0)
        if "$schema" in self._root:
            copied["$schema"] = self._root["$schema"]
        if self.targets:
            definitions: dict[str, Any] = {}
            for pointer, place in self.targets:  # which grow while it goes on
                definitions[str(len(definitions))] = self._schema(self._at(pointer), place, 0)
            copied["definitions"] = definitions
        return copied

    def _schema(self, value: Any, place: Place, depth: int) -> Any:
        self._weigh(1)
        if isinstance(value, bool):
            return value
        if not isinstance(value, Mapping) or depth > DEEPEST:
            raise Unusable
        cuts = self.cuts
        copied = {"$ref": self._reference(value["$ref"], place)} if "$ref" in value else {}
        if copied and self._before_2019:  # then what stands beside a reference does not count
            return copied
        copied |= self._keywords(value, place, depth)
        if self.cuts > cuts:
            # What was cut would have said which members it knows.
            copied.pop("unevaluatedItems", None)
            copied.pop("unevaluatedProperties", None)
        return copied

    def _keywords(self, value: Mapping[str, Any], place: Place, depth: int) -> dict[str, Any]:
        copied: dict[str, Any] = {}
        for key, inner in value.items():
            cuts = self.cuts
            if key in LEADS_TO:
                copied[key] = self._inner(key, inner, place, depth, copied.get(key, ()))
            elif key in READING and isinstance(inner, str):
                if self._keeps(key, inner, place):
                    copied[key] = inner
            elif key in PLAIN:
                copied[key] = self._plain(key, inner, place)
            elif key in ("$dynamicRef", "$recursiveRef") or (key == "$id" and value is not self._root):
                raise Unusable  # they change what references mean
            if self.cuts > cuts:
                _loosen(copied, key)
        if len(copied.get("patternProperties", ())) < len(value.get("patternProperties", ())):
            copied.pop("additionalProperties", None)  # the members under the pattern that was left out are none of them
        return copied

    def _inner(self, key: str, inner: Any, place: Place, depth: int, before: Sequence[Any]) -> Any:
        """The schemas that a keyword holds; a list continues the one that was made of the same keyword `before`."""
        edges = place.leads[LEADS_TO[key]]
        if key.startswith("unevaluated"):
            place.again = UNEVALUATED
        if key in NAMED:
            return self._named(key, inner, place, depth)
        if isinstance(inner, list | tuple):
            return [*before, *(self._schema(each, self._place(edges), depth + 1) for each in inner)]
        return self._schema(inner, self._place(edges), depth + 1)

    def _named(self, key: str, inner: Any, place: Place, depth: int) -> dict[str, Any]:
        if not isinstance(inner, Mapping):
            raise Unusable
        copied, edges = {}, place.leads[LEADS_TO[key]]
        for name, each in inner.items():
            self._weigh(len(name) // 50)
            place.own[CHECKS] += 1
            if key == "patternProperties" and not self._keeps("pattern", name, place):
                continue
            if key == "dependencies" and isinstance(each, list):
                copied[name] = self._plain(key, each, place)
            else:
                copied[name] = self._schema(each, self._place(edges), depth + 1)
        return copied

    def _reference(self, pointer: Any, place: Place) -> str:
        if not isinstance(pointer, str):
            raise Unusable
        self.cuts += self._wary
        self._weigh(len(pointer) // 50)
        number = self._numbers.setdefault(pointer, len(self.targets))
        if number == len(self.targets):
            self.targets.append((pointer, self._place([])))
        place.leads[SAME].append(self.targets[number][1])
        return f"#/definitions/{number}"

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

    def _plain(self, key: str, value: Any, place: Place) -> Any:
        try:
            text = orjson.dumps(value)
        except TypeError:  # a number over 64 bits, or what is no JSON at all
            text = repr(value).encode(errors="replace")
        weight = 1 + len(text) // 50
        self._weigh(weight)
        place.own[CHECKS] += len(value) if key == "required" and isinstance(value, list) else weight
        place.own[WIDE] += key == "uniqueItems"
        return value

    def _keeps(self, key: str, text: str, place: Place) -> bool:
        """Whether the keyword stays; else it is a cut."""
        self._weigh((PATTERN if key == "pattern" else 1) + len(text) // 50)
        if not self._keep(key, text):
            self.cuts += 1
            return False
        place.own[CHECKS] += 1 + len(text) // 50
        place.own[TEXTS] += 1
        return True

    def _weigh(self, size: int) -> None:
        self.size += size
        if self.size > LARGEST:
            raise Unusable

    def _place(self, edges: list[Place]) -> Place:
        self.places.append(place := Place())
        edges.append(place)
        return place

"""Makes a safe copy of a JSON Schema. A client's tool brings its own schema, so anybody may have written it.

References are one danger: they can lead to the network, and sixty lines of them can stand for more checks than a
machine can do. The copy holds each definition once, and its references lead only to these. The cost of a check is
counted over the references (`costs.py`).

Patterns are the other danger. The copy has only those that the caller accepts. A copy with less may allow too much, but
it never refuses arguments that the schema allows.
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
    Subschema,
    Unusable,
    cost_of,
)

LARGEST = 10_000
"""The size of a copy at most: about one for each schema in it, and one for each 50 bytes."""

PATTERN = 100
"""The size of a pattern."""

UNEVALUATED = 3
"""The factor of the cost beside `unevaluatedProperties` or `unevaluatedItems`. The validator checks the keywords beside
them again, to find out which values they have checked; and again for each of them that stands above."""

LEADS_TO = {
    **dict.fromkeys(("allOf", "anyOf", "dependencies", "dependentSchemas", "oneOf"), SAME),
    **dict.fromkeys(("else", "if", "not", "then"), SAME),
    **dict.fromkeys(("additionalProperties", "properties", "unevaluatedProperties"), MEMBERS),
    **dict.fromkeys(("additionalItems", "items", "prefixItems", "unevaluatedItems"), ITEMS),
    **dict.fromkeys(("contains", "patternProperties", "propertyNames"), BESIDE),
}  # fmt: skip
"""The keywords that hold schemas, and the way in which each leads from a `Subschema` to others."""

NAMED = frozenset({"dependencies", "dependentSchemas", "patternProperties", "properties"})
READING = frozenset({"contentEncoding", "contentMediaType", "format", "pattern"})
"""Keywords that read a text to its end."""

PLAIN = frozenset({
    "const", "dependentRequired", "enum", "exclusiveMaximum", "exclusiveMinimum", "maxContains", "maxItems",
    "maxLength", "maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties", "minimum",
    "multipleOf", "required", "type", "uniqueItems",
})  # fmt: skip
"""These and the ones above are the keywords that count. All others check nothing and are left out."""

_BEFORE_2019 = re.compile(r"draft-0[3467]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeCopy:
    """A safe copy. `size` is about one for each schema in it, and one for each 50 bytes."""

    schema: Mapping[str, Any]
    size: int
    cost: Cost


def safe_copy(schema: Mapping[str, Any], keep: Callable[[str, str], bool] = lambda _key, _text: True) -> SafeCopy:
    """A copy of the schema with the keywords that count. The targets of its references stand under `definitions`, each
    once.

    `keep(keyword, value)` is called for each keyword that reads a text to its end, and as `pattern` for a pattern of
    `patternProperties`. If it returns false, the keyword is left out.

    Raises Unusable if the schema is too large, too deep, or no schema, and for references that are no pointers into
    this schema.
    """
    keep = cache(keep)
    copying = _Copying(schema, keep, wary=False)
    copied = copying.whole()
    if copying.cuts and copying.targets:  # then a reference may lead to a schema that was cut
        copied = _Copying(schema, keep, wary=True).whole()
    return SafeCopy(schema=copied, size=copying.size, cost=cost_of(copying.parts))


def _loosen(copied: dict[str, Any], key: str) -> None:
    """Loosen a keyword whose schema was cut. The schema allows too much now, so `not`, `if`, `contains` and `oneOf`
    would refuse too much."""
    if key in ("not", "if", "contains"):
        del copied[key]  # `then` and `else` say nothing without their `if`
    elif key == "oneOf":
        copied["allOf"] = [*copied.get("allOf", ()), {"anyOf": copied.pop("oneOf")}]


class _Copying:
    """Makes one copy. `cuts` counts the keywords that were left out. With `wary`, each reference counts as one too."""

    __slots__ = ("_before_2019", "_keep", "_numbers", "_root", "_wary", "cuts", "parts", "size", "targets")

    def __init__(self, root: Mapping[str, Any], keep: Callable[[str, str], bool], *, wary: bool) -> None:
        self._root = root
        self._keep = keep
        self._wary = wary
        self._before_2019 = bool(_BEFORE_2019.search(str(root.get("$schema", ""))))
        self.parts: list[Subschema] = []
        self.targets: list[tuple[str, Subschema]] = []
        self._numbers: dict[str, int] = {}
        self.size = self.cuts = 0

    def whole(self) -> dict[str, Any]:
        copied: dict[str, Any] = self._schema(self._root, self._part([]), 0)
        if "$schema" in self._root:
            copied["$schema"] = self._root["$schema"]
        if self.targets:
            definitions: dict[str, Any] = {}
            for pointer, part in self.targets:  # the list grows meanwhile
                definitions[str(len(definitions))] = self._schema(self._at(pointer), part, 0)
            copied["definitions"] = definitions
        return copied

    def _schema(self, value: Any, part: Subschema, depth: int) -> Any:
        self._weigh(1)
        if isinstance(value, bool):
            return value
        if not isinstance(value, Mapping) or depth > DEEPEST:
            raise Unusable
        cuts = self.cuts
        copied = {"$ref": self._reference(value["$ref"], part)} if "$ref" in value else {}
        if copied and self._before_2019:  # then keywords beside a reference do not count
            return copied
        copied |= self._keywords(value, part, depth)
        if self.cuts > cuts:
            # The keywords that were cut would have told which members they know.
            copied.pop("unevaluatedItems", None)
            copied.pop("unevaluatedProperties", None)
        return copied

    def _keywords(self, value: Mapping[str, Any], part: Subschema, depth: int) -> dict[str, Any]:
        copied: dict[str, Any] = {}
        for key, inner in value.items():
            cuts = self.cuts
            if key in LEADS_TO:
                copied[key] = self._inner(key, inner, part, depth, copied.get(key, ()))
            elif key in READING and isinstance(inner, str):
                if self._keeps(key, inner, part):
                    copied[key] = inner
            elif key in PLAIN:
                copied[key] = self._plain(key, inner, part)
            elif key in ("$dynamicRef", "$recursiveRef") or (key == "$id" and value is not self._root):
                raise Unusable  # these change the meaning of references
            if self.cuts > cuts:
                _loosen(copied, key)
        if len(copied.get("patternProperties", ())) < len(value.get("patternProperties", ())):
            copied.pop("additionalProperties", None)  # else members that fit the left-out pattern would be refused
        return copied

    def _inner(self, key: str, inner: Any, part: Subschema, depth: int, before: Sequence[Any]) -> Any:
        """Copies of the schemas that a keyword holds. `before` is the keyword's list so far, and a list continues
        it."""
        edges = part.leads[LEADS_TO[key]]
        if key.startswith("unevaluated"):
            part.again = UNEVALUATED
        if key in NAMED:
            return self._named(key, inner, part, depth)
        if isinstance(inner, list | tuple):
            return [*before, *(self._schema(each, self._part(edges), depth + 1) for each in inner)]
        return self._schema(inner, self._part(edges), depth + 1)

    def _named(self, key: str, inner: Any, part: Subschema, depth: int) -> dict[str, Any]:
        if not isinstance(inner, Mapping):
            raise Unusable
        copied, edges = {}, part.leads[LEADS_TO[key]]
        for name, each in inner.items():
            self._weigh(len(name) // 50)
            part.own[CHECKS] += 1
            if key == "patternProperties" and not self._keeps("pattern", name, part):
                continue
            if key == "dependencies" and isinstance(each, list):
                copied[name] = self._plain(key, each, part)
            else:
                copied[name] = self._schema(each, self._part(edges), depth + 1)
        return copied

    def _reference(self, pointer: Any, part: Subschema) -> str:
        if not isinstance(pointer, str):
            raise Unusable
        self.cuts += self._wary
        self._weigh(len(pointer) // 50)
        number = self._numbers.setdefault(pointer, len(self.targets))
        if number == len(self.targets):
            self.targets.append((pointer, self._part([])))
        part.leads[SAME].append(self.targets[number][1])
        return f"#/definitions/{number}"

    def _at(self, pointer: str) -> Any:
        """The schema at the JSON pointer (RFC 6901, in a URI's fragment)."""
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

    def _plain(self, key: str, value: Any, part: Subschema) -> Any:
        try:
            text = orjson.dumps(value)
        except TypeError:  # a number over 64 bits, or what is no JSON at all
            text = repr(value).encode(errors="replace")
        weight = 1 + len(text) // 50
        self._weigh(weight)
        part.own[CHECKS] += len(value) if key == "required" and isinstance(value, list) else weight
        part.own[WIDE] += key == "uniqueItems"
        return value

    def _keeps(self, key: str, text: str, part: Subschema) -> bool:
        """Whether the keyword stays. If not, count a cut."""
        self._weigh((PATTERN if key == "pattern" else 1) + len(text) // 50)
        if not self._keep(key, text):
            self.cuts += 1
            return False
        part.own[CHECKS] += 1 + len(text) // 50
        part.own[TEXTS] += 1
        return True

    def _weigh(self, size: int) -> None:
        self.size += size
        if self.size > LARGEST:
            raise Unusable

    def _part(self, edges: list[Subschema]) -> Subschema:
        self.parts.append(part := Subschema())
        edges.append(part)
        return part

"""What checking a value against a JSON Schema may cost at most, before it is checked.

One schema of a thousand keywords may look at each value of the arguments with three of them; another, just as
large, with all. So the work is told level by level: what is `n` levels down in a value is looked at by what stands
`n` levels down in the schema, and of two neighbours there by the heavier one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import orjson

UNEVALUATED = 3
"""How many times more what stands beside `unevaluatedProperties` or `unevaluatedItems` costs: it is looked at again to
find out what it has looked at, and so once more for each of them that stands above."""

SAME_VALUE = frozenset({"allOf", "anyOf", "else", "if", "not", "oneOf", "then"})
TEXTS = frozenset({"contentEncoding", "contentMediaType", "format", "pattern"})
"""Keywords that read a text to its end."""

Levels = list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """`levels` are the simple checks of one value at each depth, `wide` the keywords that look at all of a value at
    once, and `texts` those that read a text to its end."""

    levels: Levels
    wide: int
    texts: int

    def of(self, value: Any, characters: int) -> int:
        """The simple checks of this value, whose JSON has so many characters; of some 30 ns each at most."""
        counts = _counts(value, len(self.levels))
        checks = sum(each * count for each, count in zip(self.levels, counts, strict=False))
        return checks + self.wide * (sum(counts) + characters // 50)


def cost_of(schema: Any) -> Cost:
    """The cost of a schema without references. Raises no more than reading it does: it may be nested deep."""
    counting = _Counting()
    levels = counting.levels(schema, 1)
    return Cost(levels=levels, wide=counting.wide, texts=counting.texts)


class _Counting:
    def __init__(self) -> None:
        self.wide = self.texts = 0

    def levels(self, schema: Any, times: int) -> Levels:
        if not isinstance(schema, Mapping):
            return [1]
        again = UNEVALUATED if "unevaluatedItems" in schema or "unevaluatedProperties" in schema else 1
        times *= again
        here = [1]
        members, items, beside = list[Levels](), list[Levels](), list[Levels]()
        for key, value in schema.items():
            if key in SAME_VALUE:
                here = _sum([here, *(self.levels(each, times) for each in _listed(value))])
            elif key == "properties":
                here[0] += len(value)
                members += [self.levels(each, times) for each in value.values()]
            elif key in ("dependentSchemas", "dependencies"):
                here = _sum([here, *(self.levels(each, times) for each in value.values())])
            elif key == "patternProperties":
                here[0] += len(value)
                self.texts += times * len(value)
                beside += [self.levels(each, times) for each in value.values()]
            elif key in ("items", "prefixItems", "additionalItems", "unevaluatedItems"):
                items += [self.levels(each, times) for each in _listed(value)]
            elif key in ("additionalProperties", "unevaluatedProperties"):
                members.append(self.levels(value, times))
            elif key in ("contains", "propertyNames"):
                beside.append(self.levels(value, times))
            else:
                here[0] += self._plain(key, value, times)
        below = _sum([_most(members), _most(items), *beside])
        return [again * each for each in _sum([here, [0, *below]])]

    def _plain(self, key: str, value: Any, times: int) -> int:
        if key in TEXTS:
            self.texts += times
        elif key == "uniqueItems":
            self.wide += times
        return len(value) if key == "required" and isinstance(value, list) else 1 + _bytes(value) // 50


def _bytes(value: Any) -> int:
    try:
        return len(orjson.dumps(value))
    except TypeError:  # a number over 64 bits, or what is no JSON at all
        return len(repr(value))


def _listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else [value]


def _sum(all_levels: Iterable[Levels]) -> Levels:
    return [sum(each) for each in zip_longest(*all_levels, fillvalue=0)]


def _most(all_levels: Iterable[Levels]) -> Levels:
    return [max(each) for each in zip_longest(*all_levels, fillvalue=0)]


def _counts(value: Any, deepest: int) -> list[int]:
    """How many values there are at each depth, down to where nothing is checked any more; all those below are
    counted as one depth more."""
    counts, level = list[int](), [value]
    while level:
        counts.append(len(level))
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return [*counts[:deepest], sum(counts[deepest:])]

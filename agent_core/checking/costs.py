"""The cost of a check against a JSON Schema at most, found before the check.

The size of a schema does not tell the cost. Of a thousand keywords, one schema checks each value with three, and
another with all. So the cost is counted by levels: the values n levels down in the arguments are checked by the parts
of the schema n levels down. If only one of several parts checks a value, such as the schemas of two members, the
dearest counts.

References are edges between parts of the schema. A part that leads back to itself has a cost at each level, and the
cost may double from one level to the next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_core.plain import levels_of

DEEPEST = 60
"""The bound of three depths: schemas inside each other; parts that check the same value, one through another; and
levels of a value that a recursive schema checks. The validator needs stack for them. Twice their product is safe, five
times is not."""

MOST = 10**9
"""A cost beyond every limit."""

MOST_WORK = 30_000
"""Places that are visited at most to find the cost. Values that are deeper than that cost MOST."""

CHECKS, WIDE, TEXTS = range(3)
SAME, MEMBERS, ITEMS, BESIDE = range(4)


class Unusable(Exception):
    """The schema is too large or too deep, or has a keyword that cannot be handled here."""


@dataclass(slots=True, eq=False)
class Subschema:
    """A schema inside a schema.

    - own: how many simple checks it has (CHECKS), keywords that look at a whole value at once (WIDE), and keywords that
      read a text to its end (TEXTS)
    - again: the factor for values that are checked more than once
    - leads: the parts that it leads to: those that check the SAME value, those of which one checks each of the MEMBERS
      or ITEMS, and those that may check any of these too, BESIDE the others
    """

    own: list[int] = field(default_factory=lambda: [1, 0, 0])
    again: int = 1
    leads: tuple[list["Subschema"], ...] = field(default_factory=lambda: ([], [], [], []))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a schema, each number at most.

    - levels: the simple checks of one value, for each depth
    - wide: the keywords that look at a whole value at once, for each depth
    - texts: the keywords that read one text to its end
    - height: the parts that check the same value, one through another
    """

    levels: Sequence[int]
    wide: Sequence[int]
    texts: int
    height: int

    def of(self, value: Any, characters: int) -> tuple[int, int]:
        """The simple checks of this value, each up to 30 ns; and the parts that the validator is in at once.
        `characters` is the length of the value's JSON."""
        counts, deepest = [len(level) for level in levels_of(value)], len(self.levels)
        counts = [*counts[:deepest], sum(counts[deepest:])]  # nothing checks what is deeper
        checks = sum(each * count for each, count in zip(self.levels, counts, strict=False))
        wide = sum(self.wide[: len(counts)]) * (sum(counts) + characters // 50)
        return checks + wide, self.height * min(len(counts), len(self.levels))


def cost_of(parts: Sequence[Subschema]) -> Cost:
    """The cost of a schema's parts, the root first. Raises Unusable if they check one value without end."""
    heights: dict[Subschema, int] = {}
    for part in parts:
        _climb(part, heights, 0)
    levels: list[list[int]] = [[], [], []]
    order, work = list(heights), 0
    above: list[dict[Subschema, int]] = [{}, {}, {}]
    while order and len(levels[CHECKS]) < DEEPEST and work < MOST_WORK:
        for kind, found in enumerate(levels):
            above[kind] = _below(order, above[kind]) if found else _first(order, kind)
            found.append(above[kind].get(parts[0], 0))
        work += len(order)
        order = [part for part in order if part in above[CHECKS] and any(part.leads)]
    return Cost(
        levels=levels[CHECKS] + [MOST] * bool(order),
        wide=levels[WIDE],
        texts=max(levels[TEXTS]),
        height=max(heights.values()),
    )


def _climb(part: Subschema, heights: dict[Subschema, int], depth: int) -> None:
    """Note for each part how many parts check the same value through it. The last in a row are noted first."""
    if part in heights:
        return
    if depth <= DEEPEST:  # else the part leads back to itself, or too deep
        for each in part.leads[SAME]:
            _climb(each, heights, depth + 1)
        height = 1 + max((heights[each] for each in part.leads[SAME]), default=0)
        if height <= DEEPEST:
            heights[part] = height
            return
    raise Unusable


def _first(order: Sequence[Subschema], kind: int) -> dict[Subschema, int]:
    """The cost of each part at its own value. Places that cost nothing are left out."""
    found: dict[Subschema, int] = {}
    for part in order:
        if here := part.own[kind] + sum(found.get(each, 0) for each in part.leads[SAME]):
            found[part] = min(MOST, part.again * here)
    return found


def _below(order: Sequence[Subschema], above: Mapping[Subschema, int]) -> dict[Subschema, int]:
    """The cost of each part one level further down. `above` has the costs of the parts that it leads to."""
    found: dict[Subschema, int] = {}
    for part in order if above else ():
        same, members, items, beside = part.leads
        here = sum(max((above.get(each, 0) for each in some), default=0) for some in (members, items) if some)
        here += sum(above.get(each, 0) for each in beside) + sum(found.get(each, 0) for each in same)
        if here:
            found[part] = min(MOST, part.again * here)
    return found

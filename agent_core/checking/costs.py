"""What checking a value against a JSON Schema may cost at most, before it is checked.

One schema of a thousand keywords may look at each value of the arguments with three of them; another, just as
large, with all. So the work is told level by level: what is `n` levels down in a value is looked at by what stands
`n` levels down in the schema, and of two neighbours there by the heavier one. References are edges between places
of the schema: a place that leads back to itself has a cost at each level, which may double from one to the next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

DEEPEST = 60
"""Schemas inside each other, places that look at one value one through the other, and levels of a value that a schema
which stands in itself looks at. The validator needs a stack for them: twice the product is safe, five times is not."""

MOST = 10**9
"""A cost that is too much for anything."""

MOST_WORK = 30_000
"""Places that are looked at in all to find the cost; deeper values are too much then."""

CHECKS, WIDE, TEXTS = range(3)
SAME, MEMBERS, ITEMS, BESIDE = range(4)


class Unusable(Exception):
    """The schema is too large or too deep, or says something that is not understood here."""


@dataclass(slots=True, eq=False)
class Place:
    """A schema inside a schema. It leads to others: those that look at the SAME value, at one of the MEMBERS or ITEMS
    each, or at any of them BESIDE the others.

    `own` counts its simple checks, the keywords that look at all of a value at once (WIDE), and those that read a text
    to its end. `again` is how many times more all this costs for what is looked at a second time.
    """

    own: list[int] = field(default_factory=lambda: [1, 0, 0])
    again: int = 1
    leads: tuple[list["Place"], ...] = field(default_factory=lambda: ([], [], [], []))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """`levels` are the simple checks of one value at each depth, `wide` the keywords that look at all of a value there
    at once, `texts` how many read one text to its end, and `height` how many places look at one value one through
    the other; at most each."""

    levels: Sequence[int]
    wide: Sequence[int]
    texts: int
    height: int

    def of(self, value: Any, characters: int) -> tuple[int, int]:
        """The simple checks of this value, whose JSON has so many characters, of some 30 ns each at most; and how
        many places the validator is in at once."""
        counts = _counts(value, len(self.levels))
        checks = sum(each * count for each, count in zip(self.levels, counts, strict=False))
        wide = sum(self.wide[: len(counts)]) * (sum(counts) + characters // 50)
        return checks + wide, self.height * min(len(counts), len(self.levels))


def cost_of(places: Sequence[Place]) -> Cost:
    """The cost of a schema's places, the root first. Raises Unusable where they look at one value for ever."""
    heights: dict[Place, int] = {}
    for place in places:
        _climb(place, heights, 0)
    levels: list[list[int]] = [[], [], []]
    order, work = list(heights), 0
    above: list[dict[Place, int]] = [{}, {}, {}]
    while order and len(levels[CHECKS]) < DEEPEST and work < MOST_WORK:
        for kind, found in enumerate(levels):
            above[kind] = _below(order, above[kind]) if found else _first(order, kind)
            found.append(above[kind].get(places[0], 0))
        work += len(order)
        order = [place for place in order if place in above[CHECKS] and any(place.leads)]
    return Cost(
        levels=levels[CHECKS] + [MOST] * bool(order),
        wide=levels[WIDE],
        texts=max(levels[TEXTS]),
        height=max(heights.values()),
    )


def _climb(place: Place, heights: dict[Place, int], depth: int) -> None:
    """Note how many places look at one value one through the other; those that come last are noted first."""
    if place in heights:
        return
    if depth <= DEEPEST:  # else it comes back to itself, or might as well
        for each in place.leads[SAME]:
            _climb(each, heights, depth + 1)
        height = 1 + max((heights[each] for each in place.leads[SAME]), default=0)
        if height <= DEEPEST:
            heights[place] = height
            return
    raise Unusable


def _first(order: Sequence[Place], kind: int) -> dict[Place, int]:
    """What each place costs at its own value, where that is anything."""
    found: dict[Place, int] = {}
    for place in order:
        if here := place.own[kind] + sum(found.get(each, 0) for each in place.leads[SAME]):
            found[place] = min(MOST, place.again * here)
    return found


def _below(order: Sequence[Place], above: Mapping[Place, int]) -> dict[Place, int]:
    """What each place costs a level further down, where those that it leads to cost what they did `above`."""
    found: dict[Place, int] = {}
    for place in order if above else ():
        same, members, items, beside = place.leads
        here = sum(max((above.get(each, 0) for each in some), default=0) for some in (members, items) if some)
        here += sum(above.get(each, 0) for each in beside) + sum(found.get(each, 0) for each in same)
        if here:
            found[place] = min(MOST, place.again * here)
    return found


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

"""The parts of an interrupt that clients are told, for all wire formats. Each format has its own names; these rules are
shared:

1. An interrupt is never left out because of its size. Instead its message and its words about an operation are cut, and
   arguments that are too large are left out. The client was streamed all of them before.
2. A list of interrupts fits one frame. The others are told when these are answered.
3. Arguments have the values of their JSON, also integers over 64 bits. Arguments that are no JSON are told as a text.
4. An expiry beyond the dates that clients know is not told.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from agent_core.clock import iso
from agent_core.interrupts import Interrupt
from converters.wire import TEXT_LIMIT, cut, to_json

LARGEST_ARGUMENTS = 64 * 1024
"""Bytes of the JSON of one call's arguments at most."""

LONGEST_WORDS = 4_000
"""Bytes of the JSON of a message at most, and of a tool's words about an operation."""

LARGEST_LIST = TEXT_LIMIT - 64 * 1024
"""Bytes of the JSON of all interrupts of a run at most."""

FAR = 253_402_300_800_000
"""The year 10000 in milliseconds. ISO 8601 has no dates from there on."""


def as_many_as_fit(waiting: Iterable[Interrupt], told: Callable[[Interrupt], dict[str, Any]]) -> list[dict[str, Any]]:
    """The interrupts from the first on, as many as fit, each in the form that `told` gives it (rule 2)."""
    found: list[dict[str, Any]] = []
    room = LARGEST_LIST
    for interrupt in waiting:
        members = told(interrupt)
        room -= len(to_json(members)) + 1
        if room < 0:
            break
        found.append(members)
    return found


def words(text: str) -> str:
    """A message or a tool's words about an operation, cut (rule 1)."""
    return cut(text, LONGEST_WORDS)


def arguments_of(interrupt: Interrupt) -> Any:
    """The arguments that a person is asked about, None if they are too large (rules 1 and 3)."""
    try:
        orjson.loads(interrupt.arguments or "{}")  # refuses more texts that are no JSON
        value = json.loads(interrupt.arguments or "{}")  # keeps integers over 64 bits exact
        value = {} if value is None else value
    except ValueError:
        value = interrupt.arguments
    return value if len(to_json(value)) <= LARGEST_ARGUMENTS else None


def expiry_of(interrupt: Interrupt) -> str | None:
    """The time when the interrupt expires, as ISO 8601; None if it never does (rule 4)."""
    return iso(interrupt.expires_at) if 0 < interrupt.expires_at < FAR else None

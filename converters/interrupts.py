"""What clients are told of an interrupt, in whichever wire format. Each format has its own names; the rules are shared:

1. An interrupt is never left out for its size. What is long in it is: its message and its words about an operation are
   cut, and arguments that are too large are not repeated. The client was streamed all of them.
2. A list of interrupts fits one frame. Those that do not fit are told when the others are answered.
3. Arguments are what their JSON says, integers over 64 bits too. What is no JSON is told as the text that it is.
4. An expiry that no client has a date for is none.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from agent_core.clock import iso
from agent_core.interrupts import Interrupt
from converters.wire import TEXT_LIMIT, cut, to_json

LARGEST_ARGUMENTS = 64 * 1024
"""Bytes of the JSON of one call's arguments."""

LONGEST_WORDS = 4_000
"""Bytes of the JSON of a message, and of what a tool says about an operation."""

LARGEST_LIST = TEXT_LIMIT - 64 * 1024
"""Bytes of the JSON of all interrupts of a run."""

FAR = 253_402_300_800_000
"""The year 10000 in milliseconds, which ISO 8601 has no date for."""


def as_many_as_fit(waiting: Iterable[Interrupt], told: Callable[[Interrupt], dict[str, Any]]) -> list[dict[str, Any]]:
    """The interrupts from the first on, each as `told` tells it (rule 2)."""
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
    """A message, or a tool's words about an operation (rule 1)."""
    return cut(text, LONGEST_WORDS)


def arguments_of(interrupt: Interrupt) -> Any:
    """The arguments that a person is asked about, None where they are too large (rules 1 and 3)."""
    try:
        orjson.loads(interrupt.arguments or "{}")  # stricter about what is JSON at all
        value = json.loads(interrupt.arguments or "{}")  # exact, also for integers over 64 bits
        value = {} if value is None else value
    except ValueError:
        value = interrupt.arguments
    return value if len(to_json(value)) <= LARGEST_ARGUMENTS else None


def expiry_of(interrupt: Interrupt) -> str | None:
    """When the interrupt expires, as ISO 8601; None where it does not (rule 4)."""
    return iso(interrupt.expires_at) if 0 < interrupt.expires_at < FAR else None

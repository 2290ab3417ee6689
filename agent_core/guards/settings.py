"""The guards of an agent as settings: the limits that stop a model which goes in circles or does too much."""

import math
from dataclasses import dataclass
from typing import Literal

GuardName = Literal[
    "repeats",
    "failures",
    "calls_per_tool",
    "calls_per_run",
    "turn_iterations",
    "seconds",
    "tokens",
    "confidence",
]

GuardAction = Literal["nudge", "block", "disable", "answer"]
"""What a guard does: tell the model, block the call, take the tool away, or ask for an answer without tools."""

COUNTS = ("repeats", "failures", "calls_per_tool", "calls_per_run", "turn_iterations", "tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """The limits of one turn, with their defaults. None or 0 switches a limit off.

    A turn goes from one new user message, edit or regenerate to the next. All runs between belong to it: a client
    answers its own tools, a person approves, an operation brings its result, or a failed request is sent again. The
    client's calls count like the server's.

    - repeats: how often in a row the same call may come with the same result. At this count the model is told; then
      the call is blocked; then the model must answer without tools. Circles of two and three calls with the same
      results count too. So do ten calls in a row (or `repeats`, if that is more), whatever their results. At least 2
    - failures: how often a tool may fail in the same way within its last 2 x failures - 1 calls
    - on_tool_failure: what happens then: `answer` without tools, or `disable` the tool and go on
    - calls_per_tool, calls_per_run: calls that the model makes, whatever their results
    - turn_iterations: rounds of the turn; the agent's `max_iterations` bounds those of a single run
    - seconds, tokens: the sum over the turn's runs, checked between rounds; tokens as the provider reports them. A run
      that was lost with its worker does not count
    - confidence: from 0 to 1; if the model itself scores its answer lower, it gets one more round, once in a run

    `repeatable` tools are exempt from repeats and calls_per_tool. A tool's `timeout` bounds the time of its calls.

    Raises ValueError, or TypeError for a limit that is no number.
    """

    repeats: int | None = 3
    failures: int | None = 3
    on_tool_failure: Literal["answer", "disable"] = "answer"
    calls_per_tool: int | None = 40
    calls_per_run: int | None = 150
    turn_iterations: int | None = 100
    seconds: float | None = None
    tokens: int | None = None
    confidence: float | None = None

    def __post_init__(self) -> None:
        for name in (*COUNTS, "seconds", "confidence"):
            _check(name, getattr(self, name), whole=name in COUNTS)
        if self.repeats == 1:
            raise ValueError("guards: repeats is 1, but the first call repeats nothing; use 2 or more, or None for off")
        if self.confidence is not None and self.confidence > 1:
            raise ValueError(f"guards: confidence is {self.confidence}, but it goes from 0 to 1")
        if self.on_tool_failure not in ("answer", "disable"):
            raise ValueError(f"guards: on_tool_failure is {self.on_tool_failure!r}, not 'answer' or 'disable'")


def _check(name: str, limit: object, *, whole: bool) -> None:
    if limit is None:
        return
    if isinstance(limit, bool) or not isinstance(limit, int if whole else int | float):
        raise TypeError(f"guards: {name} must be a {'whole ' if whole else ''}number or None, not {limit!r}")
    if not math.isfinite(limit) or limit < 0:
        raise ValueError(
            f"guards: {name} is {limit}, but it must be finite and cannot be negative; None switches it off"
        )

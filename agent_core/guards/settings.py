"""The guards of an agent's runs, as settings: what holds a model that goes in circles or runs wild."""

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
"""What a guard does: tell the model, not run the call, take the tool away, or have it answer without tools."""

COUNTS = ("repeats", "failures", "calls_per_tool", "calls_per_run", "turn_iterations", "tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """The limits of one turn, each with its default. None or 0 switches one off.

    A turn goes from one new user message, edit or regenerate to the next, through all runs in between: those in
    which a client answers its own tools, a person approves, an operation brings its result, or a failed request is
    tried again. The client's calls count like the server's.

    - repeats: how often in a row the same call may come with the same result: at this count the model is told, then
      the call is blocked, then an answer without tools is asked for. Cycles of two and three calls with the same
      results count too, and ten calls in a row (or `repeats`, if that is more) whatever their results are. At least 2
    - failures: how often a tool may fail in the same way within its last 2 x failures - 1 calls
    - on_tool_failure: what is done then: an `answer` without tools, or `disable` the tool and go on
    - calls_per_tool, calls_per_run: calls that the model makes, whatever came of them
    - turn_iterations: rounds of reasoning. Those of a single run are the agent's `max_iterations`
    - seconds, tokens: of all the turn's runs, looked at between rounds; tokens as the provider reports them. Of a
      run that was lost with its worker they are not known
    - confidence: from 0 to 1; an answer that the model itself scores lower gets one more round, once in a run

    Tools that are `repeatable` are exempt from repeats and calls_per_tool. A tool's own time is its `timeout`.

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

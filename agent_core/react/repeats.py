"""Repeats: the same call again and again, and calls that go round in a circle with the same results.

How far a repeat is taken depends on what the model could know: a stage is passed only once the model has read
the one before, so calls of one answer share a stage.
"""

from collections import deque
from dataclasses import dataclass
from typing import Literal

PERIODS = (2, 3)
"""The lengths of circles that are looked for."""

MOST_OPEN = 128
"""Calls of one answer that may be without their results at once; those before them are forgotten."""

Stage = Literal["nudge", "block", "end"]
"""What is due: tell the model; do not run the call; not that either, and no more tools after this round."""


@dataclass(slots=True)
class _Step:
    """One call; `result` stands for what came of it, None as long as nobody knows."""

    call: bytes
    result: bytes | None = None


class Repeats:
    """The calls of one run in their order. `times` is the count in a row at which the model is told."""

    def __init__(self, times: int) -> None:
        self._times = times
        self._turns = max(2, times - 1)  # of a circle, each with the same results: A-B-A-B where `times` is 3
        self._row = 0
        self._steps: deque[_Step] = deque(maxlen=PERIODS[-1] * self._turns + MOST_OPEN)
        self._stages: dict[frozenset[bytes], tuple[int, int]] = {}
        self._round = 0

    def next_round(self) -> None:
        """The model reads the results."""
        self._round += 1

    def skip(self) -> None:
        """An exempt call came between: it breaks rows and circles."""
        self._row = 0
        self._steps.append(_Step(b""))

    def call(self, call: bytes) -> tuple[Stage, int] | None:
        """A call is about to be made. What is due, and how often in a row (or round) it has come, itself included."""
        steps = self._steps
        self._row = self._row + 1 if self._row and steps[-1].call == call else 1
        found: tuple[frozenset[bytes], int, int] | None = None
        if self._row >= self._times:
            found = frozenset((call,)), self._row, 1
        else:
            period = self._period()
            if period and steps[-period].call == call:
                found = self._circle(period), self._turns + 1, period
        if found is None:
            steps.append(_Step(call))
            return None
        who, count, period = found
        stage = self._stage(who)
        # What is not run would have had the result of the time before: else a blocked call broke its circle.
        steps.append(_Step(call, None if stage == "nudge" else steps[-period].result or b""))
        return stage, count

    def result(self, call: bytes, result: bytes) -> int:
        """What came of a call. Where this ends a circle of which the model was not told yet, how often it has gone
        round; else 0."""
        step = next((each for each in self._steps if each.call == call and each.result is None), None)
        if step is None:
            return 0
        step.result = result
        period = self._period()
        circle = self._circle(period)
        if not period or circle in self._stages:
            return 0
        self._stages[circle] = (1, self._round)
        return self._turns

    def _period(self) -> int:
        """The length of the circle that the last calls make; 0 where they make none."""
        steps = self._steps
        for period in PERIODS:
            first = len(steps) - period * self._turns
            if first < 0 or steps[-1].result is None:
                continue
            same = all(
                steps[index].result is not None and steps[index] == steps[index - period]
                for index in range(first + period, len(steps))
            )
            if same and len(self._circle(period)) > 1:  # one call alone is a row
                return period
        return 0

    def _circle(self, period: int) -> frozenset[bytes]:
        return frozenset(self._steps[-index].call for index in range(1, period + 1))

    def _stage(self, who: frozenset[bytes]) -> Stage:
        reached, since = self._stages.get(who, (0, -1))
        if since != self._round:
            reached = min(reached + 1, 3)
            self._stages[who] = (reached, self._round)
            if reached == 1:
                return "nudge"
        return "end" if reached == 3 else "block"

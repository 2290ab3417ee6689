"""Repeats: the same call with the same result again and again, and calls that go round in a circle of them.

A call is a repeat where its result is one too, so results decide: what came of a call is looked at in the order of
the calls, whatever came in first. Only a call that comes very often in a row counts whatever its results are.

How far a repeat is taken depends on what the model could know: a stage is passed only once the model has read
the one before, so calls of one answer share a stage. Everything here takes the same time however long the turn is.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final, Literal

PERIODS: Final = (1, 2, 3)
"""The lengths of circles that are looked for; a circle of one is a row."""

CHANGING: Final = 10
"""How often in a row a call may come whose result is another one each time, as that of a cursor is."""

Stage = Literal["block", "end"]
"""What is due: do not run the call; not that either, and no more tools after this round."""

Shape = Literal["row", "cursor", "circle"]
"""A row of the same call with the same result, a row whose results change, a circle of two or three calls."""


@dataclass(slots=True)
class _Step:
    """One call, empty for one that is exempt; `row` is how often it has come in a row. `result` stands for what came
    of it, None as long as nobody knows. One that is `blocked` counts as if it had had the result before it."""

    id: str
    call: bytes
    row: int = 0
    result: bytes | None = None
    blocked: bool = False


@dataclass(slots=True)
class Repeats:
    """The calls of one turn in their order. `times` is the count in a row at which the model is told."""

    times: int
    _row: int = 0
    _last: bytes = b""
    _open: "deque[_Step]" = field(default_factory=deque)
    _by_id: dict[str, _Step] = field(default_factory=dict)
    _known: "deque[_Step]" = field(default_factory=lambda: deque(maxlen=PERIODS[-1]))
    _alike: list[int] = field(default_factory=lambda: [0] * len(PERIODS))
    _stages: dict[frozenset[bytes], tuple[int, int]] = field(default_factory=dict)
    _round: int = 0

    def next_round(self) -> None:
        """The model has read the results."""
        self._round += 1
        if self._open:  # what has no result by now gets none
            self._open.clear()
            self._by_id.clear()
            self._break()

    def skip(self) -> None:
        """An exempt call comes between: it breaks rows and circles."""
        self._row, self._last = 0, b""
        self._open.append(_Step("", b"", result=b""))
        self._advance()

    def call(self, call_id: str, call: bytes) -> tuple[Stage, int] | None:
        """The model has asked for a call. What is due, and how often in a row (or round) it has come, itself
        included."""
        self._row = self._row + 1 if call == self._last else 1
        self._last = call
        step = self._by_id[call_id] = _Step(call_id, call, self._row)
        self._open.append(step)
        if self._row > max(CHANGING, self.times):
            return self._block(step, 1), self._row
        return self.due(call_id)

    def due(self, call_id: str) -> tuple[Stage, int] | None:
        """The call is about to be run: what is due, as in `call`. Nothing, where calls before it are under way."""
        step = self._by_id.get(call_id)
        if step is None or self._open[0] is not step:
            return None
        for period in PERIODS:
            if len(self._known) < period or self._known[-period].call != step.call:
                continue
            # Of a row that the model was told of, the call that would complete it is blocked already.
            needed = self.times - 2 if period == 1 else self._needed(period)
            if self._alike[period - 1] >= needed and self._circle(period) in self._stages:
                return self._block(step, period), step.row if period == 1 else self._turns + 1
        return None

    def result(self, call_id: str, result: bytes) -> tuple[Shape, int] | None:
        """What came of a call. Where the model is to be told of a repeat, its shape and how often it has come."""
        step = self._by_id.get(call_id)
        if step is None or step.blocked:
            return None
        step.result = result
        return self._advance()

    @property
    def _turns(self) -> int:
        """Of a circle, each with the same results: A-B-A-B where `times` is 3."""
        return max(2, self.times - 1)

    def _needed(self, period: int) -> int:
        """How many calls in a row that are like the one a period before make a circle."""
        return self.times - 1 if period == 1 else period * (self._turns - 1)

    def _circle(self, period: int) -> frozenset[bytes]:
        return frozenset(self._known[-index].call for index in range(1, period + 1))

    def _advance(self) -> tuple[Shape, int] | None:
        """Settle the calls that are known and have none in front of them that is not."""
        told: tuple[Shape, int] | None = None
        while self._open and (self._open[0].result is not None or self._open[0].blocked):
            step = self._open.popleft()
            self._by_id.pop(step.id, None)
            told = self._settle(step) or told
        return told

    def _settle(self, step: _Step) -> tuple[Shape, int] | None:
        if not step.call:
            self._break()
            return None
        if step.result is None:
            step.result = next((each.result for each in reversed(self._known) if each.call == step.call), b"")
        for period in PERIODS:
            before = self._known[-period] if len(self._known) >= period else None
            like = before is not None and (before.call, before.result) == (step.call, step.result)
            self._alike[period - 1] = self._alike[period - 1] + 1 if like else 0
        self._known.append(step)
        found = self._shape(step)
        if found is None:
            return None
        circle, shape, count = found
        if circle in self._stages:
            return None
        self._stages[circle] = (1, self._round)
        return shape, count

    def _shape(self, step: _Step) -> tuple[frozenset[bytes], Shape, int] | None:
        if self._alike[0] >= self._needed(1):
            return self._circle(1), "row", self._alike[0] + 1
        if step.row >= max(CHANGING, self.times):
            return self._circle(1), "cursor", step.row
        for period in PERIODS[1:]:
            if self._alike[period - 1] >= self._needed(period) and len(self._circle(period)) > 1:
                return self._circle(period), "circle", self._turns
        return None

    def _block(self, step: _Step, period: int) -> Stage:
        step.blocked = True
        first = self._open[0] is step
        if first and len(self._known) >= period:
            step.result = self._known[-period].result
        who = self._circle(period) if first and len(self._known) >= period else frozenset((step.call,))
        stage = self._stage(who)
        self._advance()
        return stage

    def _stage(self, who: frozenset[bytes]) -> Stage:
        reached, since = self._stages.get(who, (0, -1))
        if since != self._round:
            reached = min(reached + 1, 3)
            self._stages[who] = (reached, self._round)
        return "end" if reached == 3 else "block"

    def _break(self) -> None:
        self._known.clear()
        self._alike = [0] * len(PERIODS)

"""Repeats: the same call with the same result in a row, and circles of two or three such calls.

A call repeats another only if its result does too. So results decide, and they are looked at in the order of the
calls, whatever order they came in. One case is different: a call that comes very often in a row counts as a repeat
whatever its results are.

A repeat goes through stages: tell the model, block the call, end the use of tools. The next stage is due only after
the model has read the one before, so the calls of one answer share a stage.

Each step takes constant time, however long the turn is.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final, Literal

PERIODS: Final = (1, 2, 3)
"""The lengths of the circles that count. A circle of one call is a row."""

CHANGING: Final = 10
"""How often in a row a call may come if its results differ, as those of a cursor do."""

Stage = Literal["block", "end"]
"""`block`: do not run the call. `end`: do not run it, and use no tools after this round."""

Shape = Literal["row", "cursor", "circle"]
"""`row`: the same call with the same result. `cursor`: the same call, and its results differ. `circle`: two or three
calls in turn."""


@dataclass(slots=True)
class _Step:
    """One call of the turn.

    - call: the call's digest, empty for an exempt call
    - row: how often the call has come in a row
    - result: the result's digest, None until it is known
    - blocked: the call was not run; it counts as if it had the last result of the same call
    """

    id: str
    call: bytes
    row: int = 0
    result: bytes | None = None
    blocked: bool = False


@dataclass(slots=True)
class Repeats:
    """The calls of one turn in their order. `times` is the count in a row at which the model is told.

    `_open` has the calls that are not settled yet. A call is settled when its result is known and all calls before it
    are settled. `_alike` counts, for each period, the calls in a row that were like the one a period before.
    """

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
        if self._open:  # a call without a result by now gets none
            self._open.clear()
            self._by_id.clear()
            self._break()

    def skip(self) -> None:
        """An exempt call has come between: it breaks rows and circles."""
        self._row, self._last = 0, b""
        self._open.append(_Step("", b"", result=b""))
        self._advance()

    def call(self, call_id: str, call: bytes) -> tuple[Stage, int] | None:
        """The model has asked for a call. Returns what is due, and how often the call has come: in a row or in a
        circle, with this one. None if nothing is due."""
        self._row = self._row + 1 if call == self._last else 1
        self._last = call
        step = self._by_id[call_id] = _Step(call_id, call, self._row)
        self._open.append(step)
        if self._row > max(CHANGING, self.times):
            return self._block(step, 1), self._row
        return self.due(call_id)

    def due(self, call_id: str) -> tuple[Stage, int] | None:
        """The call is about to run. Returns what is due, as `call` does. None if calls before it still run."""
        step = self._by_id.get(call_id)
        if step is None or self._open[0] is not step:
            return None
        for period in PERIODS:
            if len(self._known) < period or self._known[-period].call != step.call:
                continue
            # Once the model was told of this row, the call that would complete it again is blocked: one less is needed.
            needed = self.times - 2 if period == 1 else self._needed(period)
            if self._alike[period - 1] >= needed and self._circle(period) in self._stages:
                return self._block(step, period), step.row if period == 1 else self._turns + 1
        return None

    def result(self, call_id: str, result: bytes) -> tuple[Shape, int] | None:
        """A call has its result. If the model must be told of a repeat, returns its shape and how often it has come."""
        step = self._by_id.get(call_id)
        if step is None or step.blocked:
            return None
        step.result = result
        return self._advance()

    @property
    def _turns(self) -> int:
        """How often the calls of a circle must come with the same results. With `times` 3 it is 2: A-B-A-B."""
        return max(2, self.times - 1)

    def _needed(self, period: int) -> int:
        """How many calls in a row must be like the one a period before, to make a circle."""
        return self.times - 1 if period == 1 else period * (self._turns - 1)

    def _circle(self, period: int) -> frozenset[bytes]:
        return frozenset(self._known[-index].call for index in range(1, period + 1))

    def _advance(self) -> tuple[Shape, int] | None:
        """Settle the calls at the front that have a result or are blocked."""
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

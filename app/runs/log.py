"""A run's events, between the run that writes them and its readers.

What the log is for. A run writes internal events. Each reader makes its own wire format of them, at its own pace. A
reader takes all events that are ready, and sends them in one write. Under load, events gather here; an idle server
sends each at once. No timer is needed for either.

Numbers. Events are numbered from 1. A position is the number of the last event that somebody has, 0 before the first.

What is held. `_events` is a stretch of the run: the events behind position `_first`, up to the last.
- A log that is not kept holds what its slowest reader has not read. Without readers it holds nothing, and counts.
- A kept log also holds what later readers are to get: all events behind the position `_kept.number`.

Trimming. When the kept events weigh more than `most`, a snapshot of the run takes their place. It becomes `_kept`, and
later readers begin with it. Present readers go on with their events, which are held until they have read them. That has
a bound only if the run waits for its readers. If it does not, a reader that lags by more than LAG gets the snapshot
too.

Weights. `_weights[i]` is what all events before `_events[i]` weigh together; so the list has one item more than
`_events`. Every question about bytes is the difference of two items:

    what is held                    _weights[-1] - _weights[0]
    how far a reader lags           _weights[-1] - _weights[its position - _first]
    what a batch weighs             the reader's item after it, minus the one before it
    what was kept since a snapshot  _weights[-1] - _weights[_kept.number - _first]

The weights are cumulative for one reason. Each event is weighed once, when it is written, and no counter of bytes must
be kept in step with the events, the readers or another counter. Only differences mean something. So the list is cut
together with `_events` and never counted again.
"""

import asyncio
import sys
from array import array
from collections.abc import Callable, MutableSequence

from agent_core.events import OVERHEAD, AgentEnd, Event, FinalOutput, RunFailed, TextDelta
from app.runs.source import Snapshot

LAG = 256 * 1024
"""Bytes by which a reader may lag before the run waits for it and reads no more from upstream."""

KEPT = 8 * 1024 * 1024
"""Bytes of one run's events that are kept for later readers. With more, a snapshot takes their place. The whole answer
that comes again at the run's end does not count."""

RUN = 2_500
"""Bytes of a kept run without its events: its task, its log and its names, as measured."""

BATCH = 64
"""Events that a reader takes at a time from a log that others need too, so that a replay does not hold up other
tasks."""

STEP = 16 * 1024
"""A kept log reports its growth each time it has grown by this many bytes."""

BEGINNING = Snapshot(0, (), 0)
"""The run before its first event."""


class Log:
    """The events of one run that its readers have not read yet. With `keep` all of them, for later readers.

    - holds: the run must wait while the slowest reader lags by more than LAG
    - snapshot: makes the events of a snapshot; without it, a kept log that grows too long is no longer kept
    - most: bytes of events after which a kept log is trimmed, KEPT if None
    - grown: called with the bytes by which the kept events grew or shrank: once in STEP bytes, and each time they
      shrink

    It is a Sink. If nobody reads and nothing is kept, events are dropped and nobody waits.
    """

    def __init__(
        self,
        *,
        keep: bool = False,
        holds: bool = True,
        snapshot: Callable[[], tuple[Event, ...]] | None = None,
        most: int | None = None,
        grown: Callable[[int], None] | None = None,
    ) -> None:
        self.ended = False
        self._holds = holds
        self._take_snapshot = snapshot
        self._most = KEPT if most is None else most
        self._grown = grown
        self._reported = 0  # what `grown` was told in all
        self._events: list[Event] = []
        # An array takes a fifth of a list's memory, and a little more time: where events stay, memory counts.
        self._weights: MutableSequence[int] = array("q", [0]) if keep else [0]
        self._first = 0
        self._kept = BEGINNING if keep else None
        self._mark = min(STEP, self._most) if keep else sys.maxsize  # the weight beyond which `_grow` is called
        self._readers: list[Reader] = []
        self._room: asyncio.Event | None = None

    @property
    def full(self) -> bool:
        weights = self._weights
        far = weights[-1] - LAG
        if weights[0] >= far or not self._holds:
            return False
        for reader in self._readers:  # noqa: SIM110  # a generator costs more than all of this
            if weights[reader.position - self._first] < far:
                return True
        return False

    @property
    def attended(self) -> bool:
        """Whether somebody reads."""
        return bool(self._readers)

    @property
    def count(self) -> int:
        """How many events there were. Also the number of the last one."""
        return self._first + len(self._events)

    @property
    def next_number(self) -> int:
        """The number of the event that comes next."""
        return self.count + 1

    @property
    def keeps(self) -> bool:
        """Whether there will be something for later readers."""
        return self._kept is not None

    @property
    def readable(self) -> bool:
        """Whether a new reader would learn everything, if only from a snapshot."""
        return self._kept is not None or self.whole or not self.ended

    @property
    def whole(self) -> bool:
        """Whether a new reader would get every event from the first on."""
        return (self._first if self._kept is None else self._kept.number) == 0

    @property
    def size(self) -> int:
        """The bytes that are kept for later readers, and those of the run itself. 0 if nothing is kept."""
        return 0 if self._kept is None else self._weight_behind(self._first) + self._kept.weight + RUN

    def emit(self, event: Event) -> None:
        if self.ended:
            return
        kind = event.__class__
        if kind is TextDelta:
            weight = OVERHEAD + len(event.text)  # type: ignore[attr-defined]
        else:
            weight = event.weight
            if kind is FinalOutput:
                self._most += weight  # it only repeats the answer, so it must not cause a snapshot
            elif kind is AgentEnd or kind is RunFailed:
                self.ended = True
                self._take_snapshot = None  # it holds the run, which is over
                self._mark = -1
        if self._readers or self._kept is not None:
            total = self._weights[-1] + weight
            self._weights.append(total)
            self._events.append(event)
            if total > self._mark:
                self._grow()
            for reader in self._readers:
                if reader.waiter is not None:
                    reader.wake()
        else:
            self._first += 1

    async def room(self) -> None:
        while self.full:
            self._room = self._room or asyncio.Event()
            self._room.clear()
            await self._room.wait()

    def trim(self) -> None:
        """Keep a snapshot in place of the events so far. A log that has ended, is not kept or has nothing new since
        its last snapshot stays as it is."""
        if self.ended or self._kept is None or self._kept.number == self.count:
            return
        self._kept = None if self._take_snapshot is None else Snapshot.of(self.count, self._take_snapshot())
        if self._kept is not None and not self._holds:
            for reader in self._readers:
                if self._weight_behind(reader.position) > LAG:
                    reader.skip_to(self._kept)
        self._let_go()
        self._report()  # the snapshot weighs something too

    def drop(self) -> None:
        """Keep nothing for later readers from now on. Present readers keep what they have not read."""
        self._kept = None
        self._let_go()
        self._report()
        self._grown = None

    def reader(self) -> "Reader":
        """A new reader. It begins at the first event that is held, or with a snapshot of the events before, if one can
        be made."""
        missed = self._kept
        if missed is None and self._first and self._take_snapshot is not None:
            missed = Snapshot.of(self.count, self._take_snapshot())
        reader = Reader(self, self._first)
        if missed is not None and missed.number:
            reader.skip_to(missed)
        self._readers.append(reader)
        return reader

    def take(self, reader: "Reader") -> list[Event]:
        """The events that the reader has not read. All of them if they are not kept and nobody else reads, else up to
        BATCH."""
        events, weights = self._events, self._weights
        if self._kept is None and len(self._readers) == 1:
            reader.weight = weights[-1] - weights[0]
            if events:
                self._events, self._weights = [], [weights[-1]]
                reader.position = self._first = self._first + len(events)
        else:
            start = reader.position - self._first
            events = events[start : start + BATCH]
            reader.weight = weights[start + len(events)] - weights[start]
            reader.position += len(events)
            if self._kept is None or self._kept.number != self._first:
                self._let_go()
        if self._room is not None:
            self._room.set()
        return events

    def leave(self, reader: "Reader") -> None:
        if reader in self._readers:
            self._readers.remove(reader)
        self._let_go()
        if self._room is not None:
            self._room.set()

    def _weight_behind(self, position: int) -> int:
        return self._weights[-1] - self._weights[position - self._first]

    def _let_go(self) -> None:
        """Forget the events that nobody will get any more."""
        needed = self.count if self._kept is None else self._kept.number
        for reader in self._readers:
            needed = min(needed, reader.position)
        gone = needed - self._first
        if gone:
            del self._events[:gone], self._weights[:gone]
            self._first = needed
            self._report()

    def _grow(self) -> None:
        if self._kept is not None and self._weight_behind(self._kept.number) > self._most:
            self.trim()
        self._report()

    def _report(self) -> None:
        """Report by how many bytes the kept events have grown or shrunk since the last report, and set the next
        mark."""
        if self._kept is None or self.ended:
            self._mark = sys.maxsize
        else:
            self._mark = min(STEP, self._most - self._weight_behind(self._kept.number)) + self._weights[-1]
        change = self.size - self._reported
        self._reported += change
        if change and self._grown is not None:
            self._grown(change)


class Reader:
    """One reader's place in a log of this process: a Source."""

    __slots__ = ("_log", "_missed", "position", "waiter", "weight")

    def __init__(self, log: Log, position: int) -> None:
        self._log = log
        self.waiter: asyncio.Future[None] | None = None
        self._missed: Snapshot | None = None
        self.position = position
        self.weight = 0

    @property
    def count(self) -> int:
        return self._log.count

    @property
    def behind(self) -> bool:
        return self._missed is not None or self.position < self._log.count

    @property
    def at_end(self) -> bool:
        return self._log.ended and not self.behind

    def missed(self) -> Snapshot | None:
        snapshot, self._missed = self._missed, None
        return snapshot

    def skip_to(self, snapshot: Snapshot) -> None:
        """Go on behind the snapshot. It takes the place of the events up to it."""
        self._missed, self.position = snapshot, snapshot.number

    async def batch(self, enough: Callable[[], bool] | None = None) -> list[Event]:
        while True:
            events = self._log.take(self)
            if events or self._log.ended or self._missed is not None or (enough is not None and enough()):
                return events
            self.waiter = asyncio.get_running_loop().create_future()
            await self.waiter

    def wake(self) -> None:
        waiter, self.waiter = self.waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def close(self) -> None:
        self._log.leave(self)

"""A run's events between the run, which writes them, and whoever reads them.

The log holds internal events; each reader makes its own wire format of them. Since it stands between
the two, everything that is ready goes out in one write: under load the frames gather here, and when the
server is idle each leaves at once, with no timer.

Events are numbered from 1.
"""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass

from agent_core.events import OVERHEAD, AgentEnd, Event, FinalOutput, RunFailed, TextDelta

LAG = 256 * 1024
"""Bytes by which a reader may lag before the run waits for it and reads no more from upstream."""

KEPT = 8 * 1024 * 1024
"""Bytes of one run's events that are kept for later readers; beyond that a snapshot takes their place.
The answer's text, which comes once more at its end, is beside that."""

RUN = 2_500
"""What a run that is kept weighs beside its events, in bytes: its task, its log and its names, as measured."""

BATCH = 64
"""Events that a reader takes at once from a log that is kept: a replay must not hold up everybody else."""

STEP = 16 * 1024
"""Bytes by which a kept log grows before it says so."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What all events up to `number` amount to, told in other events, which are few."""

    number: int
    events: tuple[Event, ...]


class Log:
    """The events of one run that its readers have not read yet, and nothing more; with `keep` all of them,
    for readers that come later.

    - holds: the run is held up while the slowest reader lags by more than LAG
    - snapshot: tells what the events so far amount to; with it, a kept log that weighs more than `most`
      (KEPT where None) bytes is trimmed, and without it no longer kept
    - grown: called with the bytes by which what is kept grew or shrank, now and then

    It is a Sink. Where nobody reads any more and nothing is kept, events are dropped and nobody waits.
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
        self._keep = keep
        self._holds = holds
        self._take_snapshot = snapshot
        self._most = KEPT if most is None else most
        self._grown = grown
        self._events: list[Event] = []
        self._weight = 0  # of all events so far
        self._first, self._base = 0, 0  # how many events are not there any more, and what they weighed
        self._start, self._since = 0, 0  # the same of those that a later reader does not get
        self._snapshot: Snapshot | None = None  # which it gets instead
        self._snapshot_weight = 0
        self._counted = 0  # what `grown` was told in all
        self._mark = min(STEP, self._most) if keep else sys.maxsize
        self._slowest = 0  # the weight of those events that the slowest reader has read
        self._readers: list[Reader] = []
        self._room: asyncio.Event | None = None

    @property
    def full(self) -> bool:
        return self._holds and bool(self._readers) and self._weight - self._slowest > LAG

    @property
    def attended(self) -> bool:
        """Whether somebody reads."""
        return bool(self._readers)

    @property
    def count(self) -> int:
        """How many events there were, which is also the number of the last."""
        return self._first + len(self._events)

    @property
    def end(self) -> int:
        """The number of the event that comes next."""
        return self.count + 1

    @property
    def keeps(self) -> bool:
        """Whether there will be something for later readers."""
        return self._keep

    @property
    def readable(self) -> bool:
        """Whether a new reader would learn everything, if only from a snapshot."""
        return self._keep or self.whole or not self.ended

    @property
    def whole(self) -> bool:
        """Whether a new reader would get every event from the first on."""
        return (self._start if self._keep else self._first) == 0

    @property
    def size(self) -> int:
        """The bytes that are kept for later readers, with what the run itself takes."""
        return self._weight - self._base + self._snapshot_weight + RUN if self._keep else 0

    def emit(self, event: Event) -> None:
        if self.ended:
            return
        kind = event.__class__
        if kind is AgentEnd or kind is RunFailed:
            self.ended = True
            self._mark = min(self._mark, self._weight)
        if not (self._readers or self._keep):
            self._first += 1
            if self.ended:
                self._take_snapshot = None
            return
        self._events.append(event)
        if kind is TextDelta:
            self._weight += OVERHEAD + len(event.text)  # type: ignore[attr-defined]
        else:
            weight = event.weight
            self._weight += weight
            if kind is FinalOutput:
                self._most += weight  # it repeats what was said: that is no reason for a snapshot
        if self._weight > self._mark:
            self._grow()
        for reader in self._readers:
            reader.wake()

    async def room(self) -> None:
        while self.full:
            self._room = self._room or asyncio.Event()
            self._room.clear()
            await self._room.wait()

    def trim(self) -> None:
        """Keep a snapshot instead of the events so far. A reader that lags by more than LAG gets it too, unless
        the run is held up for readers; one that lags less keeps its events. A log that has ended, or is not
        kept, stays as it is."""
        if self.ended or not self._keep:
            return
        if self._take_snapshot is None:
            self._keep = False
        else:
            self._snapshot = Snapshot(self.count, self._take_snapshot())
            self._snapshot_weight = sum(event.weight for event in self._snapshot.events)
            self._start, self._since = self.count, self._weight
            for reader in self._readers:
                if not self._holds and self._weight - reader.weight > LAG:
                    reader.overtake(self._snapshot, self._weight)
        self._settle()
        self._count()

    def drop(self) -> None:
        """Keep nothing for later readers from now on; those that are there keep what they have not read."""
        self._keep = False
        self._snapshot = None
        self._settle()
        self._count()
        self._grown = None

    def reader(self) -> "Reader":
        """A new reader, which begins at the first event that is kept; where there were others before it,
        with a snapshot of them, if there can be one."""
        if self._keep:
            reader = Reader(self, self._start, self._since, self._snapshot)
        elif self._first and self._take_snapshot is not None and not self.ended:
            reader = Reader(self, self.count, self._weight, Snapshot(self.count, self._take_snapshot()))
        else:
            reader = Reader(self, self._first, self._base)
        self._readers.append(reader)
        self._slowest = min(each.weight for each in self._readers)
        return reader

    def take(self, reader: "Reader") -> list[Event]:
        """The events that the reader has not read, up to BATCH where the log is kept or has several readers;
        what everybody has read is forgotten, unless it is kept."""
        alone = len(self._readers) == 1
        if alone and not self._keep:
            events, self._events = self._events, []
            self._first += len(events)
            reader.position = self._first
            reader.weight = self._slowest = self._base = self._weight
        else:
            start = reader.position - self._first
            events = self._events[start : start + BATCH]
            reader.position += len(events)
            if start + len(events) == len(self._events):
                reader.weight = self._weight
            else:
                reader.weight += sum(event.weight for event in events)
            if alone and self._start == self._first:
                self._slowest = reader.weight
            else:
                self._settle()
        if self._room is not None:
            self._room.set()
        return events

    def leave(self, reader: "Reader") -> None:
        if reader in self._readers:
            self._readers.remove(reader)
        self._settle()
        if self._room is not None:
            self._room.set()

    def _settle(self) -> None:
        """Forget what everybody has read, unless it is kept."""
        self._slowest = min([each.weight for each in self._readers], default=self._weight)
        if self._keep and self._start == self._first:
            return
        place = min(((each.position, each.weight) for each in self._readers), default=(self.count, self._weight))
        if self._keep:
            place = min(place, (self._start, self._since))
        del self._events[: place[0] - self._first]
        self._first, self._base = place

    def _grow(self) -> None:
        if self._weight - self._since > self._most:
            self.trim()
        self._count()

    def _count(self) -> None:
        self._mark = min(self._weight + STEP, self._since + self._most) if self._keep else sys.maxsize
        if self.ended:
            self._take_snapshot = None  # it holds the run, which is over
        change = self.size - self._counted
        self._counted += change
        if change and self._grown is not None:
            self._grown(change)


class Reader:
    """One reader's place in a log: `position` is the number of the last event that it has."""

    __slots__ = ("_log", "_missed", "_waiter", "position", "weight")

    def __init__(self, log: Log, position: int, weight: int = 0, missed: Snapshot | None = None) -> None:
        self._log = log
        self._waiter: asyncio.Future[None] | None = None
        self._missed = missed
        self.position = position
        self.weight = weight

    @property
    def at_end(self) -> bool:
        """Whether nothing more will come."""
        return self._log.ended and not self.behind

    @property
    def behind(self) -> bool:
        """Whether something is ready."""
        return self._missed is not None or self.position < self._log.count

    def missed(self) -> Snapshot | None:
        """The snapshot of what this reader will not get, told once; it comes before the events of the last batch."""
        snapshot, self._missed = self._missed, None
        return snapshot

    def overtake(self, snapshot: Snapshot, weight: int) -> None:
        self._missed = snapshot
        self.position, self.weight = snapshot.number, weight

    async def batch(self, enough: Callable[[], bool] | None = None) -> list[Event]:
        """The events that are ready, waiting for at least one; empty at the end of the log, where something
        was missed, and where nothing is ready and it was enough when `wake` was called."""
        while True:
            events = self._log.take(self)
            if events or self._log.ended or self._missed is not None or (enough is not None and enough()):
                return events
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        self._log.leave(self)

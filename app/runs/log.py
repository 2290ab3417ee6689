"""A run's events between the run, which writes them, and whoever reads them.

The log holds internal events; each reader makes its own wire format of them. Since it stands between
the two, everything that is ready goes out in one write: under load the frames gather here, and when the
server is idle each leaves at once, with no timer.
"""

import asyncio
from collections.abc import Callable

from agent_core.events import AgentEnd, Custom, Event, RunFailed, TextDelta, ThinkingDelta, ToolCallDelta, ToolResultEnd

LAG = 256 * 1024
"""Bytes by which a reader may lag before the run waits for it and reads no more from upstream."""

KEPT = 8 * 1024 * 1024
"""Bytes of one run that are kept for later readers; a longer run cannot be read again."""

OVERHEAD = 96
"""What an event weighs beside its text, in bytes; only the order of magnitude counts."""


class Log:
    """The events of one run that its readers have not read yet, and nothing more; with `keep` all of them,
    up to KEPT bytes, for readers that come later.

    It is a Sink: the run is held up while the slowest reader lags by more than LAG. Where nobody reads
    any more, events are dropped and nobody waits.
    """

    def __init__(self, *, keep: bool = False) -> None:
        self.ended = False
        self._keep = keep
        self._events: list[Event] = []
        self._first = 0  # the number of the first event that is kept
        self._weight = 0  # of all events so far
        self._slowest = 0  # of those that the slowest reader has read
        self._readers: list[Reader] = []
        self._room: asyncio.Event | None = None

    @property
    def full(self) -> bool:
        return bool(self._readers) and self._weight - self._slowest > LAG

    @property
    def kept(self) -> int:
        """How many events are kept because somebody has not read them."""
        return len(self._events)

    def emit(self, event: Event) -> None:
        if self.ended or not (self._readers or self._keep):
            return
        self._events.append(event)
        kind = event.__class__
        self._weight += OVERHEAD + len(event.text) if kind is TextDelta else _weight(event)  # type: ignore[attr-defined]
        if kind is AgentEnd or kind is RunFailed:
            self.ended = True
        if self._keep and self._weight > KEPT:
            self._keep = False
            self._trim()
        for reader in self._readers:
            reader.wake()

    async def room(self) -> None:
        while self.full:
            self._room = self._room or asyncio.Event()
            self._room.clear()
            await self._room.wait()

    @property
    def end(self) -> int:
        """The number of the event that comes next."""
        return self._first + len(self._events)

    @property
    def whole(self) -> bool:
        """Whether a new reader would get every event from the first on."""
        return self._first == 0

    def _trim(self) -> None:
        """Forget what everybody has read, unless it is kept."""
        self._slowest = min((each.weight for each in self._readers), default=self._weight)
        if not self._keep:
            end = self._first + len(self._events)
            first = min((each.position for each in self._readers), default=end)
            del self._events[: first - self._first]
            self._first = first

    def reader(self) -> "Reader":
        """A new reader, which begins at the first event that is kept."""
        reader = Reader(self, self._first)
        self._readers.append(reader)
        return reader

    def take(self, reader: "Reader") -> list[Event]:
        """The events that the reader has not read; what everybody has read is forgotten."""
        if len(self._readers) == 1 and not self._keep:
            events, self._events = self._events, []
            self._first += len(events)
            reader.position = self._first
            reader.weight = self._slowest = self._weight
        else:
            events = self._events[reader.position - self._first :]
            reader.position += len(events)
            reader.weight = self._weight
            self._trim()
        if self._room is not None:
            self._room.set()
        return events

    def leave(self, reader: "Reader") -> None:
        if reader in self._readers:
            self._readers.remove(reader)
        self._trim()
        if self._room is not None:
            self._room.set()


class Reader:
    """One reader's place in a log."""

    __slots__ = ("_log", "_waiter", "position", "weight")

    def __init__(self, log: Log, position: int) -> None:
        self._log = log
        self._waiter: asyncio.Future[None] | None = None
        self.position = position
        self.weight = 0

    @property
    def at_end(self) -> bool:
        """Whether nothing more will come."""
        return self._log.ended and self.position == self._log.end

    async def batch(self, enough: Callable[[], bool] | None = None) -> list[Event]:
        """All events that are ready, waiting for at least one; empty at the end of the log, and where
        nothing is ready and it was enough when `wake` was called."""
        while True:
            events = self._log.take(self)
            if events or self._log.ended or (enough is not None and enough()):
                return events
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        self._log.leave(self)


def _weight(event: Event) -> int:
    if isinstance(event, ThinkingDelta | ToolCallDelta):
        return OVERHEAD + len(event.text)
    if isinstance(event, ToolResultEnd):
        return OVERHEAD + len(event.content)
    if isinstance(event, Custom):
        return OVERHEAD + event.size
    return OVERHEAD

"""The log against the simplest model of it: a list of all events, and readers at positions in it."""

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agent_core.events import AgentEnd, Event, FinalOutput, TextDelta
from app.runs.log import BATCH, LAG, RUN, STEP, Log, Reader
from app.runs.source import Source

MOST = 2 * LAG

SIZES = st.sampled_from([0, 10, 1_000, STEP, LAG // 2, LAG])

END = AgentEnd(run_id="r", status="completed")


def weight_of(events: Sequence[Event]) -> int:
    return sum(event.weight for event in events)


def told(number: int) -> tuple[Event, ...]:
    """The snapshot of the first events: it names their number, and weighs something."""
    return (TextDelta(run_id="r", reply_id="m", text=f"the first {number}"),)


def now(source: Source) -> list[Event]:
    """The batch of a source that does not wait."""
    try:
        source.batch(lambda: True).send(None)
    except StopIteration as done:
        found: list[Event] = done.value
        return found
    raise AssertionError("the reader waits")


class LogAndModel(RuleBasedStateMachine):
    """What the log must do is written in terms of `events`, `places`, `kept` and `ended` alone."""

    log: Log

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []
        self.places: dict[Reader, int] = {}  # the position of each reader
        self.skipped: dict[Reader, int] = {}  # the position that it was taken to, while it was not told
        self.kept: int | None = None  # the position after which a later reader begins
        self.most = MOST
        self.ended = False
        self.reported = 0

    @initialize(keep=st.booleans(), holds=st.booleans(), can_tell=st.booleans())
    def begin(self, keep: bool, holds: bool, can_tell: bool) -> None:
        self.kept = 0 if keep else None
        self.holds, self.can_tell = holds, can_tell
        snapshot = (lambda: told(len(self.events))) if can_tell else None
        self.log = Log(keep=keep, holds=holds, snapshot=snapshot, most=MOST, grown=self.grown)

    def grown(self, change: int) -> None:
        self.reported += change

    def since(self, position: int) -> int:
        return weight_of(self.events[position:])

    def write(self, event: Event) -> None:
        if self.ended:
            self.log.emit(event)
            return
        self.events.append(event)
        self.ended = isinstance(event, AgentEnd)
        if isinstance(event, FinalOutput):
            self.most += event.weight
        self.log.emit(event)
        if self.kept is not None and not self.ended and self.since(self.kept) > self.most:
            self.trimmed()

    def trimmed(self) -> None:
        self.kept = len(self.events) if self.can_tell else None
        if self.kept is not None and not self.holds:
            for reader, place in self.places.items():
                if self.since(place) > LAG:
                    self.places[reader] = self.skipped[reader] = self.kept

    @rule(size=SIZES, times=st.sampled_from([1, 2, BATCH, 3 * BATCH]))
    def emit(self, size: int, times: int) -> None:
        for _ in range(times if size < STEP else 1):
            self.write(TextDelta(run_id="r", reply_id="m", text="x" * size))

    @rule(size=SIZES)
    def answer(self, size: int) -> None:
        self.write(FinalOutput(run_id="r", text="x" * size))

    @rule()
    def end(self) -> None:
        self.write(END)

    @rule()
    @precondition(lambda self: len(self.places) < 4)
    def join(self) -> None:
        reader = self.log.reader()
        missed = self.kept
        if missed is None:
            missed = 0
            if self.first() and self.can_tell and not self.ended:
                missed = len(self.events)
        self.places[reader] = missed or self.first()
        if missed:
            self.skipped[reader] = missed

    @rule(data=st.data())
    @precondition(lambda self: self.places)
    def read(self, data: st.DataObject) -> None:
        reader = data.draw(st.sampled_from(list(self.places)))
        place, wanted = self.places[reader], self.events[self.places[reader] :]
        if self.kept is not None or len(self.places) > 1:
            wanted = wanted[:BATCH]
        assert reader.behind == (reader in self.skipped or bool(wanted))
        assert reader.at_end == (self.ended and not reader.behind)
        assert now(reader) == wanted
        assert reader.weight == weight_of(wanted)
        self.places[reader] = place + len(wanted)
        missed = reader.missed()
        expected = self.skipped.pop(reader, None)
        assert (missed and (missed.number, missed.events)) == (expected and (expected, told(expected)))
        assert reader.missed() is None

    @rule(data=st.data())
    @precondition(lambda self: self.places)
    def leave(self, data: st.DataObject) -> None:
        reader = data.draw(st.sampled_from(list(self.places)))
        del self.places[reader]
        self.skipped.pop(reader, None)
        reader.close()
        reader.close()

    @rule()
    def trim(self) -> None:
        if self.kept not in (None, len(self.events)) and not self.ended:
            self.trimmed()
        self.log.trim()

    @rule()
    def drop(self) -> None:
        self.kept = None
        self.log.drop()
        assert self.reported == 0

    def first(self) -> int:
        """The number of events that nobody will get any more."""
        places = list(self.places.values()) + ([] if self.kept is None else [self.kept])
        return min(places, default=len(self.events))

    @invariant()
    def the_log_says_what_the_model_says(self) -> None:
        log, first, total = self.log, self.first(), len(self.events)
        assert (log.count, log.next_number, log.ended) == (total, total + 1, self.ended)
        assert (log.attended, log.keeps) == (bool(self.places), self.kept is not None)
        assert {reader: reader.position for reader in self.places} == self.places
        assert log.whole == ((first if self.kept is None else self.kept) == 0)
        assert log.readable == (log.keeps or log.whole or not self.ended)
        assert log.full == (self.holds and any(self.since(place) > LAG for place in self.places.values()))
        assert log._events == self.events[first:], "nothing is in memory that nobody is to get"

    @invariant()
    def what_is_kept_is_bounded_and_reported(self) -> None:
        if self.kept is None:
            assert self.log.size == 0
        else:
            snapshot = weight_of(told(self.kept)) if self.kept else 0
            assert self.log.size == self.since(self.first()) + snapshot + RUN
            assert self.ended or self.since(self.kept) <= self.most
            assert abs(self.log.size - self.reported) <= STEP + RUN


TestTheLogAndItsModel = LogAndModel.TestCase
TestTheLogAndItsModel.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)

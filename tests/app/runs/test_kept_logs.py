"""Logs that are kept: trimmed to a snapshot when they grow too long, and read on from there."""

import asyncio

from agent_core.events import OVERHEAD, AgentEnd, AgentStart, Event, TextDelta, TextStart
from app.runs.log import BATCH, LAG, RUN, STEP, Log
from app.runs.source import Snapshot
from tests.app.runs.test_log import END, delta, there

START = AgentStart(run_id="r", agent="a")
EVENT = OVERHEAD + 1_000


class Told:
    """A run that tells what it has said so far, as the real one does."""

    def __init__(self, *, holds: bool = False, most: int = 10 * EVENT) -> None:
        self.said: list[str] = []
        self.snapshots = 0
        self.weight = 0
        self.log = Log(keep=True, holds=holds, snapshot=self.snapshot, most=most, grown=self.grown)

    def grown(self, change: int) -> None:
        self.weight += change

    def snapshot(self) -> tuple[Event, ...]:
        self.snapshots += 1
        return (START, TextStart(run_id="r", reply_id="m"), delta("".join(self.said)))

    def say(self, text: str) -> None:
        self.said.append(text)
        self.log.emit(delta(text))


async def test_a_log_that_grew_too_long_is_a_snapshot_and_what_came_after_it() -> None:
    told = Told()
    for number in range(15):
        told.say(f"{number:04}" * 250)
    assert told.snapshots == 1
    reader = told.log.reader()
    snapshot = reader.missed()
    assert snapshot is not None
    rest = [event.text for event in await reader.batch() if isinstance(event, TextDelta)]
    told_before = snapshot.events[-1]
    assert isinstance(told_before, TextDelta)
    assert told_before.text + "".join(rest) == "".join(told.said)
    assert snapshot.number == 11
    assert len(rest) == 4
    assert not told.log.whole
    assert reader.missed() is None, "it is told once"


async def test_a_log_is_trimmed_again_and_again() -> None:
    told = Told()
    for number in range(200):
        told.say(f"{number:04}" * 250)
        reader = told.log.reader()
        snapshot = reader.missed()
        before = "" if snapshot is None else snapshot.events[-1].text  # type: ignore[attr-defined]
        batch = await reader.batch() if reader.behind else []
        events = [event.text for event in batch if isinstance(event, TextDelta)]
        assert before + "".join(events) == "".join(told.said)
        reader.close()
        assert there(told.log) <= 11
    assert told.snapshots == 200 // 11


async def test_a_reader_that_lags_a_little_keeps_what_it_has_not_read() -> None:
    told = Told()
    reader = told.log.reader()
    for _ in range(3):
        told.say("a" * 1_000)
    assert len(await reader.batch()) == 3
    for _ in range(9):
        told.say("b" * 1_000)
    assert told.snapshots == 1
    assert len(await reader.batch()) == 9
    assert reader.missed() is None
    assert there(told.log) == 1, "what everybody has read of the time before the snapshot is forgotten"


async def test_a_reader_that_lags_far_is_overtaken_where_the_run_goes_on() -> None:
    told = Told(most=2 * LAG)
    reader = told.log.reader()
    await_end = asyncio.create_task(reader.batch())
    await asyncio.sleep(0)
    while told.snapshots < 1:
        told.say("x" * 1_000)
    assert await await_end == [], "nothing came after the snapshot yet"
    snapshot = reader.missed()
    assert snapshot is not None
    assert snapshot.number == reader.position == told.log.count
    told.say("y")
    assert [event.text for event in await reader.batch() if isinstance(event, TextDelta)] == ["y"]
    assert not told.log.full


async def test_where_readers_hold_the_run_up_none_is_overtaken() -> None:
    told = Told(holds=True, most=2 * LAG)
    slow, fast = told.log.reader(), told.log.reader()
    seen: list[Event] = []
    while told.snapshots < 1:
        told.say("x" * 1_000)
        if told.log.full:
            seen += await slow.batch()
        while fast.behind:
            await fast.batch()
    while slow.behind:
        seen += await slow.batch()
    assert slow.missed() is None
    assert len(seen) == len(told.said)
    assert there(told.log) <= 1 + BATCH


async def test_the_end_of_a_run_is_never_trimmed_away() -> None:
    told = Told(most=EVENT)
    told.say("x" * 1_000)
    told.log.emit(AgentEnd(run_id="r", status="completed"))
    reader = told.log.reader()
    assert isinstance((await reader.batch())[-1], AgentEnd)
    told.log.trim()
    assert isinstance((await told.log.reader().batch())[-1], AgentEnd)


async def test_a_replay_comes_in_small_batches_and_its_lag_shrinks_with_each() -> None:
    log = Log(keep=True)
    for number in range(10 * BATCH):
        log.emit(delta(f"{number:05}" * 200))
    reader = log.reader()
    assert log.full, "whoever replays a long log holds the run up until it has caught up"
    seen: list[Event] = []
    while reader.behind:
        batch = await reader.batch()
        assert len(batch) <= BATCH
        seen += batch
        assert reader.weight == sum(event.weight for event in batch)
    assert len(seen) == 10 * BATCH
    assert not log.full


async def test_a_log_says_how_much_it_keeps() -> None:
    told = Told(most=100 * EVENT)
    while told.weight == 0:
        told.say("x" * 1_000)
    assert told.weight == told.log.size >= STEP
    for _ in range(100):
        told.say("x" * 1_000)
    assert abs(told.weight - told.log.size) <= STEP
    told.log.emit(END)
    assert told.weight == told.log.size > 0
    told.log.drop()
    assert (told.weight, told.log.size, there(told.log)) == (0, 0, 0)


async def test_a_kept_log_weighs_more_than_its_events_and_any_other_nothing() -> None:
    told = Told()
    told.log.emit(END)
    assert told.weight == told.log.size == RUN + END.weight
    told.log.drop()
    assert told.weight == 0
    left = Log()
    reader = left.reader()
    left.emit(END)
    assert left.size == 0
    reader.close()


async def test_a_dropped_log_leaves_to_its_readers_what_they_have_not_read() -> None:
    log = Log(keep=True)
    reader = log.reader()
    log.emit(delta("a"))
    log.emit(END)
    log.drop()
    assert not log.readable or log.whole
    assert await reader.batch() == [delta("a"), END]
    assert await reader.batch() == []
    reader.close()
    assert there(log) == 0
    assert not log.readable


async def test_events_are_numbered_also_where_nobody_reads() -> None:
    log = Log()
    assert (log.count, log.next_number, log.attended) == (0, 1, False)
    log.emit(START)
    log.emit(delta("a"))
    assert (log.count, log.next_number, there(log)) == (2, 3, 0)
    reader = log.reader()
    assert log.attended
    log.emit(END)
    assert await reader.batch() == [END]
    assert log.count == 3


async def test_a_log_that_is_not_kept_begins_with_a_snapshot_for_whoever_comes_later() -> None:
    log = Log(snapshot=lambda: (START, delta("so far")))
    first = log.reader()
    log.emit(START)
    log.emit(delta("so"))
    await first.batch()
    log.emit(delta(" far"))
    later = log.reader()
    assert later.missed() == Snapshot.of(3, (START, delta("so far")))
    log.emit(END)
    assert await later.batch() == [END]
    assert await first.batch() == [delta(" far"), END]


async def test_a_log_that_has_ended_lets_go_of_its_run() -> None:
    for log in (Log(snapshot=lambda: ()), Log(keep=True, snapshot=lambda: ())):
        log.emit(END)
        assert log._take_snapshot is None

"""The log: everything that is ready at once, nothing kept that was read, and no run ahead of its reader."""

import asyncio

import pytest

from agent_core.events import AgentEnd, AgentStart, Event, TextDelta
from app.runs.log import LAG, Log


def delta(text: str) -> TextDelta:
    return TextDelta(run_id="r", reply_id="m", text=text)


def fill(log: Log) -> None:
    while not log.full:
        log.emit(delta("x" * 1_000))


def there(log: Log) -> int:
    """How many events the log has in memory."""
    return len(log._events)


END = AgentEnd(run_id="r", status="completed")


async def test_a_reader_gets_all_that_is_ready_in_one_batch() -> None:
    log = Log()
    reader = log.reader()
    for text in "abc":
        log.emit(delta(text))
    assert [event.text for event in await reader.batch() if isinstance(event, TextDelta)] == ["a", "b", "c"]


async def test_a_reader_that_waits_is_woken_and_the_end_is_an_empty_batch() -> None:
    log = Log()
    reader = log.reader()
    waiting = asyncio.create_task(reader.batch())
    await asyncio.sleep(0)
    log.emit(AgentStart(run_id="r", agent="a"))
    assert len(await waiting) == 1
    log.emit(END)
    assert await reader.batch() == [END]
    assert await reader.batch() == []


async def test_nothing_is_taken_after_the_terminal_event() -> None:
    log = Log()
    reader = log.reader()
    log.emit(END)
    log.emit(delta("late"))
    assert await reader.batch() == [END]


async def test_each_reader_has_its_own_place() -> None:
    log = Log()
    fast, slow = log.reader(), log.reader()
    log.emit(delta("a"))
    assert len(await fast.batch()) == 1
    log.emit(delta("b"))
    assert len(await fast.batch()) == 1
    assert len(await slow.batch()) == 2


async def test_a_run_waits_for_a_reader_that_lags_and_goes_on_when_it_reads() -> None:
    log = Log()
    reader = log.reader()
    fill(log)
    assert sum(len(e.text) for e in await reader.batch() if isinstance(e, TextDelta)) <= LAG + 2_000
    fill(log)
    waiting = asyncio.create_task(log.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    await reader.batch()
    await waiting


async def test_a_reader_that_leaves_holds_nobody_up() -> None:
    log = Log()
    reader = log.reader()
    fill(log)
    waiting = asyncio.create_task(log.room())
    await asyncio.sleep(0)
    reader.close()
    await waiting
    assert not log.full


async def test_what_everybody_has_read_is_not_kept() -> None:
    log = Log()
    reader = log.reader()
    seen: list[Event] = []
    for number in range(1_000):
        log.emit(delta(str(number)))
        seen += await reader.batch()
    assert len(seen) == 1_000
    assert there(log) == 0


async def test_a_kept_log_is_read_again_from_the_first_event_on() -> None:
    log = Log(keep=True)
    first = log.reader()
    log.emit(delta("a"))
    assert len(await first.batch()) == 1
    log.emit(END)
    assert await first.batch() == [END]
    first.close()
    assert log.whole
    again = log.reader()
    assert await again.batch() == [delta("a"), END]
    assert await again.batch() == []


async def test_a_kept_log_takes_what_nobody_reads_and_holds_nobody_up() -> None:
    log = Log(keep=True)
    log.emit(delta("x" * 2 * LAG))
    assert not log.full
    await log.room()
    log.emit(END)
    assert len(await log.reader().batch()) == 2


async def test_without_keep_what_nobody_reads_is_dropped() -> None:
    log = Log()
    log.emit(delta("a"))
    assert there(log) == 0


async def test_a_reader_that_comes_late_gets_first_what_it_missed_and_then_what_comes() -> None:
    log = Log(keep=True)
    early = log.reader()
    log.emit(delta("a"))
    await early.batch()
    late = log.reader()
    log.emit(delta("b"))
    assert await late.batch() == [delta("a"), delta("b")]
    assert await early.batch() == [delta("b")]
    log.emit(END)
    assert await late.batch() == await early.batch() == [END]


async def test_a_log_that_grew_too_long_gives_every_reader_the_rest_and_nobody_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.runs.log.KEPT", 5_000)
    log = Log(keep=True)
    fast, slow = log.reader(), log.reader()
    log.emit(delta("a" * 3_000))
    await fast.batch()
    log.emit(delta("b" * 3_000))
    assert there(log) == 2, "the slow reader has not read the first event"
    assert await slow.batch() == [delta("a" * 3_000), delta("b" * 3_000)]
    assert not log.whole
    log.emit(END)
    assert await fast.batch() == [delta("b" * 3_000), END]
    assert await slow.batch() == [END]
    assert there(log) == 0


async def test_a_kept_log_without_readers_that_grew_too_long_is_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.runs.log.KEPT", 5_000)
    log = Log(keep=True)
    log.emit(delta("a" * 6_000))
    assert there(log) == 0
    assert not log.whole


async def test_closing_a_reader_twice_changes_nothing() -> None:
    log = Log(keep=True)
    reader, other = log.reader(), log.reader()
    log.emit(delta("a"))
    reader.close()
    reader.close()
    assert await other.batch() == [delta("a")]

"""The log: everything that is ready at once, nothing kept that was read, and no run ahead of its reader."""

import asyncio

from agent_core.events import AgentEnd, AgentStart, Event, TextDelta
from app.runs.log import LAG, Log


def delta(text: str) -> TextDelta:
    return TextDelta(run_id="r", reply_id="m", text=text)


def fill(log: Log) -> None:
    while not log.full:
        log.emit(delta("x" * 1_000))


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
    assert log.kept == 0

"""The threads of synchronous tools: their number, their order, and threads that hang."""

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from typing import Any

import pytest

from agent_core import Agent, Engine, ToolContext, tool
from agent_core.threads import MOST_THREADS, SESSION_THREADS, THREADS, Threads
from tests.agent_core.react.agents import results
from tests.app.doubles import until
from tests.doubles import ScriptedModel, calls, says


class Gate:
    """What calls hang at until it is opened."""

    def __init__(self) -> None:
        self.inside = threading.Semaphore(0)
        self.opened = threading.Event()

    def hang(self) -> str:
        self.inside.release()
        assert self.opened.wait(30)
        return "back"

    def entered(self, count: int) -> None:
        """Return once so many calls more hang here."""
        for _ in range(count):
            assert self.inside.acquire(timeout=30)

    @property
    def is_empty(self) -> bool:
        """Whether nobody has come in that was not counted."""
        return not self.inside.acquire(blocking=False)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


def submit(threads: Threads, session: str, work: Callable[[], Any], count: int = 1) -> list[Future[Any]]:
    return [threads.of(session).of("work").submit(work) for _ in range(count)]


def hang(threads: Threads, gate: Gate, count: int) -> list[Future[Any]]:
    """So many calls that hang and that nobody waits for any more. They are spread over as many sessions as needed."""
    hung = [submit(threads, f"hangs {n // SESSION_THREADS}", gate.hang)[0] for n in range(count)]
    gate.entered(count)
    for call in hung:
        assert not call.cancel()
    return hung


def test_as_many_calls_run_at_once_as_there_are_threads_and_the_others_wait(gate: Gate) -> None:
    threads = Threads()
    calls = [submit(threads, f"s{n}", gate.hang)[0] for n in range(THREADS + 1)]
    gate.entered(THREADS)
    assert gate.is_empty
    assert threads.size == THREADS
    gate.opened.set()
    assert [call.result(30) for call in calls] == ["back"] * (THREADS + 1)
    assert threads.size <= THREADS


def test_a_session_has_a_few_at_once_and_leaves_the_others_to_the_others(gate: Gate) -> None:
    threads = Threads()
    first = submit(threads, "one", gate.hang, SESSION_THREADS + 1)
    gate.entered(SESSION_THREADS)
    assert submit(threads, "two", lambda: "done")[0].result(30) == "done"
    assert gate.is_empty
    gate.opened.set()
    assert [call.result(30) for call in first] == ["back"] * len(first)


def test_sessions_that_wait_take_turns(gate: Gate) -> None:
    threads = Threads(usual=1)
    [held] = submit(threads, "zero", gate.hang)
    gate.entered(1)
    order: list[str] = []
    waiting = [
        *submit(threads, "one", lambda: order.append("one"), 3),
        *submit(threads, "two", lambda: order.append("two"), 2),
    ]
    gate.opened.set()
    wait([held, *waiting], timeout=30)
    assert order == ["one", "two", "one", "two", "one"]


def test_calls_that_hang_and_nobody_waits_for_do_not_stop_the_others(gate: Gate) -> None:
    threads = Threads()
    hang(threads, gate, THREADS)
    assert threads.hanging == THREADS
    others = [submit(threads, f"s{n}", lambda: "done")[0] for n in range(THREADS)]
    assert [call.result(30) for call in others] == ["done"] * THREADS


def test_there_is_an_end_to_the_threads_that_hang(gate: Gate) -> None:
    threads = Threads(usual=2, most=5)
    for _ in range(2):
        hang(threads, gate, 2)
    [last] = submit(threads, "last", gate.hang)
    gate.entered(1)
    [too_many] = submit(threads, "more", lambda: "done")
    assert threads.size == 5
    assert not last.cancel()
    assert too_many.cancel(), "it waits still"
    [queued] = submit(threads, "more", lambda: "done")
    gate.opened.set()
    assert queued.result(30) == "done"
    assert MOST_THREADS == 256


def test_threads_that_come_back_are_no_more_than_before_and_end_when_they_are_idle(gate: Gate) -> None:
    threads = Threads(usual=4, idle=0.01)
    hung = [*hang(threads, gate, 4), *hang(threads, gate, 4)]
    assert threads.size == 8
    gate.opened.set()
    wait(hung, timeout=30)
    quiet = threading.Event()
    for _ in range(1000):
        if threads.size == 0:
            break
        quiet.wait(0.01)
    assert (threads.size, threads.hanging) == (0, 0)
    assert submit(threads, "s", lambda: "again")[0].result(30) == "again"


def test_of_threads_that_come_back_only_the_usual_number_waits_for_more(gate: Gate) -> None:
    threads = Threads(usual=2)
    hung = [*hang(threads, gate, 2), *hang(threads, gate, 2)]
    gate.opened.set()
    wait(hung, timeout=30)
    quiet = threading.Event()
    while threads.hanging or threads.size > 2:
        assert not quiet.wait(0.001)
    assert threads.size == 2


def test_a_call_that_hangs_counts_for_its_session_still(gate: Gate) -> None:
    threads = Threads()
    for call in submit(threads, "s", gate.hang, SESSION_THREADS):
        gate.entered(1)
        assert not call.cancel()
    [waits] = submit(threads, "s", lambda: "done")
    assert submit(threads, "other", lambda: "done")[0].result(30) == "done"
    assert waits.cancel()


def test_a_call_that_is_cancelled_while_it_waits_is_forgotten_and_never_run(gate: Gate) -> None:
    threads = Threads(usual=1)
    submit(threads, "s", gate.hang)
    gate.entered(1)
    ran: list[str] = []
    waiting = submit(threads, "s", lambda: ran.append("ran"), 100)
    assert all(call.cancel() for call in waiting)
    assert all(call.cancel() for call in waiting), "twice is as good"
    assert not threads._waiting
    gate.opened.set()
    assert submit(threads, "s", lambda: "next")[0].result(30) == "next"
    assert ran == []


def test_what_a_call_raises_is_its_result_and_its_thread_goes_on() -> None:
    threads = Threads(usual=1)

    def leave() -> None:
        sys.exit(3)

    [call] = submit(threads, "s", leave)
    assert isinstance(call.exception(30), SystemExit)
    assert submit(threads, "s", lambda: "next")[0].result(30) == "next"


def test_when_they_are_closed_nothing_begins_and_nobody_waits_for_what_hangs(gate: Gate) -> None:
    threads = Threads(usual=1)
    [hangs] = submit(threads, "s", gate.hang)
    gate.entered(1)
    [waits] = submit(threads, "s", lambda: "done")
    threads.close()
    assert waits.cancelled()
    assert hangs.running()
    with pytest.raises(RuntimeError, match="closed"):
        submit(threads, "s", lambda: "done")
    gate.opened.set()
    assert hangs.result(30) == "back"


def test_a_process_ends_though_a_tool_hangs() -> None:
    code = """
import asyncio, threading
from agent_core import Agent, Engine, tool
from tests.doubles import ScriptedModel, calls, says

@tool(timeout=0.05)
def hang() -> str:
    "Hangs."
    threading.Event().wait()
    return ""

async def main():
    async with Engine() as engine:
        agent = Agent("a", ScriptedModel([calls(("hang", "")), says("done")]), tools=[hang])
        print((await engine.call(agent, "go", user_id="u", session_id="s")).message.text)

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "done\n"


class Desk:
    """An agent whose tools hang, and one whose tool does not."""

    def __init__(self, gate: Gate, *, timeout: float = 0.05) -> None:
        @tool(timeout=timeout)
        def hang(n: int = 0) -> str:
            """Hangs."""
            return gate.hang()

        @tool
        def look(n: int = 0) -> str:
            """Looks."""
            return f"look {n}"

        self.engine = Engine()
        self.tools = [hang, look]

    async def ask(self, user: str, session: str, *asked: tuple[str, str]) -> list[tuple[str, str]]:
        model = ScriptedModel([calls(*asked), says("done")])
        agent = Agent("a", model, tools=self.tools, parallel_tool_calls=True, max_parallel_tool_calls=16)
        events = [each async for each in self.engine.stream_events(agent, "go", user_id=user, session_id=session)]
        return results(events)


async def test_tools_of_one_user_that_hang_do_not_stop_another_s_and_the_log_names_them(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(gate)
    eight = [("hang", f'{{"n":{n}}}') for n in range(8)]
    for told in await asyncio.gather(*(desk.ask("ann", f"s{n}", *eight) for n in range(8))):
        assert {status for status, _ in told} <= {"timed_out", "not_run"}
    assert desk.engine._runner._admission._threads.hanging >= THREADS
    assert await desk.ask("bob", "s", ("look", '{"n":1}')) == [("ok", "look 1")]
    warned = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert warned
    assert all(each.startswith("tool hang ran out of its time and still occupies its thread") for each in warned)


async def test_nine_calls_of_a_session_run_eight_at_a_time(gate: Gate) -> None:
    desk = Desk(gate, timeout=30)
    asked = asyncio.ensure_future(desk.ask("ann", "s", *(("hang", f'{{"n":{n}}}') for n in range(9))))
    await asyncio.to_thread(gate.entered, 8)
    assert gate.is_empty
    assert await desk.ask("ann", "other", ("look", "")) == [("ok", "look 0")]
    gate.opened.set()
    assert await asked == [("ok", "back")] * 9
    gate.entered(1)


async def test_a_call_that_found_no_thread_in_its_time_was_not_run_and_is_no_warning(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk(gate, timeout=30)
    asked = asyncio.ensure_future(desk.ask("ann", "s", *(("hang", f'{{"n":{n}}}') for n in range(8))))
    await asyncio.to_thread(gate.entered, 8)

    @tool(timeout=0.01)
    def late(n: int) -> str:
        """Comes late."""
        raise AssertionError

    [held] = desk.engine._runner.under_way(desk.engine.session("ann", "s").key)
    assert late.spec.name not in held.lane.tools
    threads = held.lane.scope.threads
    context = ToolContext(agent="a", user_id="ann", session_id="s", run_id="r", call_id="c")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(late.run({"n": 1}, context, threads.of("late")), 0.01)
    assert context.queued.is_set()
    gate.opened.set()
    assert await asked == [("ok", "back")] * 8
    await until(lambda: desk.engine._runner._admission._threads.hanging == 0)
    assert not caplog.records


async def test_a_stop_frees_its_thread_for_the_count_of_those_that_are_used(gate: Gate) -> None:
    desk = Desk(gate, timeout=30)
    asked = asyncio.ensure_future(desk.ask("ann", "s", ("hang", "")))
    await asyncio.to_thread(gate.entered, 1)
    assert await desk.engine.interrupt(user_id="ann", session_id="s")
    assert [status for status, _ in await asked] == ["interrupted"]
    assert desk.engine._runner._admission._threads.hanging == 1
    gate.opened.set()
    await until(lambda: desk.engine._runner._admission._threads.hanging == 0)


async def test_closing_an_engine_does_not_wait_for_what_hangs(gate: Gate) -> None:
    desk = Desk(gate)
    await desk.ask("ann", "s", ("hang", ""))
    async with asyncio.timeout(10):
        await desk.engine.aclose()
    assert desk.engine._runner._admission._threads.hanging == 1


async def test_a_user_s_own_tool_gets_an_executor(gate: Gate) -> None:
    threads = Threads()
    loop = asyncio.get_running_loop()
    assert await loop.run_in_executor(threads.of("s").of("own"), "-".join, ["a", "b"]) == "a-b"
    with threads.of("s").of("own") as executor:
        assert list(executor.map(str, [1, 2])) == ["1", "2"]

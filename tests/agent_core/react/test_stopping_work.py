"""Stopping: the child is cancelled, the run's own task never is."""

import asyncio
import contextlib

import pytest

from agent_core.react.stopping import SelfCancelled, Stop, Stopped


async def forever(started: asyncio.Event) -> None:
    started.set()
    await asyncio.Event().wait()


async def test_a_stop_cancels_the_child_and_not_the_task_that_waits_for_it() -> None:
    stop, started = Stop(), asyncio.Event()

    async def run() -> str:
        try:
            await stop.guard(forever(started))
        except Stopped as stopped:
            await asyncio.sleep(0)  # the run can still work
            return stopped.reason
        return "not stopped"

    task = asyncio.create_task(run())
    await started.wait()
    assert stop.request("interrupt")
    assert not stop.request("deadline"), "the first reason stands"
    assert await task == "interrupt"


async def test_a_child_is_cancelled_when_the_stop_comes_and_not_when_the_grace_is_over() -> None:
    stop, started, cancelled = Stop(), asyncio.Event(), asyncio.Event()

    async def child() -> None:
        try:
            await forever(started)
        finally:
            cancelled.set()

    waiting = asyncio.create_task(stop.guard(child()))
    await started.wait()
    stop.request("interrupt")
    await asyncio.sleep(0)
    assert cancelled.is_set()
    with pytest.raises(Stopped):
        await waiting


async def test_after_a_stop_nothing_new_is_begun() -> None:
    stop, started = Stop(), asyncio.Event()
    stop.request("disconnect")
    with pytest.raises(Stopped):
        await stop.guard(forever(started))
    assert not started.is_set()


async def test_a_child_that_cleans_up_for_long_does_not_hold_the_run() -> None:
    stop, started, released = Stop(), asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await released.wait()

    waiting = asyncio.create_task(stop.guard(stubborn()))
    await started.wait()
    stop.request("interrupt")
    with pytest.raises(Stopped):
        await waiting
    released.set()
    await asyncio.sleep(0)


async def test_the_time_limit_is_kept_even_by_work_that_ignores_it() -> None:
    stop, released = Stop(), asyncio.Event()

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await released.wait()

    with pytest.raises(TimeoutError):
        await stop.guard(stubborn(), 0.01)
    released.set()
    await asyncio.sleep(0)


async def test_results_and_errors_of_the_work_come_through() -> None:
    stop = Stop()

    async def good() -> int:
        return 7

    async def bad() -> int:
        raise KeyError("x")

    assert await stop.guard(good(), 5) == 7
    with pytest.raises(KeyError):
        await stop.guard(bad())


async def test_work_that_cancels_itself_does_not_cancel_the_run() -> None:
    async def odd() -> None:
        raise asyncio.CancelledError

    with pytest.raises(SelfCancelled):
        await Stop().guard(odd())


async def test_a_stop_cancels_every_child_that_is_guarded() -> None:
    stop, started = Stop(), [asyncio.Event() for _ in range(3)]
    waiting = [asyncio.create_task(stop.guard(forever(each))) for each in started]
    for each in started:
        await each.wait()
    stop.request("deadline")
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [outcome.reason for outcome in outcomes if isinstance(outcome, Stopped)] == ["deadline"] * 3


async def test_the_time_limit_of_one_child_leaves_the_others_alone() -> None:
    stop, started, go_on = Stop(), asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        await go_on.wait()
        return "done"

    other = asyncio.create_task(stop.guard(slow()))
    with pytest.raises(TimeoutError):
        await stop.guard(forever(started), 0.01)
    go_on.set()
    assert await other == "done"


async def test_stubborn_children_do_not_hold_the_run_and_are_handed_over() -> None:
    orphans: set[asyncio.Task[object]] = set()
    stop, released, begun = Stop(orphans), asyncio.Event(), asyncio.Semaphore(0)

    async def stubborn() -> None:
        begun.release()
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await released.wait()

    waiting = [asyncio.create_task(stop.guard(stubborn())) for _ in range(2)]
    for _ in waiting:
        await begun.acquire()
    stop.request("interrupt")
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Stopped, Stopped]
    assert len(orphans) == 2
    released.set()
    await asyncio.wait(set(orphans))
    assert orphans == set()

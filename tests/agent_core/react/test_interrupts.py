"""Stopping: the child is cancelled, the run's own task never is."""

import asyncio

import pytest

from agent_core.react.interrupts import SelfCancelled, Stop, Stopped


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

"""Work beside the loop: small work is done at once, large work in a thread."""

import asyncio
import threading

import pytest

from agent_core.aside import SMALL, Aside


def thread() -> str:
    return threading.current_thread().name


async def test_what_is_small_is_done_at_once_and_what_is_large_in_a_thread() -> None:
    aside = Aside()
    assert await aside(SMALL, thread) == thread()
    assert (await aside(SMALL + 1, thread)).startswith("aside")
    aside.close()


@pytest.mark.parametrize("weight", [0, SMALL + 1])
async def test_what_the_work_raises_comes_up(weight: int) -> None:
    def fail(what: str) -> None:
        raise KeyError(what)

    aside = Aside()
    with pytest.raises(KeyError, match="gone"):
        await aside(weight, fail, "gone")
    aside.close()


async def test_who_waits_for_it_can_be_cancelled_while_the_thread_ends_it() -> None:
    aside, go, done = Aside(), threading.Event(), threading.Event()

    def work() -> None:
        go.wait()
        done.set()

    waiting = asyncio.create_task(aside(SMALL + 1, work))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go.set()
    assert await asyncio.to_thread(done.wait, 10)
    aside.close()

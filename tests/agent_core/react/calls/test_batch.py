"""Jobs keep their promises, one after another and side by side."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.errors import RunError
from agent_core.react.calls.batch import Job, run_batch
from agent_core.react.stopping import SelfCancelled, Stop, Stopped


class Jobs:
    """Jobs that take as many turns of the loop as they are told; the log of what begins and ends."""

    def __init__(self) -> None:
        self.log: list[tuple[str, int]] = []
        self.tasks: set[asyncio.Task[Any] | None] = set()
        self._most: list[int] = []
        self._running: set[int] = set()

    def job(self, name: int, turns: int, *, exclusive: bool = False, fails: bool = False) -> Job:
        async def work() -> None:
            self.tasks.add(asyncio.current_task())
            self.log.append(("begin", name))
            self._running.add(name)
            self._most.append(len(self._running))
            for _ in range(turns):
                await asyncio.sleep(0)
            self._running.discard(name)
            self.log.append(("end", name))
            if fails:
                raise RunError("internal", detail=str(name))

        return Job(exclusive=exclusive, work=work)

    @property
    def most(self) -> int:
        return max(self._most, default=0)

    @property
    def begun(self) -> list[int]:
        return [name for what, name in self.log if what == "begin"]

    @property
    def ended(self) -> list[int]:
        return [name for what, name in self.log if what == "end"]


async def leaves_no_task(work: Coroutine[Any, Any, None]) -> None:
    before = asyncio.all_tasks()
    try:
        await work
    finally:
        assert asyncio.all_tasks() == before


PLANS = st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 4).map(lambda n: n == 0)), max_size=9)


@given(PLANS, st.integers(1, 5))
def test_any_batch_keeps_the_promises(plan: list[tuple[int, bool, bool]], most: int) -> None:
    jobs = Jobs()
    batch = [jobs.job(n, turns, exclusive=alone, fails=fails) for n, (turns, alone, fails) in enumerate(plan)]
    failed = ""
    try:
        asyncio.run(leaves_no_task(run_batch(batch, most=most)))
    except RunError as error:
        failed = error.detail
    assert jobs.most <= most
    assert jobs.begun == list(range(len(jobs.begun))), "begun in order, and each once"
    assert sorted(jobs.ended) == jobs.begun, "what began has ended"
    failures = [n for n in jobs.ended if plan[n][2]]
    assert failed == (str(failures[0]) if failures else "")
    assert failures or len(jobs.begun) == len(plan)
    if failures:
        # What stood in the log behind the first failure are ends, and no beginnings.
        behind = jobs.log[jobs.log.index(("end", failures[0])) :]
        assert all(what == "end" for what, _ in behind)
    for n, (_, alone, _) in enumerate(plan):
        if alone and n in jobs.begun:
            at = jobs.log.index(("begin", n))
            assert jobs.log[at + 1] == ("end", n), "an exclusive one stands alone"
            assert sorted(name for what, name in jobs.log[:at] if what == "end") == list(range(n))


@pytest.mark.parametrize("alone", [True, False])
async def test_what_runs_alone_runs_in_the_callers_own_task(alone: bool) -> None:
    jobs = Jobs()
    await run_batch([jobs.job(0, 2, exclusive=alone), jobs.job(1, 2, exclusive=True)], most=1 if not alone else 4)
    assert jobs.tasks == {asyncio.current_task()}


async def test_a_batch_runs_side_by_side() -> None:
    jobs = Jobs()
    await run_batch([jobs.job(n, 3) for n in range(5)], most=3)
    assert jobs.most == 3


async def test_a_stop_reaches_every_call_of_the_batch_and_comes_up_once() -> None:
    stop, begun = Stop(), list[int]()

    def job(name: int) -> Job:
        async def call() -> None:
            begun.append(name)
            if len(begun) == 2:
                stop.request("interrupt")
            await asyncio.Event().wait()

        return Job(exclusive=False, work=lambda: stop.guard(call()))

    with pytest.raises(Stopped):
        await leaves_no_task(run_batch([job(n) for n in range(3)], most=2))
    assert begun == [0, 1]


async def test_the_others_go_on_to_their_end_when_one_fails() -> None:
    gate, ended = asyncio.Event(), list[str]()

    async def slow() -> None:
        await gate.wait()
        ended.append("slow")

    async def bad() -> None:
        asyncio.get_running_loop().call_soon(gate.set)
        raise RunError("store_unavailable")

    with pytest.raises(RunError):
        await run_batch([Job(exclusive=False, work=each) for each in (slow, bad, slow)], most=2)
    assert ended == ["slow"]


async def test_a_job_that_cancels_itself_does_not_cancel_the_run() -> None:
    async def odd() -> None:
        raise asyncio.CancelledError

    works: list[Callable[[], Coroutine[Any, Any, None]]] = [odd, odd]
    with pytest.raises(SelfCancelled):
        await leaves_no_task(run_batch([Job(exclusive=False, work=each) for each in works], most=2))
    assert not asyncio.current_task().cancelling()  # type: ignore[union-attr]


async def test_when_the_loop_ends_no_job_is_left_behind() -> None:
    stop, started, cleaned = Stop(), asyncio.Event(), list[int]()

    async def call() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(1)

    batch = [Job(exclusive=False, work=lambda: stop.guard(call())) for _ in range(3)]
    before = asyncio.all_tasks()
    task = asyncio.create_task(run_batch(batch, most=2))
    await started.wait()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert len(cleaned) == 2
    assert asyncio.all_tasks() == before

"""The calls of one answer, carried out one after another or side by side."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from agent_core.react.stopping import SelfCancelled


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One call's work. An `exclusive` one stands alone: what is before it ends first, what is behind it waits."""

    exclusive: bool
    work: Callable[[], Coroutine[Any, Any, None]]


async def run_batch(jobs: Sequence[Job], *, most: int) -> None:
    """Carry the jobs out: in order with `most` 1, else side by side, begun in order, up to `most` at a time.

    The first exception is raised when all jobs that had begun have ended; the others never begin. No job is
    cancelled for another's sake. A job that runs alone does so in the caller's own task.
    """
    if most == 1:
        for job in jobs:
            await job.work()
        return
    for exclusive, group in groupby(jobs, key=attrgetter("exclusive")):
        together = list(group)
        if exclusive or len(together) == 1:
            for job in together:
                await job.work()
        else:
            await _side_by_side(together, most)


async def _side_by_side(jobs: Sequence[Job], most: int) -> None:
    queue, failures = iter(jobs), list[Exception]()
    loop = asyncio.get_running_loop()
    workers = [loop.create_task(_work(queue, failures)) for _ in range(min(most, len(jobs)))]
    try:
        await asyncio.wait(workers)
    except asyncio.CancelledError:  # the run's own task: somebody broke the rule, or the loop ends
        for worker in workers:
            worker.cancel()
        await asyncio.wait(workers)
        raise
    if failures:
        raise failures[0]


async def _work(queue: Iterable[Job], failures: list[Exception]) -> None:
    """Take jobs from the queue that all workers share, until it is empty or one of them has failed."""
    if failures:
        return
    for job in queue:
        try:
            await job.work()
        except asyncio.CancelledError:
            failures.append(SelfCancelled())  # and never a cancel of the run's own task
            return
        except Exception as error:
            failures.append(error)
        if failures:
            return

"""How long the event loop works without giving anybody else a turn, by CPU time and never by the clock.

async with watched() as turns:
    ...
assert turns.worst < LONGEST_TURN
"""

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from app.server import GC_ALLOCATIONS

T = TypeVar("T")

LONGEST_TURN = 0.1
"""Seconds of CPU time that nothing that is accepted may take from the loop at once."""

LOOK = 0.002
"""Seconds between two looks."""

TIMES = 3
"""How often something may be measured: other processes share the caches and the cores, and now and then make some work
take longer than it takes."""


def each_time(measure: Callable[[], list[T]]) -> list[T]:
    """What `measure` finds wrong, where it finds something wrong each time."""
    found: list[T] = []
    for _ in range(TIMES):
        found = measure()
        if not found:
            break
    return found


def least_work(work: Callable[[], object]) -> float:
    """Seconds of CPU time that this thread needs for the work."""
    with collected_as_served():
        return min(_work_of(work) for _ in range(TIMES))


def _work_of(work: Callable[[], object]) -> float:
    before = time.thread_time()
    work()
    return time.thread_time() - before


@dataclass(slots=True)
class Turns:
    """Wakes in each turn of the loop in which it was started, and notes the work since it woke last.

    The CPU time of the loop's own thread counts, and that of the threads whose names begin with one of `threads`. One
    call into C in such a thread holds the interpreter, and so the loop too. CPU time counts and not the clock's: other
    processes, and clients in this one, may make a thread wait without blocking anybody.

    It notes the work of a whole turn of the loop, which may be more than that of one callback. It sees only work, and
    no waiting in the loop's thread.

    `too_long` are the turns of more than LONGEST_TURN, each with what `beside` said then.
    """

    threads: tuple[str, ...] = ("aside", "tool")
    beside: Callable[[], object] = lambda: None
    worst: float = 0.0
    looks: int = 0
    too_long: list[tuple[float, object]] = field(default_factory=list)
    _used: dict[int, float] = field(default_factory=dict)

    async def watch(self) -> None:
        loop_thread = threading.get_native_id()
        self._since(self._watched(loop_thread))
        while True:
            await asyncio.sleep(LOOK)
            took = self._since(self._watched(loop_thread))
            self.worst = max(self.worst, took)
            self.looks += 1
            if took > LONGEST_TURN:
                self.too_long.append((took, self.beside()))

    def forget(self) -> None:
        """Start the count again from now. Call it in the loop."""
        self._since(self._watched(threading.get_native_id()))
        self.worst, self.looks = 0.0, 0
        self.too_long.clear()

    def _watched(self, loop_thread: int) -> Iterable[int]:
        yield loop_thread
        for each in threading.enumerate():
            if each.native_id is not None and each.name.startswith(self.threads):
                yield each.native_id

    def _since(self, thread_ids: Iterable[int]) -> float:
        """The CPU time that these threads have used since the last time."""
        now = {each: _cpu_of(each) for each in thread_ids}
        used = sum(now[each] - self._used.get(each, 0.0) for each in now)
        self._used = now
        return used


def _cpu_of(thread_id: int) -> float:
    """The CPU time of a thread, by Linux's number for its clock: unlike with pthread_getcpuclockid, one that has
    just ended is an error and not a crash."""
    try:
        return time.clock_gettime((~thread_id << 3) | 6)
    except OSError:
        return 0.0


@contextmanager
def collected_as_served() -> Iterator[None]:
    """Garbage collection as the server has it: what was there before stays out of it."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_ALLOCATIONS, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@asynccontextmanager
async def watched(beside: Callable[[], object] = lambda: None) -> AsyncIterator[Turns]:
    """Watch the running loop as long as the block lasts."""
    turns = Turns(beside=beside)
    watching = asyncio.get_running_loop().create_task(turns.watch())
    try:
        await asyncio.sleep(2 * LOOK)
        turns.forget()
        yield turns
        await asyncio.sleep(2 * LOOK)
    finally:
        watching.cancel()

"""Long computations in threads, so that the event loop stays free.

Reading a long session or a large body keeps the processor busy. In a thread it leaves the loop free between its calls
into C. One such call holds the interpreter until it returns, in a thread too, so the caller bounds what it gives to
one. A thread costs about 50 µs, which is much for a short run, so small work is done at once.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

SMALL = 500_000
"""Work of this weight, in bytes, is done at once. It takes a few milliseconds."""

THREADS = 4
"""Threads at most. They share one interpreter, so more of them would only switch more often."""

P = ParamSpec("P")
R = TypeVar("R")


class Aside:
    """The threads for such work. They run only the server's own code, so none of them hangs."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def __call__(self, weight: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Do the work, and return or raise what it does. `weight` is in bytes.

        Work that weighs more than SMALL runs in a thread, so it must be pure. The waiter can be cancelled; the thread
        finishes the work all the same.
        """
        if weight <= SMALL:
            return work(*args, **kwargs)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="aside")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(work, *args, **kwargs))

    def close(self) -> None:
        """Begin no more work in threads. Does not wait for the work that runs."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

"""Work that takes long, beside the event loop.

Reading a long session or a large body is work for the processor. In a thread the loop goes on meanwhile, as long as no
single call into C takes long: such a call keeps the interpreter to itself, there as here, so what it is given must be
bounded. A thread costs some 50 µs, which is much for a short run: what is small is done at once.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

SMALL = 500_000
"""Bytes, or what weighs as much, that are worked on at once: some milliseconds."""

THREADS = 4
"""They share one interpreter: more would only change turns more often."""

P = ParamSpec("P")
R = TypeVar("R")


class Aside:
    """The threads for such work. Only the server's own code runs in them, so that none of them hangs."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def __call__(self, weight: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """What the work returns or raises. Where it weighs more than SMALL, it is done in a thread: then it must be
        pure, and who waits for it can be cancelled, while the thread ends it."""
        if weight <= SMALL:
            return work(*args, **kwargs)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="aside")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(work, *args, **kwargs))

    def close(self) -> None:
        """Begin nothing more; nobody is waited for."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

"""Memory that runs need for a moment: a bound on what all of them take together.

When many runs are cut off at the same moment, each has half an answer to put together and to store. Until it is
stored, that takes several times the answer's size. So only a few runs do it at a time.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

MOST = 16 * 1024 * 1024
"""Bytes that may be taken at the same time."""


class Room:
    """`most` bytes, given out in the order in which they were asked for."""

    def __init__(self, most: int = MOST) -> None:
        self.taken = 0
        self._most = most
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def of(self, size: int) -> AsyncGenerator[None, None]:
        """Hold `size` bytes, and wait until they are free. A larger size than all there is takes all of it."""
        size = min(size, self._most)
        if self._waiting or self.taken + size > self._most:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((size, turn))
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled():  # the bytes were given in the same tick: give them back
                    self._give_back(size)
                raise
        else:
            self.taken += size
        try:
            yield
        finally:
            self._give_back(size)

    def _give_back(self, size: int) -> None:
        self.taken -= size
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.done():
                if self.taken + size > self._most:
                    return
                self.taken += size
                turn.set_result(None)
            self._waiting.popleft()

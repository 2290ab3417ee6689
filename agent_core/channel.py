"""A run's events as an async iterator: the sink behind `Engine.stream_events`."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator

from agent_core.events import AgentEnd, Event, RunFailed

ROOM = 256
"""Events that may wait for a slow reader. With more, the run waits for the reader."""


class Channel:
    """A bounded queue of events: one writer and one reader in one event loop. The run waits for a slow reader."""

    attended = True
    next_number = 0

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._closed = False

    @property
    def full(self) -> bool:
        return len(self._events) >= ROOM and not self._closed

    def emit(self, event: Event) -> None:
        if not self._closed:
            self._events.append(event)
            self._changed.set()

    async def room(self) -> None:
        while self.full:
            self._room.clear()
            await self._room.wait()

    def close(self) -> None:
        """The reader has left: drop all events from now on, and let the run wait no more."""
        self._closed = True
        self._events.clear()
        self._room.set()

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield the events, the terminal one last."""
        while True:
            while not self._events:
                self._changed.clear()
                await self._changed.wait()
            event = self._events.popleft()
            self._room.set()
            yield event
            if isinstance(event, AgentEnd | RunFailed):
                return

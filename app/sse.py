"""A reader of a run's log, through its own converters, as an SSE response.

All frames that are ready go out in one write. Lines end with LF alone, because AG-UI's client splits the stream at two
line feeds and fails at CRLF.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from time import monotonic

from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse
from starlette.types import Message, Receive, Scope, Send

from agent_core.aside import SMALL
from app.connection import TRANSPORT
from app.runs.framing import Wire, fed
from app.runs.run import Attached

logger = logging.getLogger(__name__)

WRITE = 64 * 1024
"""Bytes of one write at most."""

HEADERS = {"Cache-Control": "no-cache, no-transform"}


def comment() -> bytes:
    """A sign of life that every client passes over."""
    return b": ping\n\n"


class RunStream(EventSourceResponse):
    """The response that streams a run. The run's reader leaves when the response ends, however it ends.

    - ping: seconds between signs of life on a silent stream
    - stalled: seconds after which a client that takes nothing counts as gone
    - held: bytes that the wire has made already
    - heartbeat: makes a sign of life, by default a comment
    """

    def __init__(
        self,
        served: Attached,
        wire: Wire,
        *,
        ping: float,
        stalled: float,
        held: bytes = b"",
        heartbeat: Callable[[], bytes] = comment,
    ) -> None:
        super().__init__(
            _frames(served, wire, held),
            headers=HEADERS,
            ping=ping,
            ping_message_factory=lambda: _Ready(heartbeat()),
            sep="\n",
        )
        self._served = served
        self._stalled = stalled
        self._sending = 0
        self._sending_since: float | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        transport = scope.get("extensions", {}).get(TRANSPORT, {}).get("transport")
        watch = StallWatch(task, self._stalled, lambda: self._sending_since, transport)
        try:
            await super().__call__(scope, receive, send)
        except asyncio.CancelledError:
            if not watch.fired or task.uncancel() > 0:
                raise
            logger.info("run %s: the client does not read any more", self._served.run_id)
        finally:
            watch.close()
            # Not in the generator's own `finally`, because that does not run if the generator was never started.
            self._served.leave()

    async def _send_with_timeout(self, send: Send, message: Message) -> None:
        # This method is not public, but every write goes through it. The parent's own arms a cancel scope for each
        # write, which costs a fifth of a run; the watch only looks at one timestamp from time to time. If the parent no
        # longer calls it, a client that does not read goes unnoticed, but tests/app/test_private_parts.py fails.
        # The stream and its pings are two senders, so the time counts from the last write that went through.
        if not self._sending:
            self._sending_since = monotonic()
        self._sending += 1
        await send(message)
        self._sending -= 1
        self._sending_since = monotonic() if self._sending else None


class StallWatch:
    """Cancels a task if its current write makes no progress for `limit` seconds (at most a quarter more).

    One timer serves all writes. A write that ends is progress. So is a buffer that shrinks, if the transport is known:
    a client that reads slowly but steadily is not gone.
    """

    def __init__(
        self,
        task: "asyncio.Task[object]",
        limit: float,
        since: Callable[[], float | None],
        transport: asyncio.WriteTransport | None,
    ) -> None:
        self.fired = False
        self._task = task
        self._limit = limit
        self._since = since
        self._transport = transport
        self._left = 0  # bytes in the buffer at the last look
        self._moved = 0.0  # the time when the buffer was last seen to shrink
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(limit / 4, self._look)

    def close(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        left = self._transport.get_write_buffer_size() if self._transport is not None else 0
        if left < self._left:
            self._moved = monotonic()
        self._left = left
        since = self._since()
        if since is not None and monotonic() - max(since, self._moved) >= self._limit:
            self.fired = True
            self._task.cancel()
        else:
            self._timer = self._loop.call_later(self._limit / 4, self._look)


async def _frames(served: Attached, wire: Wire, held: bytes) -> AsyncGenerator[bytes, None]:
    for piece in pieces(held):
        yield piece
    source, aside = served.source, served.run.aside
    while not wire.finished:
        events = await source.batch()
        missed = source.missed()
        if missed is not None:
            for piece in pieces(await aside(missed.weight, wire.rejoin, missed.events, missed.number)):
                yield piece
        ended = not events and missed is None
        weight = source.weight
        made = (
            wire.finish() if ended else wire.feed(events) if weight <= SMALL else await fed(wire, events, weight, aside)
        )
        for piece in pieces(made):
            yield piece
        served.since = monotonic()
        if ended:
            return
        if source.behind:
            await asyncio.sleep(0)  # a dead connection takes everything without waiting; let other tasks run


def pieces(data: bytes) -> Iterator[bytes]:
    """The data in pieces of at most WRITE bytes. No pieces if there is no data."""
    if len(data) <= WRITE:
        if data:
            yield data
        return
    for start in range(0, len(data), WRITE):
        yield data[start : start + WRITE]


class _Ready(ServerSentEvent):
    """An event whose bytes are made already."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._bytes = data

    def encode(self) -> bytes:
        return self._bytes

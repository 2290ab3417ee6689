"""A reader of a run's log, through its own converters, as an SSE response.

Everything that is ready goes out in one write. The separator is LF alone: AG-UI's client splits the
stream at two line feeds and fails at CRLF.
"""

import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse, SendTimeoutError
from starlette.types import Receive, Scope, Send

from agent_core.events import Event
from app.runs.run import ServedRun

logger = logging.getLogger(__name__)

WRITE = 64 * 1024
"""Bytes of one write at most."""

STALLED = 30.0
"""Seconds without progress after which a client that does not read counts as gone."""

HEADERS = {"Cache-Control": "no-cache, no-transform"}


class Wire(Protocol):
    """What makes bytes of events: one per reader, with the state of its stream."""

    @property
    def finished(self) -> bool: ...

    def feed(self, events: Sequence[Event]) -> bytes: ...

    def end(self) -> bytes: ...


class RunStream(EventSourceResponse):
    """The response that streams a run. When it ends, however it ends, the run's reader is gone."""

    def __init__(self, served: ServedRun, wire: Wire, *, ping: float) -> None:
        super().__init__(
            _frames(served, wire),
            headers=HEADERS,
            ping=ping,
            ping_message_factory=_ping,
            sep="\n",
            send_timeout=STALLED,
        )
        self._served = served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            logger.info("run %s: the client does not read any more", self._served.run_id)
        finally:
            # Here and not in the generator: one that was never started has no finally.
            self._served.leave()


async def _frames(served: ServedRun, wire: Wire) -> AsyncGenerator[bytes, None]:
    while not wire.finished:
        events = await served.reader.batch()
        data = wire.feed(events) if events else wire.end()
        for start in range(0, len(data), WRITE):
            yield data[start : start + WRITE]
        if not events:
            return


def _ping() -> ServerSentEvent:
    return ServerSentEvent(comment="ping", sep="\n")

"""Waiting for a run's events before its response has begun, without losing sight of the client."""

import asyncio
from collections.abc import AsyncGenerator

from starlette.requests import ClientDisconnect, Request

from agent_core.events import Event
from app.runs.run import Attached


async def batches_of(
    request: Request, attached: Attached, seconds: float | None = None
) -> AsyncGenerator[list[Event], None]:
    """The run's events as they come, to its end, or until the seconds are over.

    Raises ClientDisconnect when the client leaves, which a handler that waits for something else would
    not notice.
    """
    source = attached.source
    over = False

    def end() -> None:
        nonlocal over
        over = True
        source.wake()

    timer = asyncio.get_running_loop().call_later(seconds, end) if seconds is not None else None
    gone = asyncio.ensure_future(_gone(request))
    # Both only wake the source: cancelling its wait could lose events that were taken already.
    gone.add_done_callback(lambda _: source.wake())
    try:
        while events := await source.batch(lambda: gone.done() or over):
            yield events
        if gone.done() and not source.at_end:
            raise ClientDisconnect
    finally:
        gone.cancel()
        if timer is not None:
            timer.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass

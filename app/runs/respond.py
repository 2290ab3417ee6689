"""Makes the response of a run that was just started.

Until the response has begun, nobody else would notice that the client has left. So whoever waits for events here
watches the connection too.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from agent_core.agent import Agent
from agent_core.errors import InvalidRequest
from agent_core.events import Event, RunFailed
from app.errors import run_error_answer
from app.runs.framing import Wire, fed
from app.runs.run import Attached, OnDisconnect, ServedRun
from app.services import services_of
from app.sse import RunStream, comment
from converters.agui.stream import AguiStream

ON_DISCONNECT = "X-On-Disconnect"

AT_ONCE = frozenset({"store_unavailable", "session_busy", "invalid_request"})
"""The failures of a run that has done nothing yet: no store, another worker in its session, a bad answer."""


def on_disconnect_of(request: Request, agent: Agent) -> OnDisconnect:
    """What happens to the run when its last reader leaves. The request's word counts before the agent's, and the
    agent's before the server's. Raises InvalidRequest for an unknown word."""
    asked = request.headers.get(ON_DISCONNECT)
    if asked is None:
        return agent.on_disconnect or services_of(request).settings.on_disconnect
    if asked == "cancel":
        return "cancel"
    if asked == "continue":
        return "continue"
    raise InvalidRequest(f"{ON_DISCONNECT}: 'cancel' or 'continue' is needed.", ON_DISCONNECT)


async def streamed(request: Request, served: ServedRun, wire: AguiStream) -> Response:
    """The run as a stream from its first event on. A run that failed at once becomes an HTTP status."""
    attached = served.attach()
    try:
        first = await events_of(request, attached, 1)
    except BaseException:
        attached.leave()
        raise
    failure = failed_at_once(first)
    if failure is not None:
        attached.leave()
        return run_error_answer(request.scope, failure)
    held = await fed(wire, first, attached.source.weight, served.aside)
    return stream_response(request, attached, wire, held)


def stream_response(
    request: Request, attached: Attached, wire: Wire, held: bytes, heartbeat: Callable[[], bytes] = comment
) -> RunStream:
    """The response that streams the run to this reader. `held` are the bytes that its wire has made already, and
    `heartbeat` makes a sign of life."""
    settings = services_of(request).settings
    return RunStream(
        attached,
        wire,
        ping=settings.ping_seconds,
        stalled=settings.stalled_seconds,
        held=held,
        heartbeat=heartbeat,
    )


async def events_of(request: Request, attached: Attached, least: int) -> list[Event]:
    """The run's first events, at least so many, or all if it has fewer. Raises ClientDisconnect."""
    found: list[Event] = []
    async with aclosing(batches_of(request, attached)) as batches:
        async for batch in batches:
            found += batch
            if len(found) >= least:
                break
    return found


def failed_at_once(events: Sequence[Event]) -> RunFailed | None:
    """The failure of a run that has done nothing before. It can still become an HTTP status."""
    last = events[-1] if 0 < len(events) <= 2 else None
    return last if isinstance(last, RunFailed) and last.code in AT_ONCE else None


async def batches_of(
    request: Request, attached: Attached, seconds: float | None = None
) -> AsyncGenerator[list[Event], None]:
    """Yield the run's events as they come, until its end or until the seconds are over. Raises ClientDisconnect if the
    client leaves."""
    source = attached.source
    over = False

    def end() -> None:
        nonlocal over
        over = True
        source.wake()

    timer = asyncio.get_running_loop().call_later(seconds, end) if seconds is not None else None
    gone = asyncio.ensure_future(_gone(request))
    # Both only wake the source. To cancel its wait could lose events that were taken already.
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

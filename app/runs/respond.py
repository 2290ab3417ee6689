"""The response to a run that has just been started, as an AG-UI stream."""

from collections.abc import Sequence
from contextlib import aclosing

from fastapi import Request
from starlette.responses import Response

from agent_core.events import Event, RunFailed
from app.errors import run_error_answer
from app.runs.first_events import batches_of
from app.runs.run import Attached, ServedRun
from app.runs.wire import fed
from app.services import services_of
from app.sse import RunStream
from converters.agui.stream import AguiStream

AT_ONCE = frozenset({"store_unavailable", "session_busy", "invalid_request"})
"""What a run fails with before it has done anything: no store, another worker in its session, a bad answer."""


async def streamed(request: Request, served: ServedRun, wire: AguiStream) -> Response:
    """The run as a stream, which begins with what it has said so far; where it failed at once, that is a status."""
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
    settings = services_of(request).settings
    held = await fed(wire, first, attached.source.weight, served.aside)
    return RunStream(
        attached,
        wire,
        ping=settings.ping_seconds,
        stalled=settings.stalled_seconds,
        held=held,
        rejoin=wire.rejoin,
    )


async def events_of(request: Request, attached: Attached, least: int) -> list[Event]:
    """The run's first events, at least so many, or all where it has fewer. Raises ClientDisconnect."""
    found: list[Event] = []
    async with aclosing(batches_of(request, attached)) as batches:
        async for batch in batches:
            found += batch
            if len(found) >= least:
                break
    return found


def failed_at_once(events: Sequence[Event]) -> RunFailed | None:
    """The failure of a run that did nothing before it: that can still be a status."""
    last = events[-1] if 0 < len(events) <= 2 else None
    return last if isinstance(last, RunFailed) and last.code in AT_ONCE else None

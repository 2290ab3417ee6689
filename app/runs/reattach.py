"""A reader that comes back to a run: its response goes on where it was cut off.

Converters keep what they have seen, and the stream's order keeps which blocks are open. So such a reader's chain gets
all of the run's events again. A snapshot takes the place of events that are gone. The bytes that the reader has already
are thrown away. If the log is gone too, the store tells the run in a short form.
"""

import asyncio
from collections.abc import Callable, Iterator

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from agent_core.errors import HeldElsewhere, InvalidRequest
from agent_core.names import SessionKey
from agent_core.stored import StoredRun
from app.errors import RETRY_SECONDS, error_answer
from app.runs.framing import fed
from app.runs.respond import stream_response
from app.runs.run import Attached, ServedRun
from app.runs.source import Snapshot
from app.services import services_of
from app.sse import HEADERS, pieces
from converters.agui.decode import AguiRequest
from converters.agui.dialect import dialect_of
from converters.agui.ids import UNKNOWN, WHOLE, FrameId, parse_id
from converters.agui.stream import AguiStream

LAST_EVENT_ID = "Last-Event-ID"


class NeverSent(Exception):
    """The run has sent no frame with this id."""


async def reattach(
    request: Request, key: SessionKey, run_id: str, name: str, asked: AguiRequest | None = None
) -> Response | None:
    """The response that goes on with a run; None if the user has no such run in this session.

    `name` is the header or the parameter that holds the last event's id. `asked` is the caller's request, if it has
    one: it says which messages the reader takes. Without one, the client counts that began the run. Raises
    InvalidRequest for a text that is no id, and for an id that the run has not sent.
    """
    services = services_of(request)
    served = services.runs.find(key.user_id, key.session_id, run_id)
    if served is not None and served.log.readable and await services.runs.stands(served):
        return await from_log(request, served, event_id(request, name), name, asked)
    try:
        stored = await services.engine.sessions.run(key, run_id)
    except HeldElsewhere as held:
        busy = error_answer(request.scope, "session_busy", str(held))
        busy.headers["retry-after"] = str(RETRY_SECONDS)
        del busy.headers["x-should-retry"]
        return busy
    if stored is None:
        return None
    after, last = event_id(request, name), stored.last or UNKNOWN
    if after is not None and after.event > last:
        raise _never_sent(name)
    if after is not None and after.event == last:
        return Response(status_code=204)  # the client has the terminal event
    return await _from_store(request, key, run_id, stored, asked)


def event_id(request: Request, name: str) -> FrameId | None:
    """The event that the header or the parameter names; None without one. Raises InvalidRequest."""
    text = (request.headers if name == LAST_EVENT_ID else request.query_params).get(name)
    if text is None:
        return None
    found = parse_id(text)
    if found is None:
        raise InvalidRequest(f"{name}: an event's id such as 12.0 is needed.", name)
    return found


async def from_log(
    request: Request,
    served: ServedRun,
    after: FrameId | None,
    name: str = LAST_EVENT_ID,
    asked: AguiRequest | None = None,
) -> Response:
    """A stream of the run's events behind `after`, or of all if that is None. `name` is the place of `after` in the
    request. Raises InvalidRequest for an id that the run has not sent."""
    manner, services = served.manner, services_of(request)

    def make() -> AguiStream:
        return AguiStream(
            served.session_id,
            served.run_id,
            manner.dialect,
            [make() for make in services.converters],
            manner.parent_run_id,
            reasoning=asked is not None and asked.reasoning,
        )

    attached = served.attach()
    try:
        wire, held = await _resume(attached, make, after)
    except NeverSent:
        attached.leave()
        raise _never_sent(name) from None
    except BaseException:
        attached.leave()
        raise
    if wire.finished and not held:
        attached.leave()
        return Response(status_code=204)
    return stream_response(request, attached, wire, held)


async def _from_store(
    request: Request, key: SessionKey, run_id: str, stored: StoredRun, asked: AguiRequest | None
) -> Response:
    """The run in its short form, from the store. Only the terminal frame has an id, which follows the ids that were
    sent before."""
    services = services_of(request)
    converters = [make() for make in services.converters]
    dialect, reasoning = (dialect_of(stored.client), False) if asked is None else (asked.dialect, asked.reasoning)
    wire = AguiStream(key.session_id, run_id, dialect, converters, reasoning=reasoning)
    before = (stored.last or UNKNOWN) - 1
    told = await services.engine.aside(stored.weight, wire.rejoin, stored.snapshot, before, marked=False)
    data = told + wire.feed([stored.end])

    def writes() -> Iterator[bytes]:
        yield from pieces(data)

    return StreamingResponse(writes(), headers={**HEADERS, "X-Accel-Buffering": "no"}, media_type="text/event-stream")


async def _resume(
    attached: Attached, make: Callable[[], AguiStream], after: FrameId | None
) -> tuple[AguiStream, bytes]:
    """A stream that goes on behind the frame `after`, and its first bytes.

    It begins with a snapshot if the log no longer has the events that are needed. Raises NeverSent.
    """
    source, wire = attached.source, make()
    if after is not None and after.event > source.count:
        raise NeverSent
    missed = source.missed()
    if missed is None:
        return (wire, b"") if after is None else await _skip(attached, wire, make, after)
    told = await _rejoined(attached, wire, missed)
    if after is None or after < (missed.number, WHOLE):
        return wire, told
    return await _skip(attached, wire, make, after)


async def _skip(
    attached: Attached, wire: AguiStream, make: Callable[[], AguiStream], after: FrameId
) -> tuple[AguiStream, bytes]:
    source = attached.source
    while source.position < after.event:
        before = source.position
        events = await source.batch()
        missed = source.missed()
        if missed is not None:  # the run was faster than this reader, and its log was trimmed
            wire = make()
            return wire, await _rejoined(attached, wire, missed) + wire.feed(events)
        last = after.event - before - 1
        if last < len(events):
            wire.feed(events[:last])
            rest = wire.rest(events[last], after.frame)
            if rest is None:
                raise NeverSent
            return wire, rest + wire.feed(events[last + 1 :])
        await fed(wire, events, source.weight, attached.run.aside)
        await asyncio.sleep(0)  # let other tasks run
    return wire, b""


async def _rejoined(attached: Attached, wire: AguiStream, missed: Snapshot) -> bytes:
    return await attached.run.aside(missed.weight, wire.rejoin, missed.events, missed.number)


def _never_sent(name: str) -> InvalidRequest:
    return InvalidRequest(f"{name}: this run has sent no event with this id.", name)

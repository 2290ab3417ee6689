"""`GET /sessions/{session_id}/runs/{run_id}/events`: a run, streamed as AG-UI from any point, while it is under
way and afterwards.

A run that is somebody else's, one that nobody knows and an id that no run can have are answered alike: 404.
"""

from collections.abc import Iterator

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from agent_core.errors import HeldElsewhere, InvalidRequest
from agent_core.names import RUN_ID, SESSION_ID, SessionKey
from agent_core.stored import StoredRun
from app.auth import user_of
from app.errors import RETRY_SECONDS, NotFound, error_answer
from app.runs.reattach import NeverSent, resume
from app.runs.run import ServedRun
from app.runs.source import Snapshot
from app.services import services_of
from app.sse import HEADERS, RunStream, pieces
from converters.agui.decode import AguiRequest
from converters.agui.dialect import dialect_of
from converters.agui.ids import UNKNOWN, FrameId, parse_id
from converters.agui.stream import AguiStream

router = APIRouter()

LAST_EVENT_ID = "Last-Event-ID"


@router.get("/sessions/{session_id}/runs/{run_id}/events", response_model=None)
async def events(request: Request) -> Response:
    """The run's events behind the one that the header Last-Event-ID (or `?after=`) names, else all of them;
    204 where nothing is left."""
    session_id, run_id = request.path_params["session_id"], request.path_params["run_id"]
    if not SESSION_ID.fullmatch(session_id) or not RUN_ID.fullmatch(run_id):
        raise NotFound
    name = LAST_EVENT_ID if LAST_EVENT_ID in request.headers else "after"
    response = await reattach(request, SessionKey(user_id=user_of(request), session_id=session_id), run_id, name)
    if response is None:
        raise NotFound
    return response


async def reattach(
    request: Request, key: SessionKey, run_id: str, name: str, asked: AguiRequest | None = None
) -> Response | None:
    """The response that goes on with a run; None where the user has no such run in this session.

    `name` is the header or the parameter that says where; `asked` is the caller's request, where it has one, which
    says what it takes; else it is what the client takes that began the run. Raises InvalidRequest for an id that
    is none, or that the run has not sent.
    """
    services = services_of(request)
    served = services.runs.find(key.user_id, key.session_id, run_id)
    if served is not None and served.log.readable and await services.runs.stands(served):
        return await from_log(request, served, event_id(request, name), name, asked)
    try:
        past = await services.engine.sessions.run(key, run_id)
    except HeldElsewhere as held:
        busy = error_answer(request.scope, "session_busy", str(held))
        busy.headers["retry-after"] = str(RETRY_SECONDS)
        del busy.headers["x-should-retry"]
        return busy
    if past is None:
        return None
    after, last = event_id(request, name), past.last or UNKNOWN
    if after is not None and after.event > last:
        raise _never_sent(name)
    if after is not None and after.event == last:
        return Response(status_code=204)  # a client that has the terminal event
    return await _from_store(request, key, run_id, past, asked)


def event_id(request: Request, name: str) -> FrameId | None:
    """The event that the header or the parameter names, None without one. Raises InvalidRequest."""
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
    """The run's events behind `after`, all where that is None, as a stream that goes on with it. `name` is where in the
    request `after` stands. Raises InvalidRequest for one that the run has not sent."""
    services = services_of(request)

    def make() -> AguiStream:
        manner = served.manner
        converters = [make() for make in services.converters]
        return AguiStream(
            served.session_id,
            served.run_id,
            manner.dialect,
            converters,
            manner.parent_run_id,
            reasoning=asked is not None and asked.reasoning,
        )

    attached = served.attach()
    try:
        wire, held = await resume(attached, make, after)
    except NeverSent:
        attached.leave()
        raise _never_sent(name) from None
    except BaseException:
        attached.leave()
        raise
    if wire.finished and not held:
        attached.leave()
        return Response(status_code=204)
    settings = services.settings
    return RunStream(
        attached,
        wire,
        ping=settings.ping_seconds,
        stalled=settings.stalled_seconds,
        held=held,
        rejoin=wire.rejoin,
    )


async def _from_store(
    request: Request, key: SessionKey, run_id: str, past: StoredRun, asked: AguiRequest | None
) -> Response:
    """The run in its trimmed form. Only the terminal frame has an id, which fits those that were sent before."""
    converters = [make() for make in services_of(request).converters]
    dialect, reasoning = (dialect_of(past.client), False) if asked is None else (asked.dialect, asked.reasoning)
    wire = AguiStream(key.session_id, run_id, dialect, converters, reasoning=reasoning)
    snapshot = Snapshot.of((past.last or UNKNOWN) - 1, past.snapshot)
    aside = services_of(request).engine.aside
    told = await aside(snapshot.weight, wire.rejoin, snapshot.events, snapshot.number, marked=False)
    data = told + wire.feed([past.end])

    def writes() -> Iterator[bytes]:
        yield from pieces(data)

    return StreamingResponse(writes(), headers={**HEADERS, "X-Accel-Buffering": "no"}, media_type="text/event-stream")


def _never_sent(name: str) -> InvalidRequest:
    return InvalidRequest(f"{name}: this run has sent no event with this id.", name)

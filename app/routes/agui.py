"""`POST /agui` and `POST /agui/{agent}`: a run, streamed as AG-UI."""

from dataclasses import replace

from fastapi import APIRouter, Request
from starlette.responses import Response

from agent_core.names import SessionKey
from app.auth import user_of
from app.routes.common import read
from app.runs.reattach import LAST_EVENT_ID, event_id, from_log, reattach
from app.runs.respond import on_disconnect_of, streamed
from app.runs.run import Manner
from app.services import services_of
from converters.agui.decode import parse_run_input
from converters.agui.stream import AguiStream

router = APIRouter()


@router.post("/agui")
@router.post("/agui/{agent}")
async def run_agent(request: Request) -> Response:
    """Run the named agent, or the default one, on a RunAgentInput.

    A request that is wrong gets an HTTP status in the one error shape. A stream that has begun ends with exactly one
    RUN_FINISHED or RUN_ERROR. With `Last-Event-ID`, a known run goes on from there and none is started. The same
    request again, under the same `runId`, joins its run from the first event on while that is under way.
    """
    services = services_of(request)
    agent = services.roster.get(request.path_params.get("agent"))
    on_disconnect = on_disconnect_of(request, agent)
    asked = await read(request, parse_run_input)
    key = SessionKey(user_id=user_of(request), session_id=asked.thread_id)
    if LAST_EVENT_ID in request.headers:
        event_id(request, LAST_EVENT_ID)  # a bad id is refused, also if there is no such run
        again = await reattach(request, key, asked.run_id, LAST_EVENT_ID, asked)
        if again is not None:
            return again
    joined = services.runs.find(key.user_id, key.session_id, asked.run_id)
    if joined is not None and joined.is_asked_by(agent, asked.input):
        return await from_log(request, joined, None, asked=asked)
    # Before the run starts: a user's converter that cannot be made must not leave a run unread.
    converters = [make() for make in services.converters]
    wire = AguiStream(
        asked.thread_id,
        asked.run_id,
        asked.dialect,
        converters,
        asked.parent_run_id,
        reasoning=asked.reasoning,
    )
    served = services.runs.start(
        agent,
        replace(asked.input, client=asked.client),
        user_id=key.user_id,
        session_id=key.session_id,
        run_id=asked.run_id,
        manner=Manner(
            keep=True,
            timed=True,
            on_disconnect=on_disconnect,
            dialect=asked.dialect,
            parent_run_id=asked.parent_run_id,
        ),
    )
    return await streamed(request, served, wire)

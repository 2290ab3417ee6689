"""`POST /agui` and `POST /agui/{agent}`: a run, streamed as AG-UI."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from agent_core.errors import InvalidRequest
from app.auth import user_of
from app.limits import read_json_body
from app.services import services_of
from app.sse import RunStream
from converters.agui.decode import parse_run_input
from converters.agui.stream import AguiStream

router = APIRouter()


@router.post("/agui")
@router.post("/agui/{agent}")
async def run_agent(request: Request) -> Response:
    """Run the agent (the default one where none is named) on a RunAgentInput.

    What is wrong with the request is an HTTP status in the one error shape; from the first byte of the
    stream on, whatever happens ends it with exactly one RUN_FINISHED or RUN_ERROR.
    """
    services = services_of(request)
    settings = services.settings
    agent = services.roster.get(request.path_params.get("agent"))
    _refuse_what_is_not_there(request)
    asked = parse_run_input(await read_json_body(request, settings.body_limit))
    # Before the run starts: a converter of the user's that cannot be made must not leave a run unread.
    converters = [make() for make in services.converters]
    wire = AguiStream(asked.thread_id, asked.run_id, asked.dialect, converters, asked.parent_run_id)
    served = services.runs.start(
        agent,
        asked.input,
        user_id=user_of(request),
        session_id=asked.thread_id,
        run_id=asked.run_id,
    )
    return RunStream(served.attach(), wire, ping=settings.ping_seconds, stalled=settings.stalled_seconds)


def _refuse_what_is_not_there(request: Request) -> None:
    """A request for something that this version does not do is refused, never taken and ignored."""
    if request.headers.get("x-on-disconnect", "cancel") != "cancel":
        raise InvalidRequest("A run ends with its connection here; only 'cancel' can be asked for.", "X-On-Disconnect")
    if "last-event-id" in request.headers:
        raise InvalidRequest("A stream cannot be picked up again here; start a new run.", "Last-Event-ID")

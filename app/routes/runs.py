"""`GET /sessions/{session_id}/runs/{run_id}/events`: a run as AG-UI, from any point, under way or over.

A run that is somebody else's, a run that nobody knows and an id that no run can have are answered alike: 404.
"""

from fastapi import APIRouter, Request
from starlette.responses import Response

from agent_core.names import RUN_ID, SESSION_ID, SessionKey
from app.auth import user_of
from app.errors import NotFound
from app.runs.reattach import LAST_EVENT_ID, reattach

router = APIRouter()


@router.get("/sessions/{session_id}/runs/{run_id}/events", response_model=None)
async def events(request: Request) -> Response:
    """The run's events behind the one that the header Last-Event-ID (or `?after=`) names, else all of them.

    204 if nothing is left.
    """
    session_id, run_id = request.path_params["session_id"], request.path_params["run_id"]
    if not SESSION_ID.fullmatch(session_id) or not RUN_ID.fullmatch(run_id):
        raise NotFound
    name = LAST_EVENT_ID if LAST_EVENT_ID in request.headers else "after"
    response = await reattach(request, SessionKey(user_id=user_of(request), session_id=session_id), run_id, name)
    if response is None:
        raise NotFound
    return response

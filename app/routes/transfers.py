"""Export, import and fork of a session."""

from collections.abc import Awaitable

from fastapi import APIRouter, Request
from starlette.responses import Response

from agent_core.agent import Agent
from agent_core.errors import InvalidRequest, SessionExists
from agent_core.messages import new_id
from agent_core.names import SESSION_ID, SessionKey
from app.errors import NotFound, Refusal
from app.limits import read_lines
from app.routes.common import READ, found, json, key_of, read, view
from app.services import Services, services_of
from converters.fields import needed_text, text_at
from converters.parsing import read_object

router = APIRouter(prefix="/sessions")

IMPORT_LIMIT = 32_000_000
"""Bytes of an import."""


class Taken(Refusal):
    """The session is there already."""

    status = 409

    def __init__(self, param: str | None = None) -> None:
        super().__init__("There is a session under this id already; choose another.", param=param)


@router.api_route("/{session_id}/export", methods=READ, response_model=None)
async def export(request: Request) -> Response:
    """The whole session as lines of JSON."""
    key, info = await found(request)
    lines = await services_of(request).engine.sessions.export(key, info.title)
    name = key.session_id.replace(":", "_")  # a file on Windows may have no colon
    headers = {"content-disposition": f'attachment; filename="{name}.jsonl"'}
    return Response(lines, media_type="application/x-ndjson", headers=headers)


@router.post("/{session_id}/import", response_model=None)
async def bring_in(request: Request) -> Response:
    """Begin a session with the export of another, from here or elsewhere."""
    key = key_of(request)
    services = services_of(request)
    stored = services.engine.sessions
    if await stored.find(key) is not None:
        raise Taken
    lines = await read_lines(request, IMPORT_LIMIT)
    return await _begun(services, key, stored.bring_in(key, lines))


@router.post("/{session_id}/fork", response_model=None)
async def fork(request: Request) -> Response:
    """`{"messageId": …, "sessionId"?: …, "agent"?: …}`: a new session that goes on from that message."""
    key, _ = await found(request)
    services = services_of(request)
    members = await read(request, read_object)
    message_id = needed_text(members, "messageId")
    session_id = text_at(members, "sessionId")
    if session_id is None:
        session_id = new_id("session")
    elif not SESSION_ID.fullmatch(session_id):
        raise InvalidRequest("sessionId: 1 to 128 of A-Z a-z 0-9 . _ : - are allowed.", "sessionId")
    agent = _agent(services, text_at(members, "agent"))
    to = SessionKey(user_id=key.user_id, session_id=session_id)
    return await _begun(services, to, services.engine.sessions.fork(key, agent.name, message_id, to), "sessionId")


def _agent(services: Services, name: str | None) -> Agent:
    try:
        return services.roster.get(name)
    except NotFound as refusal:
        raise InvalidRequest(f"agent: {refusal.message}", "agent") from refusal


async def _begun(services: Services, key: SessionKey, begin: Awaitable[None], param: str | None = None) -> Response:
    """The session that `begin` begins. Raises Taken, and what `begin` does."""
    try:
        await begin
    except SessionExists:
        raise Taken(param) from None
    info = await services.engine.sessions.find(key)
    if info is None:  # deleted at once
        raise NotFound
    return json(view(info), 201)

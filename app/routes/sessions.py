"""`/sessions`: the user's own sessions: listed, read, renamed, deleted, added to and interrupted.

A session that is somebody else's, a session that nobody has and an id that no session can have are answered alike: 404.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from agent_core.errors import InvalidRequest
from agent_core.messages import Message
from agent_core.names import LONGEST_TITLE, RUN_ID, is_title
from app.auth import user_of
from app.errors import NotFound, WrongContentType
from app.routes.common import READ, found, json, key_of, known, number_of, read, view
from app.services import services_of
from converters.agui.messages_out import to_agui
from converters.agui.observed import parse_observed
from converters.fields import needed_text, text_at
from converters.parsing import read_object
from converters.wire import to_json

router = APIRouter(prefix="/sessions")

SESSIONS, MOST_SESSIONS = 50, 200
"""How many sessions a page has, and how many a client may ask for."""

MOST_MESSAGES = 1_000
"""How many messages a client may ask for with `limit`; without it all are sent."""


@router.api_route("", methods=READ, response_model=None)
async def sessions(request: Request) -> Response:
    """`?limit=&after=`: the sessions, the last written first. `next` begins the next page."""
    limit = number_of(request, "limit", MOST_SESSIONS)
    after = request.query_params.get("after")
    stored = services_of(request).engine.sessions
    page = await stored.page(user_of(request), SESSIONS if limit is None else limit, after)
    return json({"sessions": [view(info) for info in page.sessions], "next": page.next})


@router.api_route("/{session_id}", methods=READ, response_model=None)
async def session(request: Request) -> Response:
    """One session: its state, the agents that have a history in it, and its run if one is under way here."""
    key, info = await found(request)
    engine = services_of(request).engine
    outline = await engine.sessions.outline(key)
    running = next(iter(engine.under_way(key)), None)
    return json(
        view(info)
        | {
            "agents": outline.agents,
            "run": None if running is None else {"runId": running.run_id, "agent": running.agent.name},
            "state": outline.state,
        }
    )


@router.api_route("/{session_id}/messages", methods=READ, response_model=None)
async def messages(request: Request) -> Response:
    """`?agent=&limit=&before=`: an agent's messages as AG-UI has them, under the ids of their streams.

    `limit` cuts to the last ones, or those before the message `before`; `more` says whether there are earlier ones.
    """
    key, _ = await found(request)
    services = services_of(request)
    agent = services.roster.get(request.query_params.get("agent"))
    limit = number_of(request, "limit", MOST_MESSAGES)
    before = request.query_params.get("before")
    page = await services.engine.sessions.messages(
        key, agent.name, lambda stored: _page_of(stored, agent.name, limit, before)
    )
    return Response(page, media_type="application/json")


def _page_of(stored: Sequence[Message], agent: str, limit: int | None, before: str | None) -> bytes:
    """Raises InvalidRequest if there is no message `before`."""
    shown = to_agui(stored)
    if before is not None:
        place = next((n for n, each in enumerate(shown) if each["id"] == before), None)
        if place is None:
            raise InvalidRequest("before: the agent has no such message in this session.", "before")
        shown = shown[:place]
    first = 0 if limit is None else max(0, len(shown) - limit)
    return to_json({"messages": shown[first:], "agent": agent, "more": first > 0})


@router.patch("/{session_id}", response_model=None)
async def rename(request: Request) -> Response:
    """`{"title": …}`: the session with its new title."""
    key, _ = await found(request)
    services = services_of(request)
    members = await read(request, read_object)
    title = needed_text(members, "title").strip()
    if not is_title(title):
        raise InvalidRequest(
            f"title: 1 to {LONGEST_TITLE} characters are allowed, in one line, none of them invisible.",
            "title",
        )
    if not await services.engine.sessions.rename(key, title):
        raise NotFound
    return json(view((await found(request))[1]))


@router.delete("/{session_id}", response_model=None)
async def delete(request: Request) -> Response:
    """Remove the session with everything in it; its run is stopped first."""
    key = await known(request)
    services = services_of(request)
    if not await services.engine.sessions.delete(key):
        raise NotFound
    services.runs.forget(key.user_id, key.session_id)
    return Response(status_code=204)


@router.post("/{session_id}/observe", response_model=None)
async def observe(request: Request) -> Response:
    """`?agent=`, `{"messages": […]}`: add to what the agent knows, without a run; that may begin the session."""
    key = key_of(request)
    services = services_of(request)
    agent = services.roster.get(request.query_params.get("agent"))
    seen = await read(request, parse_observed)
    count = await services.engine.observe(agent, seen, user_id=key.user_id, session_id=key.session_id)
    return json({"observed": count})


@router.post("/{session_id}/interrupt", response_model=None)
async def interrupt(request: Request) -> Response:
    """`{"runId"?: …}`: stop the session's run, in whichever worker."""
    key = await known(request)
    services = services_of(request)
    run_id = text_at(await _optional_members(request), "runId")
    if run_id is not None and not RUN_ID.fullmatch(run_id):
        raise InvalidRequest("runId: 1 to 64 of A-Z a-z 0-9 . _ : - are allowed.", "runId")
    stopped = await services.engine.interrupt(user_id=key.user_id, session_id=key.session_id, run_id=run_id)
    return json({"interrupted": stopped})


async def _optional_members(request: Request) -> Mapping[str, Any]:
    """The members of the body; none without a body, which then needs no content type."""
    if "content-type" in request.headers:
        return await read(request, _members_of)
    async for chunk in request.stream():
        if chunk:
            raise WrongContentType("The content type must be application/json.", param="content-type")
    return {}


def _members_of(body: bytes) -> Mapping[str, Any]:
    return read_object(body) if body else {}

"""What routes share: a JSON body, a JSON answer, a number in the query, and the session that a URL names."""

from collections.abc import Callable
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from agent_core.clock import iso
from agent_core.errors import InvalidRequest
from agent_core.names import SESSION_ID, SessionKey
from agent_core.stored import SessionInfo
from app.auth import user_of
from app.errors import NotFound
from app.limits import read_json
from app.services import services_of
from converters.wire import to_json

READ = ["GET", "HEAD"]

T = TypeVar("T")


async def read(request: Request, parse: Callable[[bytes], T]) -> T:
    """What `parse` makes of the JSON body. Raises what it does, and what `read_json_body` does."""
    services = services_of(request)
    return await read_json(request, services.settings.body_limit, services.engine.aside, parse)


def json(value: object, status: int = 200) -> Response:
    """An answer in JSON."""
    return Response(to_json(value), status_code=status, media_type="application/json")


def number_of(request: Request, name: str, most: int) -> int | None:
    """The number from 1 to `most` in the query; None without one. Raises InvalidRequest."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= most):
        raise InvalidRequest(f"{name}: must be a whole number from 1 to {most}.", name)
    return int(text)


def key_of(request: Request) -> SessionKey:
    """The session that the URL names, of this user. Raises NotFound for an id that no session can have."""
    session_id = request.path_params["session_id"]
    if not SESSION_ID.fullmatch(session_id):
        raise NotFound
    return SessionKey(user_id=user_of(request), session_id=session_id)


async def found(request: Request) -> tuple[SessionKey, SessionInfo]:
    """The session that the URL names, which must be in the store. Raises NotFound."""
    key = key_of(request)
    info = await services_of(request).engine.sessions.find(key)
    if info is None:
        raise NotFound
    return key, info


async def known(request: Request) -> SessionKey:
    """The session that the URL names, which must be in the store or have a run. Raises NotFound."""
    key = key_of(request)
    return key if services_of(request).engine.under_way(key) else (await found(request))[0]


def view(info: SessionInfo) -> dict[str, Any]:
    """The session as clients see it."""
    return {
        "id": info.session_id,
        "title": info.title,
        "createdAt": iso(info.created_at),
        "updatedAt": iso(info.updated_at),
    }

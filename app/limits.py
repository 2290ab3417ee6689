"""Limits of a request: the number of its headers, the size of its body, and its content type."""

from collections.abc import Callable
from typing import TypeVar

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from agent_core.aside import Aside
from app.errors import BodyTooLarge, HeadersTooLarge, Refusal, WrongContentType, refused

LINES = frozenset({"application/x-ndjson", "application/jsonl"})
"""Never text/plain: a page of a foreign origin may send that without a CORS preflight."""


MOST_HEADERS = 100
"""How many headers a request may have."""

LARGEST_HEADERS = 32 * 1024
"""Bytes of all names and values of a request's headers together."""


class HeaderLimit:
    """Pure ASGI: answers 431 to a request with too many headers, before anything reads them or its body.

    It works under every server; each server bounds what it reads until it has a request.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = _too_many(scope["headers"]) if scope["type"] == "http" else None
        await (self.app if refusal is None else refused(scope, refusal))(scope, receive, send)


def _too_many(headers: list[tuple[bytes, bytes]]) -> HeadersTooLarge | None:
    if len(headers) > MOST_HEADERS:
        return HeadersTooLarge(f"The request has more than {MOST_HEADERS} headers.")
    if sum(len(name) + len(value) for name, value in headers) > LARGEST_HEADERS:
        return HeadersTooLarge(f"The request's headers have more than {LARGEST_HEADERS} bytes.")
    return None


PARSING = 4
"""How many times the work of reading an entry it is to parse and check as many bytes."""

T = TypeVar("T")


class UploadTooLarge(BodyTooLarge):
    def __init__(self, limit: int) -> None:
        Refusal.__init__(self, f"The lines have more than {limit} bytes.")


async def read_json_body(request: Request, limit: int) -> bytes:
    """The body of a JSON request, not yet parsed, at most `limit` bytes.

    Raises WrongContentType unless the type is `application/json` without a content encoding; parameters are allowed,
    a charset must be UTF-8. Raises BodyTooLarge as soon as the limit is passed, whatever Content-Length says, and
    starlette's ClientDisconnect, which is answered quietly.
    """
    media, *parameters = request.headers.get("content-type", "").split(";")
    if media.strip().lower() != "application/json":
        raise WrongContentType("The content type must be application/json.", param="content-type")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in ("utf-8", "utf8"):
            raise WrongContentType("The charset of a JSON body must be UTF-8.", param="content-type")
    return await _read(request, limit, BodyTooLarge)


async def read_json(request: Request, limit: int, aside: Aside, parse: Callable[[bytes], T]) -> T:
    """What `parse` makes of the body that `read_json_body` reads; a large one is parsed beside the event loop.

    Raises what either does.
    """
    body = await read_json_body(request, limit)
    return await aside(PARSING * len(body), parse, body)


async def read_lines(request: Request, limit: int) -> bytes:
    """The body, at most `limit` bytes of a type in LINES. Raises what `read_json_body` does, but UploadTooLarge."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() not in LINES:
        raise WrongContentType("The content type must be application/x-ndjson.", param="content-type")
    return await _read(request, limit, UploadTooLarge)


async def _read(request: Request, limit: int, too_large: type[BodyTooLarge]) -> bytes:
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise WrongContentType("A compressed body is not accepted.", param="content-encoding")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > limit:
        raise too_large(limit)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise too_large(limit)
    return bytes(body)

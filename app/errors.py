"""What a client is told when a request fails before the first byte of its stream.

One shape everywhere, at any depth of the server, whoever notices the failure:

    {"error": {"message": "…", "type": "…", "param": "…" | null, "code": "…", "request_id": "req_…"}}

`code` is one of `agent_core.errors.Code`; `type` is a coarse class in OpenAI's words. The text is
ours: it never repeats what an exception, a library or a provider said. Once a stream has begun,
failures are RUN_ERROR events instead.

    Refusal                 any answer that is not the one asked for
    ├── Unauthorized        401  no key, or a wrong one
    ├── Forbidden           403  a Host or an Origin that is not allowed
    ├── NotFound            404
    ├── BodyTooLarge        413
    ├── WrongContentType    415
    └── Draining            503  the server is shutting down
"""

import logging
from collections.abc import Mapping, MutableMapping
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_core.errors import SENTENCES, Code, InvalidRequest, QueueFull, RunError, SessionBusy
from agent_core.messages import new_id, well_formed

LONGEST_MESSAGE = 2_000
"""Characters of a message that are sent; what is longer was made from the client's own input."""

LONGEST_PARAM = 300

RETRY_SECONDS = 5
"""What Retry-After says while the server drains: about the time another worker needs to take over."""

_log = logging.getLogger("ostinato")


class Refusal(Exception):
    """An answer in the error shape. `message` defaults to our sentence for the code."""

    status = 400
    code: Code = "invalid_request"

    def __init__(
        self, message: str = "", *, param: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        self.message = message or SENTENCES[self.code]
        self.param = param
        self.headers = dict(headers or {})
        super().__init__(self.message)


class Unauthorized(Refusal):
    status = 401
    code: Code = "unauthorized"

    def __init__(self, message: str = "") -> None:
        super().__init__(message, headers={"www-authenticate": "Bearer"})


class Forbidden(Refusal):
    status = 403
    code: Code = "unauthorized"


class NotFound(Refusal):
    status = 404
    code: Code = "not_found"


class BodyTooLarge(Refusal):
    """`limit` is in bytes."""

    status = 413
    code: Code = "body_too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(f"The request body is larger than {limit} bytes (OSTINATO_BODY_LIMIT).")


class WrongContentType(Refusal):
    """The body is not JSON in UTF-8. The stricter check also keeps browsers from skipping the preflight."""

    status = 415


class Draining(Refusal):
    status = 503
    code: Code = "draining"

    def __init__(self) -> None:
        super().__init__(headers={"retry-after": str(RETRY_SECONDS)})


def request_id(scope: MutableMapping[str, Any]) -> str:
    """The id of this request, `req_…`: made at the first look, the same ever after."""
    state: dict[str, Any] = scope.setdefault("state", {})
    if "request_id" not in state:
        state["request_id"] = new_id("req")
    return str(state["request_id"])


def error_answer(
    scope: MutableMapping[str, Any],
    status: int,
    code: Code,
    message: str = "",
    *,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The response in the error shape, always below 64 kB. `message` defaults to our sentence."""
    identity = request_id(scope)
    error = {
        "message": well_formed((message or SENTENCES[code])[:LONGEST_MESSAGE]),
        "type": _type_of(status),
        "param": None if param is None else well_formed(param[:LONGEST_PARAM]),
        "code": code,
        "request_id": identity,
    }
    return Response(
        orjson.dumps({"error": error}),
        status_code=status,
        headers={**(headers or {}), "x-request-id": identity},
        media_type="application/json",
    )


def refuse(scope: MutableMapping[str, Any], refusal: Refusal) -> Response:
    """The response to a Refusal, for middleware, which exception handlers do not reach."""
    return error_answer(
        scope, refusal.status, refusal.code, refusal.message, param=refusal.param, headers=refusal.headers
    )


async def read_json_body(request: Request, limit: int) -> bytes:
    """The body of a JSON request, not yet parsed, at most `limit` bytes.

    Raises WrongContentType unless the type is `application/json` (parameters are allowed, a charset
    must be UTF-8) without a content encoding, BodyTooLarge as soon as the limit is passed, whatever
    Content-Length says, and starlette's ClientDisconnect, which is answered quietly.
    """
    _check_content_type(request)
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > limit:
        raise BodyTooLarge(limit)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise BodyTooLarge(limit)
    return bytes(body)


def _check_content_type(request: Request) -> None:
    media, *parameters = request.headers.get("content-type", "").split(";")
    if media.strip().lower() != "application/json":
        raise WrongContentType("The content type must be application/json.", param="content-type")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in ("utf-8", "utf8"):
            raise WrongContentType("The charset of a JSON body must be UTF-8.", param="content-type")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise WrongContentType("A compressed body is not accepted.", param="content-encoding")


class Answers:
    """Pure ASGI: gives each response its `x-request-id`, and turns the unexpected into a 500.

    The log gets the traceback with the request id, method and path; never headers, query or body.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        identity = request_id(scope)
        header = (b"x-request-id", identity.encode())
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if not started and message["type"] == "http.response.start":
                started = True
                headers = [pair for pair in message.get("headers", ()) if pair[0] != b"x-request-id"]
                message = {**message, "headers": [*headers, header]}
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except Exception:
            if started:
                # The status is out: only a connection that breaks can still tell the client.
                raise
            _log.exception("request %s failed: %s %r", identity, scope["method"], scope["path"])
            await error_answer(scope, 500, "internal", _internal(identity))(scope, receive, send)


def install_handlers(app: FastAPI) -> None:
    """Answer every exception that a route may raise on purpose in the one shape."""
    app.add_exception_handler(Refusal, _on_refusal)
    app.add_exception_handler(InvalidRequest, _on_invalid_request)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(SessionBusy, _on_session_busy)
    app.add_exception_handler(QueueFull, _on_queue_full)
    app.add_exception_handler(RunError, _on_run_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(ClientDisconnect, _on_disconnect)


async def _on_refusal(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, Refusal)
    return refuse(request.scope, exc)


async def _on_invalid_request(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, InvalidRequest)
    return error_answer(request.scope, 400, "invalid_request", exc.message, param=exc.param)


async def _on_validation(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, RequestValidationError)
    where = exc.errors()[0]["loc"] if exc.errors() else ()
    param = ".".join(str(step) for step in where[1:]) or None
    return error_answer(request.scope, 400, "invalid_request", param=param)


async def _on_session_busy(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, SessionBusy)
    message = f"Run {exc.run_id} of this session is under way."
    return error_answer(request.scope, 409, "session_busy", message, headers={"x-should-retry": "false"})


async def _on_queue_full(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, QueueFull)
    return error_answer(request.scope, 429, "queue_full", headers={"retry-after": str(exc.retry_after)})


async def _on_run_error(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, RunError)
    if exc.code == "draining":
        return refuse(request.scope, Draining())
    status = RUN_ERROR_STATUS.get(exc.code, 502 if exc.code.startswith("model_") else 500)
    _log.warning("request %s was refused: %s", request_id(request.scope), exc.code)
    return error_answer(request.scope, status, exc.code, exc.message)


RUN_ERROR_STATUS: Mapping[Code, int] = {
    "invalid_request": 400,
    "context_overflow": 400,
    "unauthorized": 401,
    "not_found": 404,
    "session_busy": 409,
    "session_busy_timeout": 409,
    "rate_limited": 429,
    "queue_full": 429,
    "model_quota": 429,
    "store_unavailable": 503,
    "model_timeout": 504,
}


async def _on_http_exception(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    if exc.status_code == 405:
        message = f"{request.method} is not possible here."
        return error_answer(request.scope, 405, "invalid_request", message, headers=exc.headers)
    if exc.status_code == 404:
        return error_answer(request.scope, 404, "not_found", headers=exc.headers)
    code: Code = "internal" if exc.status_code >= 500 else "invalid_request"
    return error_answer(request.scope, exc.status_code, code, headers=exc.headers)


async def _on_disconnect(request: Request, _exc: Exception) -> Response:
    """The client left while its body was read: nobody hears the answer, and nothing is wrong here."""
    return error_answer(request.scope, 400, "invalid_request")


def _internal(identity: str) -> str:
    return f"Something went wrong in the server. The log has the details under {identity}."


def _type_of(status: int) -> str:
    known = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
    return known.get(status, "server_error" if status >= 500 else "invalid_request_error")

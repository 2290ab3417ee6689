"""What a client is told when a request fails before the first byte of its stream.

One shape everywhere, whichever layer notices the failure:

    {"error": {"message": "…", "type": "…", "param": "…" | null, "code": "…", "request_id": "req_…"}}

`code` is one of `agent_core.errors.Code`, and STATUS has the HTTP status of each; `type` is a coarse class in OpenAI's
words. The text is ours: it never repeats what an exception, a library or a provider said. Once a stream has begun,
failures are RUN_ERROR events instead.

Routes may raise the tree of `agent_core.errors`, and these:

    Refusal                 any answer that is not the one asked for
    ├── Unauthorized        401  no key, or a wrong one
    ├── Forbidden           403  a Host or an Origin that is not allowed
    ├── NotFound            404
    ├── BodyTooLarge        413
    ├── WrongContentType    415
    └── HeadersTooLarge     431
"""

import logging
import math
from collections.abc import Mapping, MutableMapping
from typing import Any

import orjson
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_core.errors import SENTENCES, Code, InvalidRequest, ModelError, QueueFull, RunError, SessionBusy
from agent_core.events import RunFailed
from agent_core.messages import new_id
from converters.parsing import LONGEST_MESSAGE, LONGEST_PATH, shorten

STATUS: Mapping[Code, int] = {
    "invalid_request": 400,
    "context_overflow": 400,
    "unauthorized": 401,
    "not_found": 404,
    "session_busy": 409,
    "session_busy_timeout": 409,
    "body_too_large": 413,
    "rate_limited": 429,
    "queue_full": 429,
    "model_quota": 429,
    "model_auth": 502,
    "model_bad_answer": 502,
    "model_refused": 502,
    "model_unreachable": 502,
    "worker_lost": 502,
    "internal": 502,
    "draining": 503,
    "store_unavailable": 503,
    "model_timeout": 504,
    "run_deadline": 504,
}
"""The HTTP status of each code. Clients try 409, 429 and 5xx again by themselves."""

IN_VAIN: frozenset[Code] = frozenset({"session_busy", "model_auth", "model_refused"})
"""Codes whose answers say `x-should-retry: false`: the same request again would change nothing."""

RETRY_SECONDS = 5
"""Retry-After of a server that drains: about the time that another worker needs to take over."""

logger = logging.getLogger(__name__)


class Refusal(Exception):
    """An answer in the error shape. `message` defaults to our sentence for the code, `status` to the code's own."""

    code: Code = "invalid_request"
    status: int | None = None

    def __init__(
        self, message: str = "", *, param: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        self.message = message or SENTENCES[self.code]
        self.param = param
        self.headers = dict(headers or {})
        super().__init__(self.message)


class Unauthorized(Refusal):
    code: Code = "unauthorized"

    def __init__(self, message: str = "") -> None:
        super().__init__(message, headers={"www-authenticate": "Bearer"})


class Forbidden(Refusal):
    code: Code = "unauthorized"
    status = 403


class NotFound(Refusal):
    code: Code = "not_found"


class BodyTooLarge(Refusal):
    """`limit` is in bytes."""

    code: Code = "body_too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(f"The request body is larger than {limit} bytes (OSTINATO_BODY_LIMIT).")


class WrongContentType(Refusal):
    """The body is not JSON in UTF-8. With another content type a browser would send it without a preflight."""

    status = 415


class HeadersTooLarge(Refusal):
    """RFC 6585, section 5."""

    status = 431


def request_id(scope: MutableMapping[str, Any]) -> str:
    """The id of this request, `req_…`: made at the first call, the same afterwards."""
    state: dict[str, Any] = scope.setdefault("state", {})
    if "request_id" not in state:
        state["request_id"] = new_id("req")
    return str(state["request_id"])


def error_answer(
    scope: MutableMapping[str, Any],
    code: Code,
    message: str = "",
    *,
    param: str | None = None,
    status: int | None = None,
    retry_after: float | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The response in the error shape, always below 64 kB.

    - message: empty for our sentence for the code
    - status: None for the code's own
    - retry_after: seconds, rounded up for the header Retry-After
    """
    identity = request_id(scope)
    status = STATUS[code] if status is None else status
    error = {
        "message": shorten(message or SENTENCES[code], LONGEST_MESSAGE),
        "type": _type_of(status),
        "param": None if param is None else shorten(param, LONGEST_PATH),
        "code": code,
        "request_id": identity,
    }
    told = {**(headers or {}), "x-request-id": identity}
    if retry_after is not None:
        told["retry-after"] = str(math.ceil(retry_after))
    if code in IN_VAIN:
        told["x-should-retry"] = "false"
    return Response(orjson.dumps({"error": error}), status_code=status, headers=told, media_type="application/json")


def run_error_answer(scope: MutableMapping[str, Any], error: RunError | RunFailed) -> Response:
    """The response to a run that failed, or could not begin, before anything of it was sent."""
    retry_after = error.retry_after if isinstance(error, ModelError | RunFailed) else None
    if error.code == "draining":
        retry_after = RETRY_SECONDS
    param = error.param if isinstance(error, RunFailed) else None
    return error_answer(scope, error.code, error.message, param=param, retry_after=retry_after)


def refuse(scope: MutableMapping[str, Any], refusal: Refusal) -> Response:
    """The response to a Refusal, for middleware, which exception handlers do not reach."""
    return error_answer(
        scope, refusal.code, refusal.message, param=refusal.param, status=refusal.status, headers=refusal.headers
    )


class Answers:
    """Pure ASGI: gives each response its `x-request-id`, and turns the unexpected into an answer.

    It logs the traceback with the request id, method and path; never headers, query or body.
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
                # The status is sent: only a broken connection can still tell the client.
                raise
            logger.exception("request %s failed: %s %r", identity, scope["method"], scope["path"])
            await error_answer(scope, "internal", _internal(identity))(scope, receive, send)


def install_handlers(app: FastAPI) -> None:
    """Answer every exception that a route may raise on purpose in the one shape."""
    app.add_exception_handler(Refusal, _on_refusal)
    app.add_exception_handler(InvalidRequest, _on_invalid_request)
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
    return error_answer(request.scope, "invalid_request", exc.message, param=exc.param)


async def _on_session_busy(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, SessionBusy)
    return error_answer(request.scope, "session_busy", f"Run {exc.run_id} of this session is under way.")


async def _on_queue_full(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, QueueFull)
    return error_answer(request.scope, "queue_full", retry_after=exc.retry_after)


async def _on_run_error(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, RunError)
    return run_error_answer(request.scope, exc)


async def _on_http_exception(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    code: Code = "not_found" if exc.status_code == 404 else "invalid_request"
    message = f"{request.method} is not possible here." if exc.status_code == 405 else ""
    return error_answer(request.scope, code, message, status=exc.status_code, headers=exc.headers)


async def _on_disconnect(request: Request, _exc: Exception) -> Response:
    """The client left while its body was read: nobody reads the answer, and nothing is wrong here."""
    return error_answer(request.scope, "invalid_request")


def _internal(identity: str) -> str:
    return f"Something went wrong in the server. The log has the details under {identity}."


def _type_of(status: int) -> str:
    known = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
    return known.get(status, "server_error" if status >= 500 else "invalid_request_error")

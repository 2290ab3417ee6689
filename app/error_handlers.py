"""Every failure of a request becomes an answer in the one shape of `app.errors`, whoever raises it."""

import logging

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_core.errors import Code, InvalidRequest, QueueFull, RunError, SessionBusy
from app.errors import Refusal, error_answer, refused, request_id, run_error_answer

logger = logging.getLogger(__name__)


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
    return refused(request.scope, exc)


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

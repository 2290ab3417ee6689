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
from starlette.responses import Response

from agent_core.errors import SENTENCES, Code, ModelError, RunError
from agent_core.events import RunFailed
from agent_core.messages import new_id
from converters.openai.errors import TYPES
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
        "type": "permission_error" if status == 403 else TYPES.get(code, "server_error"),
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


def refused(scope: MutableMapping[str, Any], refusal: Refusal) -> Response:
    """The response to a Refusal, for middleware, which exception handlers do not reach."""
    return error_answer(
        scope, refusal.code, refusal.message, param=refusal.param, status=refusal.status, headers=refusal.headers
    )

"""A run's failure in the middle of a stream, in OpenAI's shape.

The HTTP status has gone out by then, so the failure is told in a frame of its own. OpenAI's clients raise it as an
error. An earlier failure becomes an HTTP status, which is not made here.
"""

from collections.abc import Mapping

from agent_core.errors import Code
from converters.parsing import LONGEST_MESSAGE, shorten
from converters.wire import server_sent, to_json

TYPES: Mapping[Code, str] = {
    "invalid_request": "invalid_request_error",
    "context_overflow": "invalid_request_error",
    "not_found": "invalid_request_error",
    "session_busy": "invalid_request_error",
    "session_busy_timeout": "invalid_request_error",
    "body_too_large": "invalid_request_error",
    "unauthorized": "authentication_error",
    "rate_limited": "rate_limit_error",
    "queue_full": "rate_limit_error",
    "model_quota": "rate_limit_error",
}
"""OpenAI's word for the class of each code. Every other code is a `server_error`."""


def error_frame(code: Code, message: str) -> bytes:
    """One server-sent event `{"error": {"message", "type", "param", "code"}}`. `param` is null, because the failure
    comes from no field of the request."""
    error = {
        "message": shorten(message, LONGEST_MESSAGE),
        "type": TYPES.get(code, "server_error"),
        "param": None,
        "code": code,
    }
    return server_sent(to_json({"error": error}))

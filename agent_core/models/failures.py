"""Refusals of providers and faults of the network, each as a ModelError with our code.

The provider's own words go into `detail`, cut and without the caller's key, and from there only to the log. Providers
agree on little but the HTTP status. So the words of their error (code, type, status) are read first where they say more
than the HTTP status does.
"""

import math
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from agent_core.errors import Code, ModelError

SNIPPET = 500
"""Characters of a provider's answer that go to the log."""

OVERFLOW = re.compile(
    r"context.length|context.window|maximum context|exceeds? the (available )?context|(prompt|input).is.too.long"
)
EXHAUSTED = re.compile(r"insufficient_quota|billing|insufficient.balance|insufficient_credits")
RATE = re.compile(r"rate.?limit|too_many_requests|resource_exhausted|quota")
AUTH = re.compile(r"api.key.(is.)?(not.valid|invalid)|(invalid|incorrect).api.key|authentication|unauthenticated")
DENIED = re.compile(r"permission.denied|permission_error|unauthorized")
SERVER = re.compile(r"server.?error|overloaded|unavailable|internal|timeout|upstream|bad.gateway")
REFUSED = re.compile(r"invalid.?request|not.?found|invalid_argument|unsupported|content_filter|bad.?request")


def snippet(said: bytes | str, hide: Collection[str] = ()) -> str:
    """The text in one line of at most SNIPPET characters, with each secret in `hide` masked."""
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    for secret in hide:
        if secret:
            text = text.replace(secret, "***")
    return " ".join(text.split())[:SNIPPET]


def secrets_in(headers: Mapping[str, str]) -> tuple[str, ...]:
    """The header values that must never be logged: keys, and the token of an Authorization."""
    kept = (value for name, value in headers.items() if re.search(r"authorization|key|token|secret", name.lower()))
    return tuple(value.split()[-1] for value in kept if value.strip())


def seconds_until(retry_after: str | None) -> float | None:
    """Retry-After in seconds. It comes as a number or as a date (RFC 9110, 10.2.3).

    None if it is missing or cannot be read. A time in the past is 0.
    """
    if not retry_after:
        return None
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            moment = parsedate_to_datetime(retry_after)
        except ValueError:
            return None
        seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None


def failed_status(status: int, body: bytes, *, retry_after: str | None, hide: Collection[str]) -> ModelError:
    """The error for an answer whose status is not 2xx. `body` may be cut."""
    code: Code = "model_bad_answer"
    retryable = False
    if status >= 400:
        code, retryable = _classified(status, _error_of(body), snippet(body))
    return ModelError(
        code,
        detail=f"HTTP {status}: {snippet(body, hide)}",
        status=status,
        retryable=retryable,
        retry_after=seconds_until(retry_after) if retryable else None,
    )


def failed_frame(error: Any, *, hide: Collection[str]) -> ModelError:
    """The error for an `error` member in the body of an answer whose status was 200."""
    members = error if isinstance(error, dict) else {}
    status = next((found for name in ("code", "status") if (found := _status(members.get(name)))), None)
    said = orjson.dumps(error, default=str)
    code, retryable = _classified(status, members, snippet(said))
    detail = f"error in the answer: {snippet(said, hide)}"
    return ModelError(code, detail=detail, status=status, retryable=retryable)


def failed_transport(error: Exception, hide: Collection[str]) -> ModelError | None:
    """The error for an exception of httpx, aiohttp or the system; None for any other exception.

    If a connection is closed before the headers, aiohttp's transport raises httpx.ConnectTimeout. Only the cause tells
    it from a real time-out. A status line that is no HTTP comes as aiohttp's own exception.
    """
    # Imported late: a server that never calls a provider need not load them.
    import aiohttp
    import httpx
    from aiohttp.http import HttpProcessingError

    root = error.__cause__ if isinstance(error.__cause__, aiohttp.ClientError) else error
    detail = snippet(f"{type(root).__name__}: {root}", hide)
    if isinstance(root, TimeoutError | httpx.TimeoutException):
        return ModelError("model_timeout", detail=detail, retryable=True)
    unusable = aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError | httpx.UnsupportedProtocol | httpx.InvalidURL
    if isinstance(root, unusable | ValueError):
        return ModelError("model_unreachable", detail=detail)
    if isinstance(root, aiohttp.ClientResponseError | HttpProcessingError | httpx.DecodingError):
        return ModelError("model_bad_answer", detail=detail)
    if isinstance(root, aiohttp.ClientError | httpx.HTTPError | OSError):
        return ModelError("model_unreachable", detail=detail, retryable=True)
    return None


def _classified(status: int | None, error: Mapping[str, Any], said: str) -> tuple[Code, bool]:
    """The code, and whether it may help to send the request again."""
    words = " ".join(str(error.get(name) or "") for name in ("code", "type", "status")).lower()
    message = str(error.get("message") or said).lower()
    if status in (None, 400, 413, 422) and OVERFLOW.search(f"{words} {message}"):
        return "context_overflow", False
    if status == 402 or (status in (None, 403, 429) and EXHAUSTED.search(words)):
        return "model_quota", False
    if status in (401, 403) or (status == 400 and AUTH.search(f"{words} {message}")):
        return "model_auth", False
    if status is None:
        return _by_words(words)
    if status == 429:
        return "model_quota", True
    if status in (408, 409) or status >= 500:
        return "model_unreachable", True
    return "model_refused", False


def _by_words(words: str) -> tuple[Code, bool]:
    if RATE.search(words):
        return "model_quota", True
    if AUTH.search(words) or DENIED.search(words):
        return "model_auth", False
    if REFUSED.search(words):
        return "model_refused", False
    if SERVER.search(words):
        return "model_unreachable", True
    return "model_bad_answer", False


def _error_of(body: bytes) -> Mapping[str, Any]:
    """The `error` object of an error body, else the body itself. Some providers put the body in a list."""
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    if isinstance(said, list) and said:
        said = said[0]
    if not isinstance(said, dict):
        return {}
    error = said.get("error")
    return error if isinstance(error, dict) else said


def _status(value: Any) -> int | None:
    """The value as an HTTP status of an error, or None. It may be a number or a text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
        value = int(value)
    return value if isinstance(value, int) and 400 <= value < 600 else None

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from agent_core.models.failures import (
    SNIPPET,
    failed_frame,
    failed_status,
    failed_transport,
    seconds_until,
    secrets_in,
    snippet,
)


def body(message: str = "", **members: Any) -> bytes:
    return json.dumps({"error": {"message": message, **members}}).encode()


@pytest.mark.parametrize(
    ("status", "said", "code", "retryable"),
    [
        (302, b"", "model_bad_answer", False),
        (400, body("bad"), "model_refused", False),
        (400, body("long", code="context_length_exceeded"), "context_overflow", False),
        (400, body("This model's maximum context length is 8192 tokens."), "context_overflow", False),
        (400, b'{"detail": "prompt is too long"}', "context_overflow", False),
        (400, b'[{"error": {"message": "API key not valid.", "status": "INVALID_ARGUMENT"}}]', "model_auth", False),
        (401, body("who?"), "model_auth", False),
        (402, body("pay"), "model_quota", False),
        (403, b"<html>no</html>", "model_auth", False),
        (404, body("no such model"), "model_refused", False),
        (408, b"", "model_unreachable", True),
        (409, b"", "model_unreachable", True),
        (413, b"", "model_refused", False),
        (422, b"", "model_refused", False),
        (429, body("slow down", code="rate_limit_exceeded"), "model_quota", True),
        (429, b"", "model_quota", True),
        (429, body("no money", code="insufficient_quota"), "model_quota", False),
        (429, body("no money", type="billing_not_active"), "model_quota", False),
        (500, body("oops"), "model_unreachable", True),
        (502, b"<html>bad gateway</html>", "model_unreachable", True),
        (503, b"", "model_unreachable", True),
        (504, b"", "model_unreachable", True),
        (524, b"<html>", "model_unreachable", True),
        (529, b"", "model_unreachable", True),
    ],
)
def test_a_status_has_its_code(status: int, said: bytes, code: str, retryable: bool) -> None:
    error = failed_status(status, said, retry_after=None, hide=())
    assert (error.code, error.retryable, error.status) == (code, retryable, status)


def test_retry_after_is_known_where_a_retry_may_help() -> None:
    assert failed_status(429, b"", retry_after="7", hide=()).retry_after == 7
    assert failed_status(503, b"", retry_after="0.5", hide=()).retry_after == 0.5
    assert failed_status(401, b"", retry_after="7", hide=()).retry_after is None


def test_retry_after_may_be_a_date() -> None:
    soon = seconds_until(format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True))
    assert soon is not None
    assert 3000 < soon <= 3600
    assert seconds_until("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert seconds_until("Wed, 21 Oct 2015 07:28:00") == 0


@pytest.mark.parametrize("unreadable", [None, "", "soon", "nan", "inf", "99/99"])
def test_a_retry_after_that_cannot_be_read_is_none(unreadable: str | None) -> None:
    assert seconds_until(unreadable) is None


def test_a_negative_retry_after_is_now() -> None:
    assert seconds_until("-5") == 0


def test_a_snippet_is_one_bounded_line_without_secrets() -> None:
    assert snippet(b"a\r\n b \xff sk-1 sk-1", ["sk-1", ""]) == "a b \ufffd *** ***"
    assert len(snippet("x" * 10_000)) == 500
    # Masked before it is cut: a key across the edge would leave its first half.
    assert "sk-1" not in snippet("x" * 498 + "sk-12345", ["sk-12345"])


def test_secrets_are_the_keys_and_the_token_of_an_authorization() -> None:
    headers = {"Authorization": "Bearer sk-1", "x-api-key": "sk-2", "content-type": "x", "authorization": " "}
    assert secrets_in(headers) == ("sk-1", "sk-2")


def test_an_exception_that_is_no_transport_s_is_not_translated() -> None:
    assert failed_transport(KeyError("x"), ()) is None


def test_a_key_at_the_cut_of_a_long_message_is_masked_first() -> None:
    key = "sk-abcdefghijklmnopqrstuvwxyz-0123456789"
    error = failed_frame({"message": "x" * (SNIPPET - 40) + " bad key " + key}, hide=(key,))
    assert "sk-a" not in error.detail

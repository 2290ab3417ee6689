"""The frame that tells a failure in the middle of a stream."""

import json

import pytest

from agent_core.errors import SENTENCES, Code
from app.errors import STATUS
from converters.openai.errors import error_frame
from tests.converters.openai.streams import read

CLASSES = {401: "authentication_error", 429: "rate_limit_error"}


@pytest.mark.parametrize("code", SENTENCES)
def test_a_code_has_the_class_of_its_http_status(code: Code) -> None:
    [told] = read(error_frame(code, "m"))
    assert isinstance(told, dict)
    status = STATUS[code]
    expected = CLASSES.get(status, "invalid_request_error" if status < 500 else "server_error")
    assert told == {"error": {"message": "m", "type": expected, "param": None, "code": code}}


def test_a_message_is_well_formed_and_bounded() -> None:
    frame = error_frame("internal", "\ud800\n\n" + "x" * 100_000)
    assert len(frame) < 5_000
    assert json.loads(frame.removeprefix(b"data: "))["error"]["message"].startswith("\ufffd\n\n")

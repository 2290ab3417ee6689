"""One shape for everything that fails before the first byte of a stream."""

import json
import logging
from collections.abc import AsyncIterator
from typing import Any, get_args

import httpx
import pytest
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from agent_core.errors import (
    SENTENCES,
    Code,
    CoreError,
    InvalidRequest,
    ModelError,
    QueueFull,
    RunError,
    SessionBusy,
)
from agent_core.events import RunFailed
from app.error_handlers import Answers, install_handlers
from app.errors import (
    STATUS,
    BodyTooLarge,
    Forbidden,
    NotFound,
    Unauthorized,
    run_error_answer,
)


def app_that_raises(error: Exception) -> FastAPI:
    app = FastAPI(openapi_url=None)
    install_handlers(app)
    app.add_middleware(Answers)

    @app.get("/raise", response_model=None)
    async def fail() -> Response:
        raise error

    @app.get("/good", response_model=None)
    async def good() -> Response:
        return PlainTextResponse("good")

    @app.get("/stream", response_model=None)
    async def stream() -> Response:
        async def body() -> AsyncIterator[bytes]:
            yield b"begun"
            raise error

        return StreamingResponse(body())

    return app


def client(error: Exception | None = None) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app_that_raises(error or RuntimeError("the secret")))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


async def answer_to(error: Exception) -> httpx.Response:
    async with client(error) as http:
        return await http.get("/raise")


def shape(response: httpx.Response) -> dict[str, Any]:
    """The error of a response. Checks the parts that all errors share."""
    assert response.headers["content-type"] == "application/json"
    assert list(response.json()) == ["error"]
    error: dict[str, Any] = response.json()["error"]
    assert list(error) == ["message", "type", "param", "code", "request_id"]
    assert error["request_id"] == response.headers["x-request-id"]
    assert response.headers.get_list("x-request-id") == [error["request_id"]]
    assert error["request_id"].startswith("req_")
    return error


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (InvalidRequest("Bad.", "messages[2].content"), 400, "invalid_request_error", "invalid_request"),
        (Unauthorized(), 401, "authentication_error", "unauthorized"),
        (Forbidden("No.", param="host"), 403, "permission_error", "unauthorized"),
        (NotFound(), 404, "invalid_request_error", "not_found"),
        (SessionBusy("run_1"), 409, "invalid_request_error", "session_busy"),
        (BodyTooLarge(5), 413, "invalid_request_error", "body_too_large"),
        (QueueFull(7), 429, "rate_limit_error", "queue_full"),
        (RunError("draining"), 503, "server_error", "draining"),
        (RunError("store_unavailable"), 503, "server_error", "store_unavailable"),
        (ModelError("model_auth"), 502, "server_error", "model_auth"),
        (ModelError("model_timeout"), 504, "server_error", "model_timeout"),
        (RuntimeError("the secret"), 502, "server_error", "internal"),
        (CoreError("the secret"), 502, "server_error", "internal"),
        (HTTPException(416), 416, "invalid_request_error", "invalid_request"),
    ],
)
async def test_each_failure_has_its_status_type_and_code(error: Exception, status: int, kind: str, code: str) -> None:
    response = await answer_to(error)
    told = shape(response)
    assert (response.status_code, told["type"], told["code"]) == (status, kind, code)


EVERY_CODE: dict[Code, int] = {
    "invalid_request": 400, "context_overflow": 400, "unauthorized": 401, "not_found": 404,
    "session_busy": 409, "session_busy_timeout": 409, "body_too_large": 413,
    "rate_limited": 429, "queue_full": 429, "model_quota": 429,
    "model_auth": 502, "model_refused": 502, "model_bad_answer": 502, "model_unreachable": 502,
    "worker_lost": 502, "internal": 502, "draining": 503, "store_unavailable": 503,
    "model_timeout": 504, "run_deadline": 504,
}  # fmt: skip


@pytest.mark.parametrize(("code", "status"), EVERY_CODE.items())
async def test_a_run_that_fails_before_its_stream_has_the_status_of_its_code(code: Code, status: int) -> None:
    response = await answer_to(RunError(code))
    told = shape(response)
    assert (response.status_code, told["code"], told["message"]) == (status, code, SENTENCES[code])
    again = response.headers.get("x-should-retry")
    assert again == ("false" if code in ("session_busy", "model_auth", "model_refused") else None)


def test_the_table_has_the_status_of_every_code() -> None:
    assert set(STATUS) == set(get_args(Code)) == set(EVERY_CODE)


async def test_an_invalid_request_names_the_field() -> None:
    told = shape(await answer_to(InvalidRequest("It must be text.", "messages[2].content")))
    assert (told["message"], told["param"]) == ("It must be text.", "messages[2].content")


def test_a_run_that_refuses_its_input_names_the_field_too() -> None:
    failed = RunFailed(run_id="r", code="invalid_request", message="no", param="resume[0].payload")
    answer = run_error_answer({}, failed)
    assert (answer.status_code, json.loads(bytes(answer.body))["error"]["param"]) == (400, "resume[0].payload")


async def test_a_busy_session_names_its_run_and_is_not_to_be_retried() -> None:
    response = await answer_to(SessionBusy("run_1"))
    assert "run_1" in shape(response)["message"]
    assert response.headers["x-should-retry"] == "false"


@pytest.mark.parametrize(
    ("error", "seconds"),
    [(QueueFull(7), "7"), (RunError("draining"), "5"), (ModelError("model_quota", retry_after=1.2), "2")],
)
async def test_what_will_pass_says_when_to_come_again(error: Exception, seconds: str) -> None:
    assert (await answer_to(error)).headers["retry-after"] == seconds


async def test_a_quota_of_unknown_length_names_no_time() -> None:
    assert "retry-after" not in (await answer_to(ModelError("model_quota"))).headers


async def test_unauthorized_says_how_to_authenticate() -> None:
    assert (await answer_to(Unauthorized())).headers["www-authenticate"] == "Bearer"


async def test_the_unexpected_is_logged_with_its_request_id_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        response = await answer_to(RuntimeError("the secret"))
    assert "the secret" not in response.text
    record = next(each for each in caplog.records if each.name == "app.error_handlers")
    assert shape(response)["request_id"] in record.getMessage()
    assert record.exc_info is not None


async def test_a_failure_after_the_first_byte_breaks_the_connection() -> None:
    async with client() as http:
        with pytest.raises(RuntimeError, match="the secret"):
            await http.get("/stream")


async def test_an_unknown_path_and_a_wrong_method_have_the_shape() -> None:
    async with client() as http:
        unknown = await http.get("/nowhere")
        wrong = await http.delete("/raise")
    assert (unknown.status_code, shape(unknown)["code"]) == (404, "not_found")
    assert (wrong.status_code, shape(wrong)["code"]) == (405, "invalid_request")
    assert wrong.headers["allow"] == "GET"


async def test_every_good_answer_has_a_request_id_of_its_own() -> None:
    async with client() as http:
        first, second = await http.get("/good"), await http.get("/good", headers={"x-request-id": "mine"})
    assert first.headers["x-request-id"].startswith("req_")
    assert len({first.headers["x-request-id"], second.headers["x-request-id"], "mine"}) == 3


async def test_an_answer_stays_small_and_well_formed_whatever_the_message_holds() -> None:
    response = await answer_to(InvalidRequest("\ud800" + "é" * 100_000, "x" * 100_000))
    told = shape(response)
    assert told["message"].startswith("\ufffdé")
    assert (len(told["message"].encode()), len(told["param"].encode())) == (4_000, 200)


async def test_a_client_that_leaves_while_its_body_is_read_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    assert (await answer_to(ClientDisconnect())).status_code == 400
    assert caplog.records == []

"""One shape for everything that fails before the first byte of a stream."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from agent_core.errors import CoreError, InvalidRequest, ModelError, QueueFull, RunError, SessionBusy
from app.errors import (
    Answers,
    BodyTooLarge,
    Draining,
    Forbidden,
    NotFound,
    Unauthorized,
    install_handlers,
    read_json_body,
)

LIMIT = 1000


def app_that_raises(error: Exception) -> FastAPI:
    app = FastAPI(openapi_url=None)
    install_handlers(app)
    app.add_middleware(Answers)

    @app.get("/raise", response_model=None)
    async def fail() -> Response:
        raise error

    @app.get("/number/{number}", response_model=None)
    async def number(number: int) -> Response:
        return PlainTextResponse(str(number))

    @app.get("/stream", response_model=None)
    async def stream() -> Response:
        async def body() -> AsyncIterator[bytes]:
            yield b"begun"
            raise error

        return StreamingResponse(body())

    @app.post("/body", response_model=None)
    async def body(request: Request) -> Response:
        return PlainTextResponse(str(len(await read_json_body(request, LIMIT))))

    return app


def client(error: Exception | None = None) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app_that_raises(error or RuntimeError("the secret")))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


async def answer_to(error: Exception) -> httpx.Response:
    async with client(error) as http:
        return await http.get("/raise")


def shape(response: httpx.Response) -> dict[str, Any]:
    """The error of a response, after checking what is the same in all of them."""
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
        (Draining(), 503, "server_error", "draining"),
        (RunError("draining"), 503, "server_error", "draining"),
        (RunError("store_unavailable"), 503, "server_error", "store_unavailable"),
        (ModelError("model_auth"), 502, "server_error", "model_auth"),
        (ModelError("model_timeout"), 504, "server_error", "model_timeout"),
        (RuntimeError("the secret"), 500, "server_error", "internal"),
        (CoreError("the secret"), 500, "server_error", "internal"),
    ],
)
async def test_each_failure_has_its_status_type_and_code(error: Exception, status: int, kind: str, code: str) -> None:
    response = await answer_to(error)
    told = shape(response)
    assert (response.status_code, told["type"], told["code"]) == (status, kind, code)


async def test_an_invalid_request_names_the_field() -> None:
    told = shape(await answer_to(InvalidRequest("It must be text.", "messages[2].content")))
    assert (told["message"], told["param"]) == ("It must be text.", "messages[2].content")


async def test_a_busy_session_names_its_run_and_is_not_to_be_retried() -> None:
    response = await answer_to(SessionBusy("run_1"))
    assert "run_1" in shape(response)["message"]
    assert response.headers["x-should-retry"] == "false"


@pytest.mark.parametrize(("error", "seconds"), [(QueueFull(7), "7"), (Draining(), "5"), (RunError("draining"), "5")])
async def test_what_will_pass_says_when_to_come_again(error: Exception, seconds: str) -> None:
    assert (await answer_to(error)).headers["retry-after"] == seconds


async def test_unauthorized_says_how_to_authenticate() -> None:
    assert (await answer_to(Unauthorized())).headers["www-authenticate"] == "Bearer"


async def test_the_unexpected_is_logged_with_its_request_id_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        response = await answer_to(RuntimeError("the secret"))
    assert "the secret" not in response.text
    record = next(each for each in caplog.records if each.name == "ostinato")
    assert shape(response)["request_id"] in record.getMessage()
    assert record.exc_info is not None


async def test_a_failure_after_the_first_byte_breaks_the_connection() -> None:
    async with client() as http:
        with pytest.raises(RuntimeError, match="the secret"):
            await http.get("/stream")


async def test_an_unknown_path_a_wrong_method_and_a_wrong_parameter_have_the_shape() -> None:
    async with client() as http:
        unknown = await http.get("/nowhere")
        wrong = await http.delete("/raise")
        number = await http.get("/number/one")
    assert (unknown.status_code, shape(unknown)["code"]) == (404, "not_found")
    assert (wrong.status_code, shape(wrong)["code"]) == (405, "invalid_request")
    assert wrong.headers["allow"] == "GET"
    assert (number.status_code, shape(number)["param"]) == (400, "number")


async def test_every_good_answer_has_a_request_id_of_its_own() -> None:
    async with client() as http:
        first, second = await http.get("/number/1"), await http.get("/number/1", headers={"x-request-id": "mine"})
    assert first.headers["x-request-id"].startswith("req_")
    assert len({first.headers["x-request-id"], second.headers["x-request-id"], "mine"}) == 3


async def test_an_answer_stays_small_and_well_formed_whatever_the_message_holds() -> None:
    response = await answer_to(InvalidRequest("\ud800" + "é" * 100_000, "x" * 100_000))
    assert len(response.content) < 64_000
    assert shape(response)["message"].startswith("\ufffdé")


async def post(content: bytes | AsyncIterator[bytes], **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client() as http:
        return await http.post("/body", content=content, headers=named)


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "Application/JSON", 'application/json; charset="UTF-8"', "application/json;x=y"],
)
async def test_a_json_body_is_read(content_type: str) -> None:
    response = await post(b"x" * LIMIT, content_type=content_type)
    assert (response.status_code, response.text) == (200, str(LIMIT))


@pytest.mark.parametrize(
    "content_type", ["", "text/plain", "application/json-seq", "application/json; charset=latin-1"]
)
async def test_any_other_content_type_is_refused(content_type: str) -> None:
    response = await post(b"{}", content_type=content_type)
    assert response.status_code == 415
    assert (shape(response)["code"], shape(response)["param"]) == ("invalid_request", "content-type")


async def test_a_compressed_body_is_refused() -> None:
    response = await post(b"{}", content_type="application/json", content_encoding="gzip")
    assert (response.status_code, shape(response)["param"]) == (415, "content-encoding")


async def chunks(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b"x" * 100


async def test_a_body_above_the_limit_is_refused_with_and_without_its_length() -> None:
    told = await post(b"x" * (LIMIT + 1), content_type="application/json")
    untold = await post(chunks(11), content_type="application/json")
    lied = await post(chunks(11), content_type="application/json", content_length="10")
    for response in (told, untold, lied):
        assert (response.status_code, shape(response)["code"]) == (413, "body_too_large")
    assert (await post(chunks(10), content_type="application/json")).status_code == 200


async def test_a_client_that_leaves_while_its_body_is_read_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    assert (await answer_to(ClientDisconnect())).status_code == 400
    assert caplog.records == []

"""What a request may bring, over the application's own error answers."""

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.responses import PlainTextResponse, Response

from app.error_handlers import Answers, install_handlers
from app.limits import read_json_body, read_lines

LIMIT = 1000


async def post(content: bytes | AsyncIterator[bytes], path: str = "/body", **headers: str) -> httpx.Response:
    app = FastAPI(openapi_url=None)
    install_handlers(app)
    app.add_middleware(Answers)

    @app.post("/body", response_model=None)
    async def body(request: Request) -> Response:
        return PlainTextResponse(str(len(await read_json_body(request, LIMIT))))

    @app.post("/lines", response_model=None)
    async def lines(request: Request) -> Response:
        return PlainTextResponse(str(len(await read_lines(request, LIMIT))))

    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
        return await http.post(path, content=content, headers=named)


def error(response: httpx.Response) -> tuple[str, str | None]:
    told = response.json()["error"]
    return told["code"], told["param"]


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
    assert error(response) == ("invalid_request", "content-type")


@pytest.mark.parametrize("content_type", ["application/x-ndjson", "Application/JSONL; charset=utf-8"])
async def test_lines_of_json_are_read(content_type: str) -> None:
    response = await post(b"x" * LIMIT, "/lines", content_type=content_type)
    assert (response.status_code, response.text) == (200, str(LIMIT))


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/json"])
async def test_lines_of_any_other_type_are_refused(content_type: str) -> None:
    response = await post(b"{}", "/lines", content_type=content_type)
    assert (response.status_code, error(response)) == (415, ("invalid_request", "content-type"))


TYPES = [("/body", "application/json"), ("/lines", "application/x-ndjson")]


@pytest.mark.parametrize(("path", "content_type"), TYPES)
async def test_a_compressed_body_is_refused(path: str, content_type: str) -> None:
    response = await post(b"{}", path, content_type=content_type, content_encoding="gzip")
    assert (response.status_code, error(response)) == (415, ("invalid_request", "content-encoding"))


async def chunks(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b"x" * 100


@pytest.mark.parametrize(("path", "content_type"), TYPES)
async def test_a_body_above_the_limit_is_refused_with_and_without_its_length(path: str, content_type: str) -> None:
    told = await post(b"x" * (LIMIT + 1), path, content_type=content_type)
    untold = await post(chunks(11), path, content_type=content_type)
    lied = await post(chunks(11), path, content_type=content_type, content_length="10")
    for response in (told, untold, lied):
        assert (response.status_code, error(response)) == (413, ("body_too_large", None))
        assert ("OSTINATO_BODY_LIMIT" in response.text) == (path == "/body")
    assert (await post(chunks(10), path, content_type=content_type)).status_code == 200

"""Requests with too many headers, over real sockets: under our own connection, and under uvicorn with h11."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx
import pytest
import uvicorn
from fastapi.routing import APIRoute

from agent_core import Agent
from app.connection import LARGEST_HEAD, Connection
from app.limits import LARGEST_HEADERS, MOST_HEADERS
from app.main import create_app
from app.routes import agui, interrupts, openai, runs, sessions, system, transfers
from app.server import bind
from app.settings import Settings
from tests.app.doubles import until
from tests.doubles import ScriptedModel, says
from tests.serving import run, run_input, serving

Headers = Sequence[tuple[str, str]]

OWN = ("host", "accept-encoding", "connection", "user-agent", "accept", "content-length")
"""What httpx adds by itself to a POST without a body."""

MANY: Headers = [(f"x-{n}", "y") for n in range(MOST_HEADERS + 1 - len(OWN))]
LARGE: Headers = [("x-large", "y" * LARGEST_HEADERS)]


def agent() -> Agent:
    return Agent("a", ScriptedModel([says("hi")]))


@asynccontextmanager
async def under_httptools() -> AsyncIterator[str]:
    async with serving(agent()) as up:
        yield up.url


@asynccontextmanager
async def under_h11() -> AsyncIterator[str]:
    sockets = bind("127.0.0.1", 0)
    config = uvicorn.Config(create_app(Settings(), agents=[agent()]), http="h11", lifespan="on", log_config=None)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve(sockets))
    await until(lambda: server.started or task.done())
    try:
        yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
        for each in sockets:
            each.close()


SERVERS = pytest.mark.parametrize("server", [under_httptools, under_h11])


@SERVERS
@pytest.mark.parametrize("headers", [MANY, LARGE], ids=["many", "large"])
async def test_too_many_headers_are_refused_on_every_route_before_the_body_is_read(server, headers) -> None:  # type: ignore[no-untyped-def]
    parts = (agui, interrupts, openai, runs, sessions, system, transfers)
    routes = [route for part in parts for route in part.router.routes if isinstance(route, APIRoute)]
    paths = sorted({route.path for route in routes})
    async with server() as url, httpx.AsyncClient(base_url=url) as http:
        for path in [*paths, "/nowhere"]:
            refused = await http.post(path.replace("{", "").replace("}", ""), headers=headers)
            told = refused.json()["error"]
            assert (refused.status_code, told["code"], told["type"]) == (
                431,
                "invalid_request",
                "invalid_request_error",
            )
            assert told["request_id"] == refused.headers["x-request-id"]
        host = url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host[0], int(host[2]))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        writer.write(
            f"POST /agui HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n{lines}".encode()
            + b"content-type: application/json\r\na: b\r\nc: d\r\ncontent-length: 1000000\r\n\r\n"
        )
        async with asyncio.timeout(10):
            assert b" 431 " in await reader.readline()
        writer.close()


@SERVERS
async def test_as_many_headers_as_are_allowed_are_no_reason_to_refuse(server) -> None:  # type: ignore[no-untyped-def]
    async with server() as url, httpx.AsyncClient(base_url=url) as http:
        request = http.build_request("POST", "/nowhere", headers=MANY[1:])
        assert len(request.headers.raw) == MOST_HEADERS
        assert (await http.send(request)).status_code == 404
        own = sum(len(name) + len(value) for name, value in http.build_request("POST", "/nowhere").headers.raw)
        value = "y" * (LARGEST_HEADERS - own - len("x"))
        assert (await http.post("/nowhere", headers={"x": value})).status_code == 404
        assert (await http.post("/nowhere", headers={"xx": value})).status_code == 431


@pytest.mark.parametrize(
    "piece",
    [b"y" * 40_000, b"a: b\r\n" * 7_000],
    ids=["one header without end", "headers without end"],
)
async def test_headers_that_do_not_end_are_not_waited_for(piece: bytes) -> None:
    async with serving(agent()) as up:
        reader, writer = await asyncio.open_connection("127.0.0.1", up.port)
        writer.write(b"POST /agui HTTP/1.1\r\nhost: localhost\r\nx: ")
        connections = up.server.server_state.connections
        await until(lambda: any(isinstance(each, Connection) and each.scope is not None for each in connections))
        [connection] = connections
        assert isinstance(connection, Connection)
        sent = 0
        while sent <= LARGEST_HEAD:
            writer.write(piece)
            sent += len(piece)
            await until(lambda: connection._bodiless >= sent)  # noqa: B023
        async with asyncio.timeout(10):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert b'"code":"invalid_request"' in answer
        writer.close()
        assert (await run(up.url, run_input("hi")))[-1]["type"] == "RUN_FINISHED"


async def test_trailers_that_do_not_end_close_the_connection() -> None:
    async with serving(agent()) as up:
        _, writer = await asyncio.open_connection("127.0.0.1", up.port)
        head = b"POST /agui HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        writer.write(head + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n")
        connections = up.server.server_state.connections
        await until(lambda: any(isinstance(each, Connection) and each.cycle is not None for each in connections))
        writer.write(b"0\r\n")
        [connection] = connections
        assert isinstance(connection, Connection)
        sent = 0
        while not connection.transport.is_closing():
            assert sent < 1_000_000
            writer.write(b"t: " + b"y" * 40_000 + b"\r\n")
            sent += 40_000
            await until(lambda: connection.transport.is_closing() or connection._bodiless >= sent)  # noqa: B023
        writer.close()


async def test_a_body_of_many_small_pieces_is_no_head() -> None:
    body = b'{"threadId":"t","runId":"r","messages":[{"id":"u","role":"user","content":"%s"}]}' % (b"y" * 200_000)
    async with serving(agent()) as up, httpx.AsyncClient(base_url=up.url) as http:

        async def pieces() -> AsyncIterator[bytes]:
            for at in range(0, len(body), 1000):
                yield body[at : at + 1000]

        answer = await http.post("/agui", content=pieces(), headers={"content-type": "application/json"})
    assert answer.status_code == 200, answer.text
    assert "RUN_FINISHED" in answer.text

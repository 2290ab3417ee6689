"""Listening, and a shutdown that waits for runs; over real sockets."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import httpx
import pytest
from fastapi import FastAPI
from sse_starlette.sse import EventSourceResponse
from starlette.responses import PlainTextResponse, Response

from app.connection import Connection
from app.server import ListenError, Server, bind
from app.settings import Settings
from tests.app.doubles import running, until


class SlowRuns:
    """Stands for the registry: one run, which ends when it is told to or cancelled by the drain."""

    def __init__(self) -> None:
        self.draining = False
        self.ended = asyncio.Event()
        self.drained = False

    async def drain(self, seconds: float) -> None:
        self.draining = True
        try:
            async with asyncio.timeout(seconds):
                await self.ended.wait()
        except TimeoutError:
            self.ended.set()
        self.drained = True


def app_with(runs: object) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.services = SimpleNamespace(runs=runs)
        yield
        app.state.closed_after_drain = getattr(runs, "drained", None)

    app = FastAPI(openapi_url=None, lifespan=lifespan)

    @app.get("/", response_model=None)
    async def hello() -> Response:
        return PlainTextResponse("hello")

    @app.get("/stream", response_model=None)
    async def stream() -> Response:
        async def frames() -> AsyncIterator[bytes]:
            yield b"data: first\n\n"
            await runs.ended.wait()  # type: ignore[attr-defined]
            yield b"data: last\n\n"

        return EventSourceResponse(frames(), sep="\n")

    @app.get("/endless", response_model=None)
    async def endless() -> Response:
        async def frames() -> AsyncIterator[bytes]:
            while True:
                yield b"x" * 65_536

        return EventSourceResponse(frames(), sep="\n")

    return app


async def test_a_stream_ends_in_peace_when_the_drain_cancels_its_run() -> None:
    app = app_with(SlowRuns())
    async with running(app, Settings(drain_seconds=0.2)) as up, httpx.AsyncClient() as http:
        async with http.stream("GET", f"{up.url}/stream") as response:
            lines = response.aiter_lines()
            assert await anext(lines) == "data: first"
            up.server.should_exit = True
            assert [line async for line in lines if line.startswith("data")] == ["data: last"]
        await asyncio.wait_for(up.task, 10)
    assert app.state.closed_after_drain is True


async def test_while_the_server_drains_it_still_answers() -> None:
    runs = SlowRuns()
    async with running(app_with(runs), Settings(drain_seconds=30)) as up, httpx.AsyncClient() as http:
        up.server.should_exit = True
        await until(lambda: runs.draining)
        assert (await http.get(up.url)).text == "hello"
        assert not up.task.done()
        runs.ended.set()
        await asyncio.wait_for(up.task, 10)


async def test_idle_connections_do_not_hold_the_server_open() -> None:
    runs = SlowRuns()
    runs.ended.set()
    async with running(app_with(runs), Settings()) as up, httpx.AsyncClient() as http:
        assert (await http.get(up.url)).text == "hello"
        up.server.should_exit = True
        await asyncio.wait_for(up.task, 10)


async def test_a_client_that_never_reads_does_not_hold_the_server_open() -> None:
    runs = SlowRuns()
    runs.ended.set()
    app = app_with(runs)
    async with running(app, Settings()) as up:
        reader, writer = await asyncio.open_connection("127.0.0.1", up.port, limit=1024)
        writer.write(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        up.server.should_exit = True
        await asyncio.wait_for(up.task, 10)
        writer.close()
    assert app.state.closed_after_drain is True


async def test_a_second_ctrl_c_breaks_the_drain_off() -> None:
    runs = SlowRuns()
    async with (
        running(app_with(runs), Settings(drain_seconds=3600)) as up,
        httpx.AsyncClient() as http,
        http.stream("GET", f"{up.url}/stream") as response,
    ):
        lines = response.aiter_lines()
        assert await anext(lines) == "data: first"
        up.server.should_exit = True
        await until(lambda: runs.draining)
        up.server.force_exit = True
        # The open stream is still told how it ended; the 3600 seconds are not waited for.
        assert [line async for line in lines if line] == ["data: last"]
        await asyncio.wait_for(up.task, 10)
    assert runs.drained


async def test_a_drain_that_fails_does_not_keep_the_server_from_closing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        async def drain(self, seconds: float) -> None:
            raise RuntimeError("broken")

    async with running(app_with(Broken()), Settings()) as up:
        up.server.should_exit = True
        await asyncio.wait_for(up.task, 10)
    assert "the drain failed" in caplog.text


def test_a_server_is_configured_for_speed_and_silence() -> None:
    config = Server(FastAPI(openapi_url=None), Settings()).config
    assert (config.http, config.access_log, config.proxy_headers) == (Connection, False, False)


def test_a_port_in_use_is_one_sentence() -> None:
    (taken,) = bind("127.0.0.1", 0)
    try:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError) as caught:
            bind("127.0.0.1", port)
        assert str(caught.value) == f"Port {port} on 127.0.0.1 is in use: choose another with --port or OSTINATO_PORT."
    finally:
        taken.close()


@pytest.mark.parametrize(
    ("host", "says"), [("192.0.2.1", "is no address of this machine"), ("a" * 70, "cannot be resolved")]
)
def test_an_address_that_is_not_ours_is_one_sentence(host: str, says: str) -> None:
    with pytest.raises(ListenError, match=says):
        bind(host, 0)


def test_a_name_with_several_addresses_gets_one_port_on_all_of_them() -> None:
    sockets = bind("localhost", 0)
    try:
        assert len({each.getsockname()[1] for each in sockets}) == 1
    finally:
        for each in sockets:
            each.close()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the platform has no TCP_USER_TIMEOUT")
def test_a_connection_inherits_the_time_limit_for_unread_data() -> None:
    (listener,) = bind("127.0.0.1", 0)
    listener.setblocking(True)
    with listener, socket.create_connection(listener.getsockname()) as client:
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
            assert client.getpeername() == accepted.getsockname()

"""The parts of others that are used although they are not public: a version that lacks one fails here.

`pyproject.toml` holds their packages to the ranges in which they were found. httpx-aiohttp's is tested with the client
of the models (tests/agent_core/models/test_http.py).
"""

import asyncio
import inspect
import signal

import pytest
import uvicorn
from fastapi import FastAPI
from sse_starlette.sse import AppStatus
from starlette.types import Message, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from app.connection import Connection
from app.server import Server
from app.settings import Settings
from app.sse import RunStream
from converters.agui.dialect import Dialect
from converters.agui.stream import AguiStream
from tests.app.runs.test_run import served
from tests.doubles import says


class Watched(RunStream):
    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.seen: list[Message] = []

    async def _send_with_timeout(self, send: Send, message: Message) -> None:
        self.seen.append(message)
        await super()._send_with_timeout(send, message)


async def test_each_write_of_a_stream_goes_through_the_hook_that_the_stall_watch_needs() -> None:
    silent = asyncio.Event()

    def heartbeat() -> bytes:
        silent.set()
        return b": ping\n\n"

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        stays: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        return await stays

    scope: Scope = {"type": "http", "method": "POST", "extensions": {}}
    async with served([silent, *says("hi")]) as (run, _):
        wire = AguiStream("s", run.run_id, Dialect.V1)
        stream = Watched(run.attach(), wire, ping=0.01, stalled=60, heartbeat=heartbeat)
        await stream(scope, receive, send)
    assert sent[0]["type"] == "http.response.start"
    writes = [message for message in sent if message.get("more_body")]
    assert stream.seen == writes
    told = b"".join(message["body"] for message in writes)
    assert b": ping" in told
    assert b"RUN_FINISHED" in told


def test_sse_starlette_ends_no_stream_at_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AppStatus, "enable_automatic_graceful_drain", True)
    monkeypatch.setattr(AppStatus, "should_exit", False)
    assert uvicorn.Server.handle_exit is AppStatus.handle_exit, "it replaces uvicorn's handler"
    server = Server(FastAPI(), Settings())
    server.handle_exit(signal.SIGTERM, None)
    assert server.should_exit
    assert not AppStatus.should_exit


def test_uvicorns_server_has_what_ours_is_built_on() -> None:
    for method in (uvicorn.Server.startup, uvicorn.Server.shutdown):
        assert inspect.iscoroutinefunction(method)
        assert list(inspect.signature(method).parameters) == ["self", "sockets"]
    server = Server(FastAPI(), Settings())
    assert (server.should_exit, server.force_exit, server.server_state.connections) == (False, False, set())
    server.config.load()
    assert server.config.http_protocol_class is Connection
    assert inspect.iscoroutinefunction(server.config.lifespan_class.shutdown)


def test_uvicorns_protocol_has_what_our_connection_is_built_on() -> None:
    ours = [name for name, value in vars(Connection).items() if inspect.isfunction(value) and name[0] != "_"]
    assert "on_message_begin" in ours
    assert set(ours) <= set(vars(HttpToolsProtocol)), "each is called by asyncio or by httptools"
    config = uvicorn.Config(FastAPI(), ws="none", lifespan="off", log_config=None)
    loop = asyncio.new_event_loop()
    protocol = HttpToolsProtocol(config, ServerState(), {}, loop)
    loop.close()
    assert protocol.loop is loop
    assert {"transport", "scope", "cycle"} <= set(vars(protocol))
    assert "response_complete" in RequestResponseCycle.__init__.__code__.co_names

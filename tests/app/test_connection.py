"""Requests that do not come to an end, over real sockets."""

import asyncio
import json

import pytest

from agent_core import Agent
from app.connection import Connection
from app.settings import Settings
from tests.doubles import ScriptedModel, says
from tests.serving import run_input, serving

HEAD = b"POST /agui HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"POST /agui HTTP/1.1\r\nhost:",
        HEAD + b"content-length: 100\r\n\r\n{",
        HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\n",
    ],
    ids=["nothing", "half the headers", "half the body", "half a chunk"],
)
async def test_a_request_that_does_not_arrive_closes_its_connection(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "request_seconds", 0.1)
    async with serving(Agent("a", ScriptedModel([says("hi")]))) as up:
        reader, writer = await asyncio.open_connection("127.0.0.1", up.port)
        writer.write(said)
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        writer.close()


async def test_a_run_may_take_longer_than_its_request_and_the_connection_is_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Connection, "request_seconds", 0.1)
    go_on = asyncio.Event()
    model = ScriptedModel([[go_on, *says("late")], says("again")])
    async with serving(Agent("a", model), settings=Settings()) as up:
        reader, writer = await asyncio.open_connection("127.0.0.1", up.port)
        for expected in (b"late", b"again"):
            body = json.dumps(run_input("go")).encode()
            writer.write(HEAD + b"content-length: %d\r\n\r\n" % len(body) + body)
            if expected == b"late":
                await model.streaming.wait()
                asyncio.get_running_loop().call_later(0.3, go_on.set)
            async with asyncio.timeout(10):
                answer = await reader.readuntil(b"0\r\n\r\n")
            assert expected in answer
        writer.close()

"""Requests that do not come to an end, over real sockets."""

import asyncio
import json
from typing import Any

import pytest

from agent_core import Agent
from agent_core.models.base import TextPiece
from app.connection import Connection
from app.settings import Settings
from tests.app.doubles import until
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


def _post(text: str, **members: Any) -> bytes:
    body = json.dumps(run_input(text, **members)).encode()
    return HEAD + b"content-length: %d\r\n\r\n" % len(body) + body


@pytest.mark.parametrize("there", [10, -5], ids=["half the headers", "all but the end of the body"])
async def test_a_request_behind_another_does_not_close_the_stream_of_that_one(
    there: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, was_late = list[Connection](), Connection._late

    def note(connection: Connection) -> None:
        late.append(connection)
        was_late(connection)

    monkeypatch.setattr(Connection, "_late", note)
    go_on = asyncio.Event()
    model = ScriptedModel([[TextPiece("begun"), go_on, *says("late")], says("again")])
    async with serving(Agent("a", model)) as up:
        reader, writer = await asyncio.open_connection("127.0.0.1", up.port)
        writer.write(_post("go"))
        await model.streaming.wait()
        monkeypatch.setattr(Connection, "request_seconds", 0.02)
        second = _post("me too")
        writer.write(second[:there])
        await until(lambda: len(late) > 2)
        monkeypatch.setattr(Connection, "request_seconds", 60.0)
        go_on.set()
        async with asyncio.timeout(10):
            assert b"late" in await reader.readuntil(b"0\r\n\r\n")
            writer.write(second[there:])
            assert b"again" in await reader.readuntil(b"0\r\n\r\n")
            monkeypatch.setattr(Connection, "request_seconds", 0.02)
            writer.write(second[:there])
            assert await reader.read() == b"", "the time of a request that stands alone counts as ever"
        writer.close()


async def test_a_client_that_leaves_with_two_requests_on_its_way_leaves_both() -> None:
    model = ScriptedModel([[TextPiece("begun"), asyncio.Event()]])
    async with serving(Agent("a", model)) as up:
        _, writer = await asyncio.open_connection("127.0.0.1", up.port)
        writer.write(_post("go") + _post("me too", thread="other"))
        await model.streaming.wait()
        writer.transport.abort()
        await until(lambda: model.closed == 1)

"""AG-UI clients for servers that fall over."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.faults.ledger import Ear, Ledger
from tests.serving import Frame, frames_of, run_input


def asking(words: str, thread: str) -> Frame:
    """A request with these words, and one behind them that makes it another question than any other: the same one under
    a new id, behind a run that was lost, would be taken for that run's."""
    body = run_input(words, thread=thread)
    [message] = body["messages"]
    message["content"] += f" {message['id']}"
    return body


class Refused(Exception):
    """The server answered a run with a status: its code."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"{status} {code}")
        self.status = status
        self.code = code


@asynccontextmanager
async def calling(url: str, seconds: float = 60) -> AsyncIterator[httpx.AsyncClient]:
    """An HTTP client of one server, with as many connections as it needs."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
    async with httpx.AsyncClient(base_url=url, timeout=seconds, limits=limits, trust_env=False) as http:
        yield http


@asynccontextmanager
async def streaming(http: httpx.AsyncClient, body: Frame, **headers: str) -> AsyncIterator[AsyncIterator[Frame]]:
    """A run's frames as they come. Raises Refused."""
    async with http.stream("POST", "/agui", json=body, headers={"accept": "text/event-stream", **headers}) as response:
        if response.status_code != 200:
            await response.aread()
            raise Refused(response.status_code, response.json()["error"]["code"])
        yield frames_of(response)


async def follow(http: httpx.AsyncClient, body: Frame, ear: Ear, **headers: str) -> Frame:
    """Run the program and write down what is told. Returns the terminal event. Raises Refused, and
    httpx.TransportError if the server is gone."""
    async with streaming(http, body, **headers) as frames:
        async for frame in frames:
            ear.hear(frame)
    assert ear.end is not None, "a stream without an end"
    return ear.end


async def finish(http: httpx.AsyncClient, body: Frame, ledger: Ledger, *, waits: bool = False) -> None:
    """The same for a run that must be completed."""
    end = await follow(http, body, Ear(ledger.of(body["threadId"]), body, waits=waits))
    assert end["type"] == "RUN_FINISHED", end
    assert end["result"]["status"] == "completed", end


async def messages_of(http: httpx.AsyncClient, session: str) -> list[dict[str, Any]]:
    """The session's messages. None if the server knows no such session."""
    response = await http.get(f"/sessions/{session}/messages")
    if response.status_code == 404:
        return []
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["messages"]
    return found


async def check_sessions(http: httpx.AsyncClient, ledger: Ledger, sessions: Sequence[str]) -> None:
    """Everything acknowledged is there, as the server shows it."""
    for session in sessions:
        ledger.check_messages(session, await messages_of(http, session))

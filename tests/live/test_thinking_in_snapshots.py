"""Which clients get thinking in a MESSAGES_SNAPSHOT: those that have shown, ever in this session, that they take it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_core import Agent
from agent_core.models.base import Piece, TextPiece, ThinkingPiece
from app.settings import Settings
from tests.app.doubles import Running, until
from tests.doubles import ScriptedModel
from tests.live.reattaching import CONTINUE, Client, client, frames, some
from tests.live.test_disconnects import quiet
from tests.serving import Frame, numbered_frames_of, run_input, serving

EARLIER = {"id": "r0", "role": "reasoning", "content": "so"}


@dataclass(frozen=True)
class Place:
    """A server, and what its model waits for."""

    up: Running
    to: Client
    gate: asyncio.Event


@asynccontextmanager
async def server(folder: Path) -> AsyncIterator[Place]:
    """One that forgets the events of its runs at once; its folder is that of the one before."""
    settings = Settings(store="sqlite", data_dir=folder, log_seconds=0)
    gate = asyncio.Event()
    gate.set()
    answer: list[Piece | asyncio.Event] = [ThinkingPiece("hm"), gate, TextPiece("yes")]
    agents = [Agent(name, ScriptedModel([answer] * 4)) for name in ("a", "b")]
    async with serving(*agents, settings=settings) as up, client(up.url) as to:
        yield Place(up, to, gate)
        await until(lambda: quiet(up))


def asking(run_id: str, *, version: bool = False, reasoning: bool = False) -> Frame:
    body = run_input(run_id, runId=run_id)
    if not version:
        del body["protocolVersion"]
    if reasoning:
        body["messages"].insert(0, EARLIER)
    return body


async def whole(to: Client, body: Frame, path: str = "/agui", **headers: str) -> list[Frame]:
    async with to.http.stream("POST", f"{to.url}{path}", json=body, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        return frames([each async for each in numbered_frames_of(response)])


def thinking_in(told: list[Frame]) -> list[str]:
    """The thinking in the one snapshot that was told, which has the answer in any case."""
    (snapshot,) = [frame for frame in told if frame["type"] == "MESSAGES_SNAPSHOT"]
    assert snapshot["messages"][-1]["content"] == "yes"
    return [each["content"] for each in snapshot["messages"] if each["role"] == "reasoning"]


async def come_back(to: Client, body: Frame) -> list[Frame]:
    return frames(await to.rest(body))


async def come_back_with_the_request(to: Client, body: Frame) -> list[Frame]:
    return await whole(to, body, **{"last-event-id": "1.0"})


async def ask_again(to: Client, body: Frame) -> list[Frame]:
    return await whole(to, body)


Way = Callable[[Client, Frame], Awaitable[list[Frame]]]
ways = pytest.mark.parametrize("way", [come_back, come_back_with_the_request, ask_again])


async def unread(at: Place, body: Frame) -> None:
    """A run whose reader leaves it before it ends, and that goes on."""
    at.gate.clear()
    async with at.to.post(body, **CONTINUE) as response:
        await some(response, 1)
    served = at.up.server.app.state.services.runs.find("local", body["threadId"], body["runId"])
    await until(lambda: served._readers == 0)
    at.gate.set()


@ways
@pytest.mark.parametrize(
    ("shown", "thinking"),
    [({}, False), ({"version": True}, True), ({"reasoning": True}, True)],
    ids=["nothing", "a version", "a reasoning message"],
)
async def test_the_request_itself_shows_it(tmp_path: Path, way: Way, shown: dict[str, bool], thinking: bool) -> None:
    body = asking("r1", **shown)
    async with server(tmp_path) as at:
        await unread(at, body)
    async with server(tmp_path) as at:
        assert bool(thinking_in(await way(at.to, body))) is thinking


@ways
@pytest.mark.parametrize("agent", ["a", "b"])
@pytest.mark.parametrize("shown", [{"version": True}, {"reasoning": True}], ids=["a version", "a reasoning message"])
async def test_an_earlier_request_of_the_session_has_shown_it(
    tmp_path: Path, way: Way, shown: dict[str, bool], agent: str
) -> None:
    body = asking("r2")
    async with server(tmp_path) as at:
        await whole(at.to, asking("r1", **shown), f"/agui/{agent}")
    async with server(tmp_path) as at:
        await unread(at, body)
    async with server(tmp_path) as at:
        assert "hm" in thinking_in(await way(at.to, body))


@ways
async def test_another_session_shows_nothing(tmp_path: Path, way: Way) -> None:
    body = asking("r2")
    async with server(tmp_path) as at:
        await whole(at.to, asking("r1", version=True) | {"threadId": "another"})
        await unread(at, body)
    async with server(tmp_path) as at:
        assert thinking_in(await way(at.to, body)) == []


async def test_a_request_that_comes_back_shows_it_for_a_run_that_was_begun_without(tmp_path: Path) -> None:
    body = asking("r1")
    async with server(tmp_path) as at:
        await unread(at, body)
    async with server(tmp_path) as at:
        again = body | {"messages": [EARLIER, *body["messages"]]}
        assert thinking_in(await come_back_with_the_request(at.to, again)) == ["hm"]
        assert thinking_in(await come_back(at.to, body)) == [], "a request without one shows nothing"

"""A real server on a real socket for tests, and an AG-UI client that is as strict as the real one."""

import itertools
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx

from agent_core.agent import Agent
from app.main import create_app
from app.settings import Settings
from tests.app.doubles import Running, running

Frame = dict[str, Any]
_number = itertools.count(1)


@asynccontextmanager
async def serving(
    *agents: Agent, settings: Settings | None = None, converters: Sequence[Callable[[], Any]] = ()
) -> AsyncIterator[Running]:
    """Serve these agents (the demo agents where none are given)."""
    settings = settings or Settings()
    app = create_app(settings, agents=agents or None, converters=converters)
    async with running(app, settings) as up:
        yield up


def run_input(text: str | None = None, *, thread: str = "t1", **members: Any) -> Frame:
    """A RunAgentInput with one user message, as a client of version 1.0 sends it."""
    number = next(_number)
    messages = [] if text is None else [{"id": f"u{number}", "role": "user", "content": text}]
    body: Frame = {
        "threadId": thread,
        "runId": f"run{number}",
        "messages": messages,
        "tools": [],
        "context": [],
        "state": {},
        "forwardedProps": {},
        "protocolVersion": "1.0",
    }
    return body | members


@asynccontextmanager
async def opened(url: str, body: Frame, path: str = "/agui", **headers: str) -> AsyncIterator[httpx.Response]:
    """An open stream; leaving the block closes the connection."""
    async with (
        httpx.AsyncClient(timeout=20) as http,
        http.stream("POST", url + path, json=body, headers={"accept": "text/event-stream", **headers}) as response,
    ):
        yield response


Id = tuple[int, int] | None


async def frames_of(response: httpx.Response) -> AsyncIterator[Frame]:
    """The stream's frames, split as AG-UI's client splits them: at two line feeds, comments ignored."""
    async for _, frame in numbered_frames_of(response):
        yield frame


async def numbered_frames_of(response: httpx.Response) -> AsyncIterator[tuple[Id, Frame]]:
    """The stream's frames with their ids, which must ascend; None where a frame has none."""
    buffer, last = "", (0, 0)
    async for piece in response.aiter_text():
        assert "\r" not in piece
        buffer += piece
        while "\n\n" in buffer:
            frame, buffer = buffer.split("\n\n", 1)
            if frame.startswith(":"):
                continue
            found = re.fullmatch(r"(?:id: ([0-9]+)\.([0-9]+)\n)?data: (.*)", frame)
            assert found is not None, frame
            number = None if found[1] is None else (int(found[1]), int(found[2]))
            assert number is None or number > last, f"{number} after {last}"
            last = number or last
            yield number, json.loads(found[3])
    assert buffer == "", "the stream was cut"


async def run(url: str, body: Frame, path: str = "/agui", **headers: str) -> list[Frame]:
    """All frames of a run that was accepted; checks that exactly one terminal event ends it."""
    async with opened(url, body, path, **headers) as response:
        assert response.status_code == 200, await response.aread()
        frames = [frame async for frame in frames_of(response)]
    check_whole(frames)
    return frames


def check_whole(frames: Sequence[Frame]) -> None:
    """The frames begin as a run does, end with its one terminal event, and hold no null."""
    types = [frame["type"] for frame in frames]
    assert types[0] == "RUN_STARTED"
    assert types.count("RUN_STARTED") == 1
    assert [t for t in types if t in ("RUN_FINISHED", "RUN_ERROR")] == types[-1:]
    for frame in frames:
        assert None not in frame.values(), f"a null: {frame}"


def types_of(frames: Sequence[Frame]) -> list[str]:
    return [frame["type"] for frame in frames]


def text_of(frames: Sequence[Frame]) -> str:
    return "".join(frame["delta"] for frame in frames if frame["type"] == "TEXT_MESSAGE_CONTENT")


def results_of(frames: Sequence[Frame]) -> list[str]:
    return [frame["content"] for frame in frames if frame["type"] == "TOOL_CALL_RESULT"]

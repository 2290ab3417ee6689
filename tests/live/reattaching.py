"""A client that comes back: it reads a part of a stream, leaves, and goes on where it was."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

from agent_core import Agent, tool
from agent_core.models.base import ArgumentsPiece, CallPiece, ModelRequest, Piece, TextPiece, ThinkingPiece
from agent_core.models.http import HttpClient
from tests.serving import Frame, Id, check_whole, numbered_frames_of, run_input

Numbered = tuple[Id, Frame]

CONTINUE = {"x-on-disconnect": "continue"}


def first_answer(size: int) -> list[Piece]:
    """Thinking, text, and two calls whose arguments come in pieces."""
    thinking = [ThinkingPiece(f"t{n} ") for n in range(size)]
    text = [TextPiece(f"w{n} ") for n in range(size)]
    calls: list[Piece] = []
    for index in range(2):
        calls.append(CallPiece(index, "", "look"))
        calls += [ArgumentsPiece(index, piece) for piece in ('{"what":"', *(f"c{n} " for n in range(size)), '"}')]
    return [*thinking, *text, *calls]


@dataclass
class Talker:
    """A model that thinks, talks, calls two tools and talks again. It waits for `gate` in the middle of its
    second answer."""

    size: int = 40
    provider: str = "talker"
    name: str = "model"
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    reached: asyncio.Event = field(default_factory=asyncio.Event)

    async def stream(self, request: ModelRequest, http: HttpClient) -> AsyncGenerator[Piece, None]:
        if request.messages[-1].role == "user":
            for piece in first_answer(self.size):
                yield piece
            return
        for number in range(self.size):
            if number == self.size // 2:
                self.reached.set()
                await self.gate.wait()
            yield TextPiece(f"a{number} ")


@dataclass
class Client:
    """One HTTP client for all streams of a test: making one takes longer than a run."""

    http: httpx.AsyncClient
    url: str

    @asynccontextmanager
    async def post(self, body: Frame, **headers: str) -> AsyncIterator[httpx.Response]:
        async with self.http.stream("POST", f"{self.url}/agui", json=body, headers=headers) as response:
            yield response

    def path(self, body: Frame) -> str:
        return f"{self.url}/sessions/{body['threadId']}/runs/{body['runId']}/events"

    @asynccontextmanager
    async def get(self, body: Frame, after: Id | str = None, **headers: str) -> AsyncIterator[httpx.Response]:
        if after is not None:
            headers["Last-Event-ID"] = after if isinstance(after, str) else "{}.{}".format(*after)
        async with self.http.stream("GET", self.path(body), headers=headers) as response:
            yield response

    async def rest(self, body: Frame, after: Id | str = None) -> list[Numbered]:
        """What comes behind `after`; nothing where the answer is 204."""
        async with self.get(body, after) as response:
            if response.status_code == 204:
                assert await response.aread() == b""
                return []
            assert response.status_code == 200, await response.aread()
            return [each async for each in numbered_frames_of(response)]


@asynccontextmanager
async def client(url: str, **headers: str) -> AsyncIterator[Client]:
    async with httpx.AsyncClient(timeout=20, headers=headers) as http:
        yield Client(http, url)


async def some(response: httpx.Response, count: int) -> list[Numbered]:
    """The first frames of a stream."""
    assert response.status_code == 200, await response.aread()
    seen: list[Numbered] = []
    async for each in numbered_frames_of(response):
        seen.append(each)
        if len(seen) == count:
            break
    return seen


def last_id(seen: Sequence[Numbered]) -> Id:
    return next((number for number, _ in reversed(seen) if number is not None), None)


def check_joined(seen: Sequence[Numbered]) -> None:
    """The frames are one whole run, each with an id, and in order."""
    check_whole([frame for _, frame in seen])
    numbers = [number for number, _ in seen]
    assert None not in numbers
    assert sorted(set(numbers)) == numbers  # type: ignore[type-var]


@tool
async def look(what: str) -> str:
    """Look at something."""
    return f"a {what}"


def talking(model: Talker) -> Agent:
    return Agent("a", model, tools=[look], instructions="")


def input_of(thread: str, old: bool = False) -> Frame:
    body = run_input("go", thread=thread)
    if old:
        del body["protocolVersion"]
    return body


def frames(seen: list[Numbered]) -> list[Frame]:
    return [frame for _, frame in seen]

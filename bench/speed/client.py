"""The load: runs side by side, each stream read to its end and checked."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from time import perf_counter
from typing import cast
from urllib.parse import urlsplit

import httptools
import orjson

from bench.speed.scenarios import Scenario, WrongStream, check_agui, check_openai

PATIENCE = 120.0
"""Seconds that an answer may take."""

_numbers = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer. Times are in seconds since the request; `text` is 0 where no text came, and `at` is
    the end by `perf_counter`."""

    status: int
    stream: bytes
    text: float
    end: float
    at: float


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.closed = False
        self.transport: asyncio.Transport | None = None
        self.begin()

    def begin(self) -> None:
        """Be ready for the next answer."""
        self.parser = httptools.HttpResponseParser(self)
        self.parts: list[bytes] = []
        self.text_at = 0.0
        self.reusable = False
        self.began: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.whole: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        if not self.text_at and (b"TEXT_MESSAGE_CONTENT" in body or b'"content":" ' in body):
            self.text_at = perf_counter()
            if not self.began.done():
                self.began.set_result(None)
        self.parts.append(body)

    def on_message_complete(self) -> None:
        self.reusable = self.parser.should_keep_alive()
        if not self.whole.done():
            self.whole.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        for each in (self.began, self.whole):
            if not each.done():
                each.set_exception(exc or ConnectionError("the server closed the connection"))
                each.exception()  # it is no fault if nobody waits for it


class Client:
    """One connection to a server on loopback, kept open between requests."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._connection: _Connection | None = None

    async def post(self, path: str, body: bytes) -> Answer:
        return await self._read(await self._send("POST", path, body))

    async def get(self, path: str) -> Answer:
        return await self._read(await self._send("GET", path, b""))

    async def open(self, method: str, path: str, body: bytes = b"") -> None:
        """Return when text has come, and leave the stream open."""
        connection, _ = await self._send(method, path, body)
        await asyncio.wait_for(connection.began, PATIENCE)

    def close(self) -> None:
        if self._connection is not None and self._connection.transport is not None:
            self._connection.transport.abort()

    async def _send(self, method: str, path: str, body: bytes) -> tuple[_Connection, float]:
        connection = self._connection
        if connection is None or connection.closed or not connection.reusable:
            self.close()
            loop = asyncio.get_running_loop()
            _, connection = await loop.create_connection(_Connection, self._host, self._port)
            self._connection = connection
        else:
            connection.begin()
        assert connection.transport is not None
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nAccept: text/event-stream\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        began = perf_counter()
        connection.transport.write(f"{head}\r\n".encode() + body)
        return connection, began

    async def _read(self, sent: tuple[_Connection, float]) -> Answer:
        connection, began = sent
        await asyncio.wait_for(connection.whole, PATIENCE)
        now = perf_counter()
        return Answer(
            status=connection.parser.get_status_code(),
            stream=b"".join(connection.parts),
            text=connection.text_at - began if connection.text_at else 0.0,
            end=now - began,
            at=now,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where runs go: the server's URL, the path, and its dialect."""

    url: str
    path: str = "/agui"

    @property
    def is_openai(self) -> bool:
        return self.path.startswith("/v1/")

    def body(self, scenario: Scenario, session: str = "", state: object = None) -> bytes:
        """A run's body; by default in a session of its own."""
        text, number = f"hello {scenario.program}", next(_numbers)
        if self.is_openai:
            return orjson.dumps(
                {"model": "bench", "stream": True, "messages": [{"role": "user", "content": f"{number} {text}"}]}
            )
        message = {"id": f"m{number}", "role": "user", "content": text}
        members = {"threadId": session or f"s{number}", "runId": f"r{number}", "messages": [message]}
        return orjson.dumps(
            {**members, "tools": [], "context": [], "state": {} if state is None else state, "forwardedProps": {}}
        )

    def check(self, scenario: Scenario, answer: Answer) -> None:
        """Raises WrongStream."""
        (check_openai if self.is_openai else check_agui)(scenario, answer.status, answer.stream)


async def load(
    target: Target,
    scenario: Scenario,
    *,
    seconds: float | None = None,
    runs: int | None = None,
    make: Callable[[], bytes] | None = None,
) -> Sequence[Answer]:
    """Runs side by side until so many seconds are over or so many runs have begun. Raises WrongStream.

    What was read is checked at the end, so that checking takes no time from the load. `make` gives each run's body.
    Runs that take long by themselves begin one after another, so that they do not all want their first text at once.
    """
    answers: list[Answer] = []
    until = perf_counter() + (scenario.seconds if seconds is None else seconds)
    left = iter(range(10**9 if runs is None else runs))

    apart = scenario.chunks * scenario.delay / 1000 / scenario.at_once

    async def work(number: int) -> None:
        client = Client(target.url)
        try:
            await asyncio.sleep(number * apart)
            while perf_counter() < until and next(left, None) is not None:
                answers.append(await client.post(target.path, make() if make else target.body(scenario)))
        finally:
            client.close()

    try:
        await asyncio.gather(*(work(number) for number in range(scenario.at_once)))
    except (OSError, TimeoutError, httptools.HttpParserError) as error:
        raise WrongStream(f"{scenario.name}: {type(error).__name__}: {error}") from error
    for answer in answers:
        target.check(scenario, answer)
    return answers

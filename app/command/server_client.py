"""Who answers in `ostinato chat`: a server over HTTP, or an agent in this process. Both give AG-UI frames."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

import httpx
import orjson

from agent_core.agent import Agent
from agent_core.engine import Engine
from agent_core.errors import CoreError, InvalidRequest, RunError, SessionBusy
from agent_core.messages import Message, new_id
from agent_core.run_input import RunInput
from app.agents import ConverterFactory
from converters.agui.answers import answers_of
from converters.agui.dialect import Dialect
from converters.agui.stream import AguiStream

LARGEST_FRAME = 8_000_000
"""Bytes without two line feeds: a server that sends more is no AG-UI server."""

Frame = dict[str, Any]


class Failure(Exception):
    """A question that was not answered: a code and a sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Partner(Protocol):
    """Whoever answers."""

    def ask(self, text: str) -> AsyncGenerator[Frame, None]:
        """The frames of one run; closing the generator stops it. Raises Failure."""
        ...

    def resume(self, answers: Sequence[Frame]) -> AsyncGenerator[Frame, None]:
        """The frames of a run that goes on with these answers, AG-UI's resume entries. Raises Failure."""
        ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerClient:
    """An agent behind `POST /agui/{agent}`; `url` is that address."""

    url: str
    http: httpx.AsyncClient
    session: str

    def ask(self, text: str) -> AsyncGenerator[Frame, None]:
        return self._run({"messages": [{"id": new_id("msg"), "role": "user", "content": text}]})

    def resume(self, answers: Sequence[Frame]) -> AsyncGenerator[Frame, None]:
        return self._run({"messages": [], "resume": list(answers)})

    async def _run(self, members: Frame) -> AsyncGenerator[Frame, None]:
        body = {"threadId": self.session, "runId": new_id("run"), "protocolVersion": "1.0", **members}
        ended = False
        try:
            async with self.http.stream("POST", self.url, json=body) as response:
                if response.status_code != 200:
                    raise _refused(response.status_code, await response.aread())
                async with aclosing(frames_of(response.aiter_bytes())) as frames:
                    async for frame in frames:
                        ended = frame.get("type") in ("RUN_FINISHED", "RUN_ERROR")
                        yield frame
        except httpx.TimeoutException as error:
            if not ended:
                raise Failure("timeout", f"{self.url} did not answer in time.") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            if not ended:  # after the end of the run the connection does not matter
                why = str(error) or type(error).__name__
                raise Failure("unreachable", f"{self.url} cannot be reached, or broke off: {why}") from error
        if not ended:
            raise Failure("cut", "The stream ended before the run did.")

    async def aclose(self) -> None:
        await self.http.aclose()


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """An agent in this process."""

    engine: Engine
    agent: Agent
    converters: Sequence[ConverterFactory]
    session: str

    def ask(self, text: str) -> AsyncGenerator[Frame, None]:
        return self._run(RunInput(messages=(Message(id=new_id("msg"), role="user", content=text),)))

    def resume(self, answers: Sequence[Frame]) -> AsyncGenerator[Frame, None]:
        return self._run(RunInput(answers=answers_of({"resume": list(answers)})))

    async def _run(self, given: RunInput) -> AsyncGenerator[Frame, None]:
        run_id = new_id("run")
        wire = AguiStream(self.session, run_id, Dialect.V1, [make() for make in self.converters])
        try:
            events = self.engine.stream_events(
                self.agent, given, user_id="local", session_id=self.session, run_id=run_id
            )
            async with aclosing(events):
                async for event in events:
                    for body in wire.feed([event]).split(b"\n\n"):
                        if body:
                            yield orjson.loads(body.partition(b"data: ")[2])
        except CoreError as error:
            raise _failure_of(error) from error

    async def aclose(self) -> None:
        await self.engine.aclose()


async def frames_of(pieces: AsyncIterator[bytes]) -> AsyncGenerator[Frame, None]:
    """The frames of an AG-UI stream, split at two line feeds, without comments. Raises Failure."""
    buffer = bytearray()
    async for piece in pieces:
        buffer += piece
        *whole, rest = buffer.split(b"\n\n")
        buffer = rest
        if len(buffer) > LARGEST_FRAME:
            raise Failure("bad_answer", "This is not an AG-UI stream.")
        for part in whole:
            data = b"\n".join(line[5:] for line in part.split(b"\n") if line.startswith(b"data:"))
            if data:
                yield _frame(data)


def _frame(data: bytes) -> Frame:
    try:
        frame = orjson.loads(data)
    except ValueError:
        frame = None
    if not isinstance(frame, dict):
        raise Failure("bad_answer", "This is not an AG-UI stream.")
    return frame


def _refused(status: int, body: bytes) -> Failure:
    try:
        error = orjson.loads(body)["error"]
        return Failure(str(error["code"]), str(error["message"]))
    except (ValueError, TypeError, LookupError):
        return Failure(f"http_{status}", "The server's answer is not one of Ostinato's: check the URL.")


def _failure_of(error: CoreError) -> Failure:
    match error:
        case RunError():
            return Failure(error.code, error.message)
        case SessionBusy():
            return Failure("session_busy", str(error))
        case InvalidRequest():
            return Failure("invalid_request", error.message)
    return Failure("internal", str(error))

"""A scripted HTTP upstream on a free loopback port: it plays a model provider, faults included.

    async with ScriptedUpstream([answer(text("Hi", " there"), finish(), usage(9, 2), done())]) as up:
        model = OpenAIChat("test-model", api_key="sk-test", base_url=up.base_url)
        ...
        assert up.requests[0].body["messages"][-1]["content"] == "Hello"
        await up.closed()  # until every client connection is gone

The script is one Reply, a list of them (used in turn, the last one again and again), or a function
from the request's JSON body to a Reply.

A Reply is a status, headers and steps. A step is

- bytes: sent at once, as one HTTP chunk
- an asyncio.Event: wait until the test sets it
- Step.DROP: the connection is reset (RST)
- Step.CLOSE: the connection is closed (FIN) in the middle of the answer
- Step.HALF_CLOSE: only our sending side is closed; we go on reading
- Step.HANG: nothing more is sent until the client leaves
- Step.KEEP_ALIVE: a comment every 10 ms, and nothing else, until the client leaves

After the last step the answer is ended properly. `Reply(raw=b"...", steps=...)` sends these bytes in
place of status line and headers, and the steps as they are; `Reply(raw=b"", steps=(Step.DROP,))`
breaks off before the headers.

Frames of Chat Completions, all of them bytes that may be joined, cut or left out: `text`,
`thinking`, `tool_call`, `finish`, `usage`, `done`, and `sse` for anything else. `answer` makes a
Reply of frames; `says` and `calls` are whole answers; `error` is an HTTP error with a JSON body.
"""

import asyncio
import json
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from typing import Any, Self, cast


class Step(Enum):
    """What may happen between two chunks, beside waiting for an asyncio.Event."""

    DROP = "drop"
    CLOSE = "close"
    HALF_CLOSE = "half_close"
    HANG = "hang"
    KEEP_ALIVE = "keep_alive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer; see the top of this file."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    steps: Sequence[bytes | asyncio.Event | Step] = ()
    raw: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client sent: header names in lower case, the body as JSON (or as bytes if it is none)."""

    path: str
    headers: Mapping[str, str]
    body: Any


Script = Reply | Sequence[Reply] | Callable[[Any], Reply]


def sse(obj: Any) -> bytes:
    """One SSE frame: an object as JSON, bytes and str as they are."""
    data = obj if isinstance(obj, bytes) else (obj if isinstance(obj, str) else json.dumps(obj)).encode()
    return b"data: " + data + b"\n\n"


def chunk(delta: Mapping[str, Any], finish_reason: str | None = None, **members: Any) -> bytes:
    """A chat.completion.chunk with one choice; `members` are added to it or replace what it has."""
    choices = [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1730000000, "model": "scripted"}
    return sse({**head, "choices": choices, **members})


def text(*parts: str) -> bytes:
    """Text, one frame for each part."""
    return b"".join(chunk({"content": part}) for part in parts)


def thinking(*parts: str) -> bytes:
    """Reasoning as `reasoning_content`, one frame for each part."""
    return b"".join(chunk({"reasoning_content": part}) for part in parts)


def tool_call(name: str, arguments: str = "{}", *, id: str = "call_1", index: int = 0) -> bytes:  # noqa: A002
    """A call: one frame that opens it, one with the arguments' JSON text (none if it is empty)."""
    function = {"name": name, "arguments": ""}
    opening = chunk({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]})
    if not arguments:
        return opening
    return opening + chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]})


def finish(reason: str = "stop") -> bytes:
    """The frame with the finish_reason."""
    return chunk({}, reason)


def usage(prompt: int, completion: int, *, cached: int | None = None, reasoning: int | None = None) -> bytes:
    """The usage frame as OpenAI sends it, after the finish_reason and before `done`."""
    counts: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion}
    counts["total_tokens"] = prompt + completion
    if cached is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": cached}
    if reasoning is not None:
        counts["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    return chunk({}, choices=[], usage=counts)


def done() -> bytes:
    """`data: [DONE]`."""
    return sse("[DONE]")


def answer(*steps: bytes | asyncio.Event | Step) -> Reply:
    """A 200 event stream of exactly these steps."""
    return Reply(steps=steps)


def says(*parts: str) -> Reply:
    """A whole answer with text and no usage."""
    return answer(text(*parts), finish(), done())


def calls(name: str, arguments: str = "{}", *, id: str = "call_1") -> Reply:  # noqa: A002
    """A whole answer with one tool call and no usage."""
    return answer(tool_call(name, arguments, id=id), finish("tool_calls"), done())


def error(status: int, message: str = "", *, code: str | None = None, **headers: str) -> Reply:
    """An HTTP error with OpenAI's body; `retry_after="1"` becomes the header Retry-After."""
    body = json.dumps({"error": {"message": message, "type": "scripted", "param": None, "code": code}}).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=status, headers={"content-type": "application/json", **named}, steps=(body,))


def refuse_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class ScriptedUpstream:
    """The server; see the top of this file. `base_url` ends in /v1 and is known once it is entered."""

    def __init__(self, script: Script) -> None:
        self.base_url = ""
        self.requests: list[Request] = []
        self.connections_made = 0
        self._script = script
        self._open: set[_Connection] = set()
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.base_url = f"http://127.0.0.1:{port}/v1"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for connection in list(self._open):
            connection.transport.abort()
        await self.closed()
        await self._server.wait_closed()

    @property
    def open_connections(self) -> int:
        return len(self._open)

    async def closed(self, within: float = 5.0) -> None:
        """Return once no client is connected; TimeoutError after `within` seconds."""
        await self._until(lambda: not self._open, within)

    async def received(self, count: int = 1, within: float = 5.0) -> None:
        """Return once `count` requests have come; TimeoutError after `within` seconds."""
        await self._until(lambda: len(self.requests) >= count, within)

    async def _until(self, holds: Callable[[], bool], within: float) -> None:
        async with asyncio.timeout(within):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    def opened(self, connection: "_Connection") -> None:
        self.connections_made += 1
        self._open.add(connection)
        self._changed.set()

    def left(self, connection: "_Connection") -> None:
        self._open.discard(connection)
        self._changed.set()

    def reply_to(self, request: Request) -> Reply:
        self.requests.append(request)
        self._changed.set()
        if isinstance(self._script, Reply):
            return self._script
        if callable(self._script):
            return self._script(request.body)
        return self._script[min(len(self.requests), len(self._script)) - 1]


class _Connection(asyncio.Protocol):
    """One client connection: reads requests, and carries out one reply after the other."""

    transport: asyncio.Transport

    def __init__(self, upstream: ScriptedUpstream) -> None:
        self._upstream = upstream
        self._buffer = b""
        self._replying: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: uvloop's transports are not derived from asyncio's.
        self.transport = cast(asyncio.Transport, transport)
        self._upstream.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._replying is not None:
            self._replying.cancel()
        self._upstream.left(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, blank, rest = self._buffer.partition(b"\r\n\r\n")
        if not blank:
            return
        request_line, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", "0"))
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        request = Request(path=request_line.split(" ")[1], headers=headers, body=_parsed(rest[:length]))
        self._replying = asyncio.ensure_future(self._carry_out(self._upstream.reply_to(request)))

    async def _carry_out(self, reply: Reply) -> None:
        self.transport.write(_head(reply) if reply.raw is None else reply.raw)
        for step in reply.steps:
            if isinstance(step, bytes):
                self.transport.write(b"%x\r\n%s\r\n" % (len(step), step) if reply.raw is None and step else step)
                await asyncio.sleep(0)
            elif isinstance(step, asyncio.Event):
                await step.wait()
            else:
                await self._act(step)
        if reply.raw is None:
            self.transport.write(b"0\r\n\r\n")
        else:
            self.transport.close()

    async def _act(self, step: Step) -> None:
        """Do what the step says, and stay here until the connection's end cancels us."""
        if step is Step.DROP:
            linger = struct.pack("ii", 1, 0)
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.transport.abort()
        elif step is Step.CLOSE:
            self.transport.close()
        elif step is Step.HALF_CLOSE:
            self.transport.write_eof()
        while step is Step.KEEP_ALIVE:
            self.transport.write(b"e\r\n: keep-alive\n\n\r\n")
            await asyncio.sleep(0.01)
        await asyncio.get_running_loop().create_future()


def _head(reply: Reply) -> bytes:
    known = reply.status in HTTPStatus._value2member_map_
    phrase = HTTPStatus(reply.status).phrase if known else "Scripted"
    lines = [f"HTTP/1.1 {reply.status} {phrase}", "transfer-encoding: chunked"]
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body

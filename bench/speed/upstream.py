"""A model provider that does what the last user message says: a process of its own, so that its CPU counts for nobody.

    python -m bench.speed.upstream          prints its URL when it listens

`bench:n=200:k=1:d=5` asks for an answer with one tool call, and after the tool's result for 200 chunks of text, 5 ms
apart. Without `d` an answer is one write. `h=1` leaves the stream open behind its chunks. All frames are made
beforehand, so that it is never the slowest of those that are measured.
"""

import asyncio
import re
import socket
from functools import cache
from typing import Any, cast

import httptools
import orjson
import uvloop

from bench.speed.scenarios import words

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)
END = b"0\r\n\r\n"
OPTION = re.compile(rb":([nkdh])=([0-9]+)")
RESULT = re.compile(rb'"role"\s*:\s*"tool"')


def program_of(body: bytes) -> dict[str, int]:
    """The options of the last program in a request; `k` is 0 when the tools' results are there already."""
    at = body.rfind(b"bench:")
    options = {"n": 1, "k": 0, "d": 0, "h": 0}
    end = at + len(b"bench")
    while at >= 0 and (found := OPTION.match(body, end)):
        options[found[1].decode()] = int(found[2])
        end = found.end()
    if options["k"] and RESULT.search(body, end):
        options["k"] = 0
    return options


@cache
def frames_of(chunks: int, calls: int) -> tuple[bytes, ...]:
    """The frames of an answer, each an HTTP chunk of its own."""
    deltas: list[dict[str, Any]]
    if calls:
        made = [
            {"index": n, "id": f"call_{n}", "type": "function", "function": {"name": "get_time", "arguments": "{}"}}
            for n in range(calls)
        ]
        deltas = [{"role": "assistant", "content": None, "tool_calls": [each]} for each in made]
    else:
        deltas = [{"role": "assistant", "content": ""}, *[{"content": word} for word in words(chunks)]]
    usage = {"prompt_tokens": 20, "completion_tokens": chunks, "total_tokens": 20 + chunks}
    said = [_frame([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]) for delta in deltas]
    reason = "tool_calls" if calls else "stop"
    last = [_frame([{"index": 0, "delta": {}, "logprobs": None, "finish_reason": reason}]), _frame([], usage)]
    return tuple(_chunk(each) for each in (*said, *last, b"[DONE]"))


def _frame(choices: list[dict[str, object]], usage: dict[str, int] | None = None) -> bytes:
    head = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1_730_000_000}
    return orjson.dumps({**head, "model": "bench-model", "choices": choices, "usage": usage})


def _chunk(data: bytes) -> bytes:
    event = b"data: " + data + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(event), event)


class Answers(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._parser = httptools.HttpRequestParser(self)
        self._body: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        program = program_of(b"".join(self._body))
        self._body.clear()
        frames = frames_of(program["n"], program["k"])
        if program["h"]:
            self._transport.write(HEAD + b"".join(frames[:-3]))
        elif program["k"] or not program["d"]:
            self._transport.write(HEAD + b"".join(frames) + END)
        else:
            self._transport.write(HEAD)
            self._tick(frames, 0, program["d"] / 1000)

    def _tick(self, frames: tuple[bytes, ...], at: int, delay: float) -> None:
        if self._transport.is_closing():
            return
        if at >= len(frames) - 3:  # what follows the text leaves together
            self._transport.write(b"".join(frames[at:]) + END)
            return
        self._transport.write(frames[at])
        asyncio.get_running_loop().call_later(delay, self._tick, frames, at + 1, delay)


async def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0), backlog=4096)
    server = await asyncio.get_running_loop().create_server(Answers, sock=listening, backlog=4096)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())

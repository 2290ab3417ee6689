"""The floor: what the transport costs by itself. aiohttp reads the upstream, sse-starlette sends, one event each.

    python -m bench.speed.floor             prints its URL when it listens

It has no engine, no session, no checks and no limits, and knows one tool. OPENAI_BASE_URL is the upstream's.
"""

import os
import socket
import uuid
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sse_starlette import EventSourceResponse

TOOL = {"type": "function", "function": {"name": "get_time", "description": "Get the time.",
                                         "parameters": {"type": "object", "properties": {}}}}  # fmt: skip
Event = dict[str, Any]


class RunInput(BaseModel):
    """The members of a run's body that are read."""

    threadId: str  # noqa: N815  # the wire's name
    runId: str  # noqa: N815
    messages: list[dict[str, Any]]


class Upstream:
    """The model. Its one connection pool is made at the first request, inside the loop."""

    def __init__(self, base: str) -> None:
        self._url = f"{base}/chat/completions"
        self._http: aiohttp.ClientSession | None = None

    async def read(self, body: bytes) -> AsyncIterator[list[Any]]:
        """The chunks of an answer; those that one read brought together."""
        if self._http is None:
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=2000), headers={"authorization": "Bearer floor"}
            )
        rest = b""
        async with self._http.post(self._url, data=body, headers={"content-type": "application/json"}) as response:
            async for data in response.content.iter_any():
                *frames, rest = (rest + data).split(b"\n\n")
                found = [frame[6:] for frame in frames if frame.startswith(b"data: ")]
                yield [orjson.loads(each) for each in found if each != b"[DONE]"]


class Turn:
    """One answer of the model, as events."""

    def __init__(self) -> None:
        self.message_id = ""
        self.calls: dict[int, Event] = {}

    def events_of(self, chunk: Event) -> list[Event]:
        if not chunk["choices"]:
            return []
        events: list[Event] = []
        delta = chunk["choices"][0]["delta"]
        text = delta.get("content")
        if text:
            if not self.message_id:
                self.message_id = str(uuid.uuid4())
                events.append({"type": "TEXT_MESSAGE_START", "messageId": self.message_id, "role": "assistant"})
            events.append({"type": "TEXT_MESSAGE_CONTENT", "messageId": self.message_id, "delta": text})
        for call in delta.get("tool_calls") or ():
            if call["index"] not in self.calls:
                self.calls[call["index"]] = call
                name = call["function"]["name"]
                events.append({"type": "TOOL_CALL_START", "toolCallId": call["id"], "toolCallName": name})
            arguments = call["function"]["arguments"]
            events.append({"type": "TOOL_CALL_ARGS", "toolCallId": call["id"], "delta": arguments})
        return events


async def run(upstream: Upstream, given: RunInput) -> AsyncIterator[bytes]:
    ids = {"threadId": given.threadId, "runId": given.runId}
    yield _frame({"type": "RUN_STARTED", **ids})
    messages = [{"role": each["role"], "content": each["content"]} for each in given.messages]
    while True:
        asked = {"model": "bench-model", "messages": messages, "tools": [TOOL], "stream": True}
        turn = Turn()
        async for chunks in upstream.read(orjson.dumps({**asked, "stream_options": {"include_usage": True}})):
            for chunk in chunks:
                for event in turn.events_of(chunk):
                    yield _frame(event)
        if turn.message_id:
            yield _frame({"type": "TEXT_MESSAGE_END", "messageId": turn.message_id})
        if not turn.calls:
            break
        messages.append({"role": "assistant", "content": None, "tool_calls": list(turn.calls.values())})
        for call in turn.calls.values():
            result = {"role": "tool", "content": "2026-01-01T00:00:00Z"}
            messages.append({**result, "tool_call_id": call["id"]})
            yield _frame({"type": "TOOL_CALL_END", "toolCallId": call["id"]})
            yield _frame({"type": "TOOL_CALL_RESULT", "messageId": str(uuid.uuid4()), "toolCallId": call["id"],
                          **result})  # fmt: skip
    yield _frame({"type": "RUN_FINISHED", **ids})


def _frame(event: Event) -> bytes:
    return b"data: " + orjson.dumps(event) + b"\n\n"


def make_app(base: str) -> FastAPI:
    app, upstream = FastAPI(), Upstream(base)

    @app.post("/agui")
    async def agui(given: RunInput) -> EventSourceResponse:
        return EventSourceResponse(run(upstream, given), sep="\n")

    return app


def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0), backlog=4096)
    config = uvicorn.Config(
        make_app(os.environ["OPENAI_BASE_URL"]), loop="uvloop", http="httptools", log_level="error", access_log=False,
        timeout_keep_alive=120,
    )  # fmt: skip
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()

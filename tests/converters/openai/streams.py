"""Reading chat completion streams in tests: strictly, and by what broke some client when it was tried,
written down here again rather than taken from the code under test. And events to make streams of.
"""

import json
from typing import Any, Literal

from agent_core.events import (
    AgentStart,
    Event,
    ModelCallEnd,
    ModelCallStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolResultEnd,
    ToolResultStart,
)
from agent_core.usage import Usage
from converters.chain import Converter
from converters.openai.chat import ChatAnswer, ChatStream

RUN, SESSION, MODEL, CREATED = "run_1", "session_1", "agent", 1764500000

CLIENT_TOOLS = frozenset({"pick", "show"})

START = AgentStart(run_id=RUN, agent="a")


def text(reply: str, *pieces: str) -> list[Event]:
    deltas = [TextDelta(run_id=RUN, reply_id=reply, text=each) for each in pieces]
    return [TextStart(run_id=RUN, reply_id=reply), *deltas, TextEnd(run_id=RUN, reply_id=reply)]


def thinking(reply: str, *pieces: str, block: str = "1") -> list[Event]:
    ids: dict[str, Any] = {"run_id": RUN, "reply_id": reply, "block_id": f"{reply}-thinking-{block}"}
    return [ThinkingStart(**ids), *(ThinkingDelta(**ids, text=each) for each in pieces), ThinkingEnd(**ids)]


def tool_call(reply: str, call: str, name: str, *pieces: str) -> list[Event]:
    ids: dict[str, Any] = {"run_id": RUN, "reply_id": reply, "call_id": call}
    deltas = [ToolCallDelta(**ids, text=each) for each in pieces]
    return [ToolCallStart(**ids, name=name), *deltas, ToolCallEnd(**ids)]


def tool_result(call: str, name: str, content: str) -> list[Event]:
    start = ToolResultStart(run_id=RUN, call_id=call, name=name)
    end = ToolResultEnd(run_id=RUN, call_id=call, name=name, message_id=f"m_{call}", status="ok", content=content)
    return [start, end]


def model_call(
    reply: str, *blocks: list[Event], usage: Usage | None = None, cut: Literal["length", "filter"] | None = None
) -> list[Event]:
    start = ModelCallStart(run_id=RUN, reply_id=reply, model="m")
    end = ModelCallEnd(run_id=RUN, reply_id=reply, model="m", usage=usage, cut=cut)
    return [start, *(event for block in blocks for event in block), end]


def open_stream(
    *, include_usage: bool = False, events: bool = False, converters: list[Converter] | None = None
) -> ChatStream:
    return ChatStream(RUN, SESSION, MODEL, CLIENT_TOOLS, include_usage, events, converters or (), CREATED)


def open_answer(*, events: bool = False, converters: list[Converter] | None = None) -> ChatAnswer:
    return ChatAnswer(RUN, SESSION, MODEL, CLIENT_TOOLS, events, converters or (), CREATED)


def _refuse(constant: str) -> Any:
    raise AssertionError(f"{constant} is no JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), "a member comes twice"
    return dict(pairs)


def read(stream: bytes) -> list[dict[str, Any] | str]:
    """The stream's payloads, `[DONE]` as it is. Only `data:` lines may be in it, and no empty one."""
    assert not stream.startswith(b"\xef\xbb\xbf")
    assert b"\r" not in stream
    assert stream == b"" or stream.endswith(b"\n\n")
    payloads: list[dict[str, Any] | str] = []
    for block in stream.decode().split("\n\n")[:-1]:
        assert block.startswith("data: ")
        assert "\n" not in block
        data = block.removeprefix("data: ")
        assert data.strip() == data != ""
        payloads.append(data if data == "[DONE]" else json.loads(data, parse_constant=_refuse, object_pairs_hook=_once))
    return payloads


class Rejected(Exception):
    """Some client loses text, raises or hangs."""


def demand(condition: object, otherwise: str) -> None:
    if not condition:
        raise Rejected(otherwise)


class Client:
    """All clients in one: what the strictest of them makes of a stream."""

    def __init__(self) -> None:
        self.identity: tuple[Any, ...] | None = None
        self.roles = 0
        self.content = ""
        self.reasoning = ""
        self.calls: list[dict[str, Any]] = []
        self.asides: list[dict[str, Any]] = []
        self.about: dict[str, Any] | None = None
        self.finish: str | None = None
        self.usage: dict[str, Any] | None = None
        self.error: dict[str, Any] | None = None
        self.done = False

    def take(self, payload: dict[str, Any] | str) -> None:
        demand(not self.done, "something after [DONE]")
        if isinstance(payload, str):
            self.done = True
            return
        demand(self.error is None and self.usage is None, "something after what must be last")
        if "error" in payload:
            demand(set(payload["error"]) == {"message", "type", "param", "code"}, "another shape of error")
            demand(self.finish is None, "an error after the finish")
            self.error = payload["error"]
            return
        self._chunk(payload)

    def _chunk(self, chunk: dict[str, Any]) -> None:
        identity = (chunk["id"], chunk["created"], chunk["model"], chunk["object"])
        demand(self.identity in (None, identity), "another id, time or model")
        self.identity = identity
        demand(chunk["object"] == "chat.completion.chunk", "no chunk")
        demand(isinstance(chunk.get("choices"), list), "no choices")
        demand(set(chunk) - {"id", "created", "model", "object", "choices"} <= {"x_agent", "usage"}, "unknown members")
        if not chunk["choices"]:
            demand(self.finish is not None and set(chunk["usage"]) >= USAGE, "usage is not last, or no usage")
            self.usage = chunk["usage"]
            return
        demand("usage" not in chunk, "usage on a chunk with choices")
        demand(self.finish is None, "something after the finish reason")
        [choice] = chunk["choices"]
        demand(set(choice) == {"index", "delta", "finish_reason"} and choice["index"] == 0, "another shape of choice")
        self._delta(choice["delta"])
        self.finish = choice["finish_reason"]
        if self.finish is not None:
            demand(choice["delta"] == {} and isinstance(chunk["x_agent"], dict), "a finish with a delta, or untold")
            self.about = chunk["x_agent"]
        elif "x_agent" in chunk:
            demand(choice["delta"] == {} and isinstance(chunk["x_agent"], dict), "x_agent beside a delta")
            self.asides.append(chunk["x_agent"])

    def _delta(self, delta: dict[str, Any]) -> None:
        demand(("role" in delta) == (self.roles == 0), "no role on the first delta, or on another one")
        self.roles += "role" in delta
        demand(delta.get("role", "assistant") == "assistant", "another role")
        demand(set(delta) <= {"role", "content", "reasoning_content", "tool_calls"}, "unknown in the delta")
        for name in ("content", "reasoning_content"):
            demand(isinstance(delta.get(name, ""), str), f"{name} is no text")
        self.content += delta.get("content", "")
        self.reasoning += delta.get("reasoning_content", "")
        for call in delta.get("tool_calls", []):
            self._call(call)

    def _call(self, call: dict[str, Any]) -> None:
        index, function = call["index"], call["function"]
        demand(isinstance(function["arguments"], str), "arguments are no text")
        if index == len(self.calls):
            demand(call["type"] == "function" and call["id"] and function["name"], "a call without id, type or name")
            demand(all(each["id"] != call["id"] for each in self.calls), "an id comes twice")
            self.calls.append({"id": call["id"], "name": function["name"], "arguments": ""})
        else:
            demand(0 <= index < len(self.calls), "indexes are not dense")
            demand(set(call) == {"index", "function"} and set(function) == {"arguments"}, "id or name repeated")
        self.calls[index]["arguments"] += function["arguments"]


USAGE = {"prompt_tokens", "completion_tokens", "total_tokens"}


def follow(stream: bytes) -> Client:
    """What the strictest client has at the end of a whole stream. Raises Rejected."""
    client = Client()
    for payload in read(stream):
        client.take(payload)
    demand(client.done, "no [DONE]")
    demand((client.finish is None) == (client.error is not None), "neither a finish nor an error, or both")
    return client

"""Bad request bodies, each made from its number: good ones with one to three things done to them."""

import gzip
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

RAW = "@raw "
"""A text that begins so goes into the body without its quotes: numbers that no JSON writer would write."""

ODD: list[Any] = [
    None, True, False, 0, -1, 1.5, -0.0, 2**31, 2**53 + 1, 2**63, 2**64, 10**400, -(10**30),
    float("nan"), float("inf"), f"{RAW}1e400", f"{RAW}-1e400", f"{RAW}01", f"{RAW}1e-400", f"{RAW}{'9' * 5_000}",
    "", " ", "\x00", "\ud800", "\udc00\ud800", "\u2028\u0085\ufeff", "\r\n\r\n", "data: [DONE]\n\n", "null",
    "auto", "user", "assistant", "tool", "text", "function", "é" * 50, "😀", "../../etc/passwd", "%s{0}$", "x" * 129,
    [], {}, [[]], [None], {"": None}, {"type": "function"}, {"type": "text", "text": "x"}, {"role": "user"},
    [{"type": "text", "text": "x"}] * 3, {"\ud800": 1}, {"__class__": "x"}, [0] * 300,
]  # fmt: skip

FRAGMENTS = [
    b"NaN", b"-Infinity", b"1e400", b'"\\ud800"', b'"\\u0000"', b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf",
    b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"null", b"-", b"[[[[", b"\x00", b"//", b"/**/", b"'", b"\r\n",
]  # fmt: skip

CONTENT_TYPES = [
    "application/json; charset=utf-8", "application/json;charset=UTF-16", "application/json; charset=latin-1",
    "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "json", ";;;=",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request."""

    number: int
    headers: dict[str, str]
    body: bytes

    def told(self) -> str:
        """The case as a failure shows it; a long body is cut, and its number makes it again."""
        return f"case {self.number}, {self.headers}, {len(self.body)} bytes: {self.body[:2_000]!r}"


def agui_case(number: int) -> Case:
    """A request to /agui. Twenty of them share a thread, so that histories come out odd as well."""
    return _case(number, random.Random(f"agui {number}"), _agui_body(number))


def chat_case(number: int) -> Case:
    """A request to /v1/chat/completions, some in a session that is named, some that come again."""
    rng = random.Random(f"chat {number}")
    headers: dict[str, str] = {}
    if rng.random() < 0.2:
        headers["x-session-id"] = rng.choice([f"s{number // 20}", "", "a b", "x" * 129, "é"])
    if rng.random() < 0.2:
        headers["x-stainless-retry-count"] = rng.choice(["0", "1", "-1", "9" * 5_000, "²", "x"])
        headers["x-stainless-read-timeout"] = rng.choice(["600", "nan", "inf", "-1", "1e400", "x"])
    if rng.random() < 0.1:
        headers["idempotency-key"] = rng.choice(["k", "", "x" * 1_000, f"k{number // 2}"])
    return _case(number, rng, _chat_body(number, rng), headers)


def _agui_body(number: int) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "pick", "arguments": '{"a":1}'}}
    source = {"type": "url", "value": "https://example.org/cat.png"}
    return {
        "threadId": f"t{number // 20}",
        "runId": f"r{number}",
        "parentRunId": "r0",
        "protocolVersion": "1.0",
        "messages": [
            {"id": "m1", "role": "system", "content": "Be brief."},
            {"id": "m2", "role": "user", "content": [{"type": "text", "text": "look"}]},
            {"id": "m3", "role": "user", "content": [{"type": "image", "source": source}]},
            {"id": "m4", "role": "assistant", "content": "I pick.", "toolCalls": [call]},
            {"id": "m5", "role": "tool", "toolCallId": "c1", "content": "blue"},
            {"id": f"u{number}", "role": "user", "content": "add 1 and 2"},
        ],
        "tools": [{"name": "pick", "description": "Pick a colour", "parameters": {"type": "object"}}],
        "context": [{"description": "page", "value": "shop"}],
        "state": {"cart": [1, 2], "open": True},
        "forwardedProps": {"theme": "dark"},
    }


def _chat_body(number: int, rng: random.Random) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "pick", "arguments": '{"a":1}'}}
    schema = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
    return {
        "model": "a",
        "stream": rng.random() < 0.5,
        "messages": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "look"}], "name": "ann"},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]},
            {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "blue"},
            {"role": "user", "content": f"add 1 and {number}"},
        ],
        "tools": [{"type": "function", "function": {"name": "pick", "description": "Pick", "parameters": schema}}],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "temperature": 0.5,
        "max_completion_tokens": 100,
        "stop": ["\n\n"],
        "seed": 7,
        "user": "ann",
        "x_agent": {"events": True},
    }


def _case(number: int, rng: random.Random, good: dict[str, Any], headers: dict[str, str] | None = None) -> Case:
    told = {"content-type": "application/json", **(headers or {})}
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        rng.choice(MUTATIONS)(rng, good)
    body = _json(good)
    if rng.random() < 0.25:
        body = rng.choice(SPOILS)(rng, body)
    if rng.random() < 0.03:
        told["content-type"] = rng.choice(CONTENT_TYPES)
    if rng.random() < 0.01:
        told["content-encoding"] = rng.choice(["gzip", "identity", "br", "x"])
    return Case(number=number, headers={name: _sendable(value) for name, value in told.items()}, body=body)


def _sendable(value: str) -> str:
    return value.encode("latin-1", "replace").decode("latin-1")


def _json(value: object) -> bytes:
    text = json.dumps(value)
    while (start := text.find(f'"{RAW}')) >= 0:
        end = text.index('"', start + 1)
        text = text[:start] + text[start + 1 + len(RAW) : end] + text[end + 1 :]
    return text.encode()


def _spots(value: Any) -> list[tuple[Any, Any]]:
    """Every place in the value: a container and the name or the index in it."""
    items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    inner = [spot for _, each in items if isinstance(each, dict | list) for spot in _spots(each)]
    return [(value, key) for key, _ in items] + inner


Mutation = Callable[[random.Random, dict[str, Any]], None]
Spoil = Callable[[random.Random, bytes], bytes]


def _swap(rng: random.Random, body: dict[str, Any]) -> None:
    if spots := _spots(body):
        container, key = rng.choice(spots)
        container[key] = json.loads(json.dumps(rng.choice(ODD)))  # a copy, since later steps change it


def _remove(rng: random.Random, body: dict[str, Any]) -> None:
    if spots := _spots(body):
        container, key = rng.choice(spots)
        del container[key]


def _nest(rng: random.Random, body: dict[str, Any]) -> None:
    if spots := _spots(body):
        container, key = rng.choice(spots)
        value = container[key]
        for _ in range(rng.choice([1, 1, 2, 50, 190, 240])):
            value = [value] if rng.random() < 0.5 else {"content": value}
        container[key] = value


def _repeat(rng: random.Random, body: dict[str, Any]) -> None:
    lists = [container[key] for container, key in _spots(body) if isinstance(container[key], list)]
    if lists:
        each = rng.choice(lists)
        each.extend(each * rng.choice([1, 1, 2, 20, 130, 300]))


def _exchange(rng: random.Random, body: dict[str, Any]) -> None:
    if spots := _spots(body):
        (one, at), (other, there) = rng.choice(spots), rng.choice(spots)
        # Copies, because a value that is put into itself has no end.
        one[at], other[there] = json.loads(json.dumps([other[there], one[at]]))


def _grow(rng: random.Random, body: dict[str, Any]) -> None:
    if spots := _spots(body):
        container, key = rng.choice(spots)
        text = rng.choice(["x", "add 1 ", "\u0000", "😀", '"\\', "\ud800", "[{", "a.b,c;"])
        container[key] = text * (rng.choice([100, 1_000, 1_000, 10_000, 10_000, 60_000, 60_000, 300_000]) // len(text))


def _add(rng: random.Random, body: dict[str, Any]) -> None:
    objects = [body, *(each for container, key in _spots(body) if isinstance(each := container[key], dict))]
    names = ["n", "logprobs", "stream_options", "response_format", "functions", "audio", "resume", "type", "id",
             "role", "name", "error", "extra_content", "reasoning_content", "", "\ud800", "x"]  # fmt: skip
    rng.choice(objects)[rng.choice(names)] = json.loads(json.dumps(rng.choice(ODD)))


MUTATIONS: list[Mutation] = [_swap, _swap, _swap, _remove, _remove, _nest, _repeat, _exchange, _grow, _add, _add]


def _truncate(rng: random.Random, body: bytes) -> bytes:
    return body[: rng.randrange(len(body))]


def _splice(rng: random.Random, body: bytes) -> bytes:
    at = rng.randrange(len(body))
    return body[:at] + rng.choice(FRAGMENTS) + body[at + rng.choice([0, 1, 5, 40]) :]


def _flip(rng: random.Random, body: bytes) -> bytes:
    changed = bytearray(body)
    for _ in range(rng.randint(1, 8)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _duplicate(rng: random.Random, body: bytes) -> bytes:
    """A member that comes twice, with another value in front or behind."""
    name = rng.choice([b"messages", b"model", b"threadId", b"tools", b"stream", b"state"])
    value = _json(rng.choice(ODD))
    if rng.random() < 0.5:
        return b'{"' + name + b'":' + value + b"," + body[1:]
    return body[:-1] + b',"' + name + b'":' + value + b"}"


def _recode(rng: random.Random, body: bytes) -> bytes:
    text = body.decode()
    coding = rng.choice(["utf-16", "utf-32", "utf-8-sig", "utf-7", "cp037"])
    return text.encode(coding, "replace") if rng.random() < 0.9 else gzip.compress(body, mtime=0)


def _replace(rng: random.Random, body: bytes) -> bytes:
    kind = rng.randrange(7)
    if kind == 0:
        return rng.randbytes(rng.choice([0, 1, 10, 1_000, 100_000]))
    if kind == 1:
        return rng.choice([b"[", b'{"a":', b"{"]) * rng.choice([199, 201, 5_000, 200_000])
    if kind == 2:
        depth = rng.choice([199, 200, 201, 2_000])
        return body[:-1] + b',"deep":' + b"[" * depth + b"]" * depth + b"}"
    if kind == 3:
        return body + body
    if kind == 4:
        name = rng.choice([b"messages", b"tools", b"context", b"stop", b"x"])
        item = rng.choice([b"{}", b"[]", b'"a b"', b"1", b'{"role":"user","content":""}'])
        return body[:-1] + b',"' + name + b'":[' + b",".join([item] * rng.choice([999, 20_000, 60_000])) + b"]}"
    if kind == 5:
        return b'{"a":"' + b"x" * rng.choice([1_900_000, 2_100_000]) + rng.choice([b'"}', b"\\", b""])
    return rng.choice(FRAGMENTS) * rng.choice([1, 100, 10_000])


SPOILS: list[Spoil] = [_truncate, _splice, _splice, _flip, _flip, _duplicate, _duplicate, _recode, _replace]

"""The heaviest things that are accepted: long sessions, large bodies, schemas and arguments made to be hard.

Each is some requests, sent one after another to a server that runs `heavy_agents`. What a model says there is chosen
by the text of the request.
"""

import http.client
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from agent_core import Agent, ToolContext, tool
from agent_core.messages import Message, ToolCall
from agent_core.models.base import ArgumentsPiece, CallPiece, ModelRequest, Piece, TextPiece
from agent_core.pairing import result_of
from agent_core.sessions.copies.portable import export_lines
from agent_core.sessions.entries import Entry
from tests.doubles import ScriptedModel, calls, says
from tests.entries import message_entry, rewound_entry, run_entry, state_entry
from tests.serving import run_input

FRAME = 900_000
"""Characters that one piece of an answer has: a line of a provider's stream has hardly more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One request; `least` and `most` bound its status."""

    method: str = "POST"
    path: str
    body: bytes = b""
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    least: int = 200
    most: int = 299

    def to(self, port: int) -> bytes:
        """Send it and return the whole answer. Raises AssertionError for another status."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        headers = {"content-type": self.content_type} if self.body else {}
        try:
            connection.request(self.method, self.path, body=self.body or None, headers=headers | self.headers)
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        assert self.least <= response.status <= self.most, (self.path, response.status, answer[:500])
        assert b'"code":"internal"' not in answer, answer[-500:]
        return answer


@tool
def note(context: ToolContext, n: int = 0) -> str:
    """Changes the state."""
    context.state["k0"] = n
    return "noted"


def heavy_agents() -> list[Agent]:
    return [Agent("a", ScriptedModel([_answer]), tools=[note])]


def heavy_cases() -> Iterator[tuple[str, Sequence[Sent]]]:
    """Each with its name."""
    for name, entries in SESSIONS.items():
        yield name, list(_over(name.replace(" ", "_"), entries()))
    for name, members in RUNS.items():
        yield name, [_run(name, **members())]
    yield "a large state", list(_states())
    yield "a transcript of ten thousand", list(_transcripts())
    yield (
        "ten thousand wrong messages",
        [_transcript("wrong", [{"id": "m", "role": "user"}] * 10_000, least=400, most=400)],
    )
    yield "ten thousand messages that are not plain", list(_unusual(10_000))
    yield "a body of many values", [_run("hello", state={"a": [[n] for n in range(40_000)]}, least=400, most=400)]
    yield "a body of far too many values", [_raw(b"[" + b"[]," * 600_000 + b"[]]")]
    yield "a body that is no JSON at its end", [_raw(b"[" + b"[]," * 60_000 + b"NaN]")]


def _run(text: str, *, least: int = 200, most: int = 299, **members: Any) -> Sent:
    body = json.dumps(run_input(text, thread=members.pop("thread", text.replace(" ", "_")), **members)).encode()
    return Sent(path="/agui/a", body=body, least=least, most=most)


def _raw(state: bytes) -> Sent:
    body = json.dumps(run_input("hello", state=0)).encode().replace(b'"state": 0', b'"state": ' + state)
    return Sent(path="/agui/a", body=body, least=400, most=400)


def _transcript(thread: str, messages: list[dict[str, Any]], *, least: int = 200, most: int = 299) -> Sent:
    body = json.dumps(run_input(thread=thread, messages=messages)).encode()
    return Sent(path="/agui/a", body=body, least=least, most=most)


def _transcripts() -> Iterator[Sent]:
    """A conversation brought to a new session, which goes on there: as a whole, as what is new, by ids, by texts."""
    roles = ("user", "assistant")
    many = [{"id": f"m{n}", "role": roles[n % 2], "content": f"Text {n} of a talk."} for n in range(9_999)]
    yield _transcript("long", many)
    yield _transcript("long", [*many, {"id": "more", "role": "user", "content": "and more"}])
    yield _transcript("long", [{"id": "new", "role": "user", "content": "and more"}])
    said = [{name: each[name] for name in ("role", "content")} for each in many]
    for session in ("by-texts", "by-texts", ""):
        headers = {"x-session-id": session} if session else {}
        body = json.dumps({"model": "a", "messages": said}).encode()
        yield Sent(path="/v1/chat/completions", body=body, headers=headers)


def _unusual(count: int) -> Iterator[Sent]:
    """Conversations of messages that are read with care: of parts, with names, with calls; and wrong at their end."""
    parts = {"role": "user", "content": [{"type": "text", "text": "x"}]}
    call = {"id": "c", "type": "function", "function": {"name": "note", "arguments": "{}"}}
    said = {"role": "assistant", "name": "n", "content": ""}
    for name, each, made in (("parts", parts, []), ("calls", said, [call])):
        many = [{"id": f"m{at}", **each} | ({"toolCalls": made} if made else {}) for at in range(count)]
        yield _transcript(name, many)
        yield _transcript(name, [*many[1:], {"id": "w", "role": "user"}], least=400, most=400)
        chat = [each | {"tool_calls": made}] * count
        yield Sent(path="/v1/chat/completions", body=json.dumps({"model": "a", "messages": chat}).encode())


def _chat(session: str) -> Sent:
    body = json.dumps({"model": "a", "messages": [{"role": "user", "content": "hello"}]}).encode()
    headers = {"x-session-id": session, "x-stainless-retry-count": "1"}
    return Sent(path="/v1/chat/completions", body=body, headers=headers)


def _over(session: str, entries: list[Entry]) -> Iterator[Sent]:
    """All requests that can be made to a session. The session is imported first."""
    numbered = [replace(entry, seq=seq) for seq, entry in enumerate(entries, start=1)]
    lines = export_lines(numbered, session_id=session, title="t")
    path = f"/sessions/{session}"
    yield Sent(path=f"{path}/import", body=lines, content_type="application/x-ndjson")
    for end in ("", "/messages?agent=a", "/messages?agent=a&limit=10", "/export", "/interrupts", "/runs/r/events"):
        yield Sent(method="GET", path=path + end)
    yield Sent(path=f"{path}/fork", body=json.dumps({"messageId": "m0", "agent": "a"}).encode())
    seen = {"messages": [{"id": "o", "role": "user", "content": "seen"}]}
    yield Sent(path=f"{path}/observe?agent=a", body=json.dumps(seen).encode())
    yield _run("hello", thread=session)
    yield _chat(session)
    yield _chat(session)
    yield _run("hello", thread=session, messages=[{"id": "m0", "role": "user", "content": "from the first on"}])
    yield Sent(method="DELETE", path=path)


def _said(number: int, **members: Any) -> Entry:
    return message_entry("r", "a", Message(id=f"m{number}", **members))


def _talk(messages: int) -> list[Entry]:
    roles = ("user", "assistant")
    return [
        run_entry("r", "a"),
        *(_said(n, role=roles[n % 2], content=f"Text {n} of a talk.") for n in range(messages)),
    ]


def _calls(number: int) -> list[Entry]:
    """So many calls, and then as many results."""
    made = [ToolCall(id=f"c{n}", name="f", arguments="{}") for n in range(number)]
    asked = [_said(n + 1, role="assistant", tool_calls=(call,)) for n, call in enumerate(made)]
    answered = [message_entry("r", "a", result_of(call, "ok", "x", message_id=f"t{call.id}")) for call in made]
    return [run_entry("r", "a"), _said(0, role="user", content="go"), *asked, *answered]


def _back_and_forth(times: int) -> list[Entry]:
    back = (rewound_entry("r", "a", after) for _ in range(times) for after in ("", "m999"))
    return [*_talk(1_000), *back]


def _inserts(number: int) -> list[dict[str, Any]]:
    return [{"op": "add", "path": "/0", "value": 0} for _ in range(number)]


def _patched() -> list[Entry]:
    patches = (state_entry("r", patch=_inserts(2_400)) for _ in range(12))
    return [*_talk(2), state_entry("r", value=[]), *patches]


SESSIONS: dict[str, Callable[[], list[Entry]]] = {
    "a long talk": lambda: _talk(20_000),
    "many calls and then their results": lambda: _calls(6_000),
    "a talk that went back and forth": lambda: _back_and_forth(200),
    "a state of many patches": _patched,
}


def _client_tool(name: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "description": "d", "parameters": {"type": "object", **schema}}


def _many(**schema: Any) -> dict[str, Any]:
    """A hundred tools, whose schemas are all different."""
    return {"tools": [_client_tool(f"f{n}", minProperties=0, maxProperties=n + 9, **schema) for n in range(100)]}


def _texts(pattern: str) -> dict[str, Any]:
    return {"tools": [_client_tool("f0", properties={"a": {"type": "string", "pattern": pattern}})]}


def _twice() -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {"x": {"type": "integer"}}}
    for _ in range(25):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return {"tools": [_client_tool("f0", **schema)]}


ITSELF = {"$defs": {"T": {"properties": {f"p{n}": {"$ref": "#/$defs/T"} for n in range(6)}}}}
PATTERNS = {f"p{n}": {"pattern": f"^(?:[a-z{n}]{{1,30}}|[^x]{{3,40}}){{1,9}}$"} for n in range(50)}
DEEP = {"additionalProperties": {"uniqueItems": True, "items": {"items": {"type": "integer"}}}}

RUNS: dict[str, Callable[[], dict[str, Any]]] = {
    "a pattern of nested repetitions": lambda: _texts("(a++)+b"),
    "a password rule": lambda: _texts(r"^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)(?=.*[^\w]).{8,64}$"),
    "a wide pattern": lambda: _texts("[01]*1[01]{100}2"),
    "a schema that is looked at again and again": _twice,
    "schemas that refer to themselves": lambda: _many(properties={"x": {"$ref": "#/$defs/T"}}, **ITSELF),
    "schemas of many patterns": lambda: _many(properties=PATTERNS),
    "schemas of many members": lambda: _many(properties={f"p{n}": {"type": "string"} for n in range(180)}),
    "calls of many values": lambda: _many(**DEEP),
    "arguments in long pieces": lambda: {"tools": [_client_tool("f0")]},
    "arguments that break off": lambda: {"tools": [_client_tool("f0")]},
    "arguments for our own tool": dict,
    "texts in long pieces": dict,
    "very many pieces": dict,
}


def _states() -> Iterator[Sent]:
    """A state of many keys. The client and every call of a tool change it."""
    for number in range(3):
        yield _run("many calls of a tool", thread="state", state={f"k{n}": n * number for n in range(15_000)})
    yield Sent(method="GET", path="/sessions/state")


VALUES = json.dumps({"a": [[k] for k in range(8_000)]})
BRACKETS = json.dumps({"a": [[] for _ in range(900_000)]}, separators=(",", ":"))
ANSWERS: dict[str, Callable[[], list[Piece]]] = {
    "a pattern of nested repetitions": lambda: calls(("f0", json.dumps({"a": "a" * 100_000}))),
    "a password rule": lambda: calls(("f0", json.dumps({"a": "aB3$" * 25_000}))),
    "a wide pattern": lambda: calls(("f0", json.dumps({"a": "0110" * 30_000}))),
    "a schema that is looked at again and again": lambda: calls(("f0", '{"x": 1}')),
    "schemas that refer to themselves": lambda: calls(*((f"f{n}", "{}") for n in range(100))),
    "schemas of many patterns": lambda: calls(*((f"f{n}", "{}") for n in range(100))),
    "schemas of many members": lambda: calls(*((f"f{n}", "{}") for n in range(100))),
    "calls of many values": lambda: calls(*((f"f{n}", VALUES) for n in range(20))),
    "arguments in long pieces": lambda: _in_pieces("f0", json.dumps({"a": '"\\{[' * 400_000})),
    "arguments that break off": lambda: _in_pieces("f0", BRACKETS),
    "arguments for our own tool": lambda: _in_pieces("note", BRACKETS),
    "texts in long pieces": lambda: says(*["\u0001<é\n" * (FRAME // 4)] * 4),
    "very many pieces": lambda: [TextPiece("x")] * 50_000,
    "many calls of a tool": lambda: calls(*(("note", json.dumps({"n": n})) for n in range(60))),
}  # fmt: skip


def _in_pieces(name: str, arguments: str) -> list[Piece]:
    pieces = (ArgumentsPiece(0, arguments[start : start + FRAME]) for start in range(0, len(arguments), FRAME))
    return [CallPiece(0, "c", name), *pieces]


def _answer(request: ModelRequest) -> list[Piece]:
    last = request.messages[-1]
    return ANSWERS.get(last.text, lambda: says("Done."))() if last.role == "user" else says("Done.")

"""What the session routes take and refuse: over HTTP, with sessions that were put into the store."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson
import pytest

from agent_core import Agent
from agent_core.errors import RunError
from agent_core.messages import Message
from agent_core.names import SessionKey
from agent_core.sessions.entries import Entry
from app.main import create_app
from app.routes import transfers
from app.settings import Settings
from tests.agent_core.sessions.talk import CALL, answered, said, user
from tests.app.doubles import Running, running
from tests.entries import run_entry, state_entry, titled_entry

AGENTS = [Agent("a", "fake:fake"), Agent("b", "fake:fake")]
JSON = {"content-type": "application/json"}
NDJSON = {"content-type": "application/x-ndjson"}
SETTINGS = Settings(store="memory")


@pytest.fixture
async def up() -> AsyncIterator[Running]:
    async with running(create_app(SETTINGS, agents=AGENTS), SETTINGS) as server:
        yield server


@pytest.fixture
async def http(up: Running) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=up.url, timeout=20) as client:
        yield client


async def fill(up: Running, session_id: str, *entries: Entry, user_id: str = "local") -> None:
    await up.server.app.state.services.engine.sessions.fill(SessionKey(user_id=user_id, session_id=session_id), entries)


async def talk(up: Running, session_id: str = "s1") -> None:
    await fill(
        up,
        session_id,
        run_entry("r1", "a"),
        titled_entry("r1", "A talk"),
        user("u1"),
        said("m1", "", CALL),
        answered(CALL, "t1"),
        said("m2", "done"),
        state_entry("r1", value={"n": 1}),
        user("v1", agent="b"),
    )


def ids(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [message["id"] for message in answer.json()["messages"]]


def refused(answer: httpx.Response, param: str | None, status: int = 400) -> None:
    """The answer is an error in the one shape, and names the field."""
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert (error["param"], error["code"]) == (
        param,
        {404: "not_found", 413: "body_too_large"}.get(status, "invalid_request"),
    )


async def test_a_session_is_shown_with_its_agents_and_state(up: Running, http: httpx.AsyncClient) -> None:
    await talk(up)
    shown = (await http.get("/sessions/s1")).json()
    assert shown["createdAt"] == shown["updatedAt"]
    assert len(shown["createdAt"]) == len("2026-01-01T00:00:00.000Z")
    assert shown["createdAt"].endswith("Z")
    del shown["createdAt"], shown["updatedAt"]
    assert shown == {"id": "s1", "title": "A talk", "agents": ["a", "b"], "run": None, "state": {"n": 1}}


async def test_sessions_are_listed_by_pages_the_newest_first(up: Running, http: httpx.AsyncClient) -> None:
    assert (await http.get("/sessions")).json() == {"sessions": [], "next": None}
    for number in range(5):
        await talk(up, f"s{number}")
    await fill(up, "other", user("u1"), user_id="somebody")
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = (await http.get("/sessions", params=query)).json()
        assert set(page["sessions"][0]) == {"id", "title", "createdAt", "updatedAt"}
        seen += [each["id"] for each in page["sessions"]]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert seen == ["s4", "s3", "s2", "s1", "s0"]


async def test_the_messages_are_those_of_one_agent(up: Running, http: httpx.AsyncClient) -> None:
    await talk(up)
    answer = await http.get("/sessions/s1/messages")
    assert ids(answer) == ["u1", "m1", "t1", "m2"]
    assert {name: answer.json()[name] for name in ("agent", "more")} == {"agent": "a", "more": False}
    assert ids(await http.get("/sessions/s1/messages?agent=b")) == ["v1"]
    refused(await http.get("/sessions/s1/messages?agent=c"), "agent", 404)


async def test_the_messages_can_be_read_backward(up: Running, http: httpx.AsyncClient) -> None:
    await talk(up)
    for query, expected, more in (
        ("limit=2", ["t1", "m2"], True),
        ("limit=4", ["u1", "m1", "t1", "m2"], False),
        ("limit=2&before=t1", ["u1", "m1"], False),
        ("limit=1&before=t1", ["m1"], True),
        ("before=u1", [], False),
    ):
        answer = await http.get(f"/sessions/s1/messages?{query}")
        assert (ids(answer), answer.json()["more"]) == (expected, more)


async def test_a_session_gets_another_title(up: Running, http: httpx.AsyncClient) -> None:
    await talk(up)
    answer = await http.patch("/sessions/s1", json={"title": "  Gespräch 🐈‍⬛ \n", "more": 1})
    assert (answer.status_code, answer.json()["title"]) == (200, "Gespräch 🐈‍⬛")
    assert (await http.get("/sessions")).json()["sessions"][0]["title"] == "Gespräch 🐈‍⬛"
    for title in ("x" * 200, "東京\u3000旅行", "👨\u200d👩\u200d👧", "می\u200cخواهم", "\U0001fae8"):
        answer = await http.patch("/sessions/s1", json={"title": title})
        assert (answer.status_code, answer.json()["title"]) == (200, title)


async def test_a_deleted_session_is_gone(up: Running, http: httpx.AsyncClient) -> None:
    await talk(up)
    answer = await http.delete("/sessions/s1")
    assert (answer.status_code, answer.content) == (204, b"")
    for method, path in (("DELETE", ""), ("GET", ""), ("GET", "/messages"), ("GET", "/export")):
        refused(await http.request(method, f"/sessions/s1{path}"), None, 404)
    assert (await http.get("/sessions")).json()["sessions"] == []


async def test_what_is_observed_joins_the_agents_history(up: Running, http: httpx.AsyncClient) -> None:
    told = [
        {"id": "o1", "role": "user", "content": [{"type": "text", "text": "by the way"}]},
        {"id": "o2", "role": "assistant", "content": "I see"},
        {"id": "o3", "role": "reasoning", "content": "hm"},
    ]
    for _ in range(2):
        answer = await http.post("/sessions/new/observe?agent=b", json={"messages": told, "more": 1})
        assert answer.status_code == 200, answer.text
    assert answer.json() == {"observed": 0}
    assert ids(await http.get("/sessions/new/messages?agent=b")) == ["o1", "o2"]
    assert ids(await http.get("/sessions/new/messages")) == []
    refused(await http.post("/sessions/new/observe?agent=c", json={"messages": told}), "agent", 404)


async def test_calls_and_their_results_cannot_be_observed(up: Running, http: httpx.AsyncClient) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "x", "arguments": "{}"}}
    for bad in (
        {"id": "m2", "role": "assistant", "toolCalls": [call]},
        {"id": "m2", "role": "assistant", "content": "so", "tool_calls": [call]},
        {"id": "m2", "role": "tool", "toolCallId": "c1", "content": "so"},
    ):
        body = {"messages": [{"id": "m1", "role": "user", "content": "hi"}, bad]}
        refused(await http.post("/sessions/s9/observe", json=body), "messages[1]")
    refused(await http.get("/sessions/s9"), None, 404)


async def test_a_session_with_a_change_of_the_state_that_does_not_fit_can_be_read_and_goes_on(
    up: Running, http: httpx.AsyncClient
) -> None:
    await talk(up)
    entries = list(await up.server.app.state.services.engine.store.load(SessionKey(user_id="local", session_id="s1")))
    bad = state_entry("r1", patch=[{"op": "add", "path": "/gone/deeper", "value": 1}])
    await fill(up, "bad", *entries, bad, state_entry("r1", patch=[{"op": "add", "path": "/m", "value": 2}]))
    for _ in range(2):
        assert (await http.get("/sessions/bad")).json()["state"] == {"n": 1, "m": 2}
        assert ids(await http.get("/sessions/bad/messages?limit=4")) != []
        assert (await http.get("/sessions/bad/interrupts")).status_code == 200
        fork = await http.post("/sessions/bad/fork", json={"messageId": "m2"})
        assert fork.status_code == 201, fork.text
        body = {"model": "a", "messages": [{"role": "user", "content": "go on"}]}
        told = await http.post("/v1/chat/completions", json=body, headers={"x-session-id": "bad"})
        assert told.status_code == 200, told.text


async def test_an_exported_session_can_be_imported_under_another_name(up: Running, http: httpx.AsyncClient) -> None:
    await talk(up)
    exported = await http.get("/sessions/s1/export")
    assert exported.headers["content-type"] == "application/x-ndjson"
    assert exported.headers["content-disposition"] == 'attachment; filename="s1.jsonl"'
    for name, media in (("s:2", "application/x-ndjson; charset=utf-8"), ("s3", "application/jsonl")):
        answer = await http.post(f"/sessions/{name}/import", content=exported.content, headers={"content-type": media})
        assert answer.status_code == 201, answer.text
        assert (answer.json()["id"], answer.json()["title"]) == (name, "A talk")
        assert ids(await http.get(f"/sessions/{name}/messages")) == ["u1", "m1", "t1", "m2"]
    again = await http.get("/sessions/s:2/export")
    assert again.headers["content-disposition"] == 'attachment; filename="s_2.jsonl"'
    unmarked = again.content.replace(b',"origin":"copied"', b"")
    assert unmarked.splitlines()[1:-1] == exported.content.splitlines()[1:]  # and the end of the run
    assert unmarked != again.content


async def test_an_import_that_cannot_be_used_is_refused(
    up: Running, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk(up)
    lines = (await http.get("/sessions/s1/export")).content
    refused(await http.post("/sessions/s1/import", content=lines, headers=NDJSON), None, 409)
    for media in ("text/plain", "application/json", "", "multipart/form-data"):
        answer = await http.post("/sessions/s2/import", content=lines, headers={"content-type": media})
        refused(answer, "content-type", 415)
    answer = await http.post("/sessions/s2/import", content=lines, headers=NDJSON | {"content-encoding": "gzip"})
    refused(answer, "content-encoding", 415)
    bad = lines.replace(b'"kind":"state"', b'"kind":"other"')
    answer = await http.post("/sessions/s2/import", content=bad, headers=NDJSON)
    refused(answer, "line 8")
    assert answer.json()["error"]["message"].startswith("line 8: ")
    monkeypatch.setattr(transfers, "IMPORT_LIMIT", len(lines) - 1)
    refused(await http.post("/sessions/s2/import", content=lines, headers=NDJSON), None, 413)

    async def piece_by_piece() -> AsyncIterator[bytes]:
        yield lines

    refused(await http.post("/sessions/s2/import", content=piece_by_piece(), headers=NDJSON), None, 413)
    refused(await http.get("/sessions/s2"), None, 404)


async def test_a_session_is_forked_at_a_message(up: Running, http: httpx.AsyncClient) -> None:
    await talk(up)
    answer = await http.post("/sessions/s1/fork", json={"messageId": "m1", "sessionId": "branch"})
    assert (answer.status_code, answer.json()["id"], answer.json()["title"]) == (201, "branch", "A talk")
    *copied, result = (await http.get("/sessions/branch/messages")).json()["messages"]
    assert [each["id"] for each in copied] == ["u1", "m1"]
    assert result["error"].startswith("Not run: ")
    assert ids(await http.get("/sessions/s1/messages")) == ["u1", "m1", "t1", "m2"]
    fresh = (await http.post("/sessions/s1/fork", json={"messageId": "v1", "agent": "b"})).json()["id"]
    assert ids(await http.get(f"/sessions/{fresh}/messages?agent=b")) == ["v1"]
    for taken in ("s1", "branch"):
        refused(await http.post("/sessions/s1/fork", json={"messageId": "m1", "sessionId": taken}), "sessionId", 409)


async def test_a_session_without_a_run_has_nothing_to_interrupt(up: Running, http: httpx.AsyncClient) -> None:
    await talk(up)
    for answer in (
        await http.post("/sessions/s1/interrupt"),
        await http.post("/sessions/s1/interrupt", json={}),
        await http.post("/sessions/s1/interrupt", json={"runId": "r1"}),
        await http.post("/sessions/s1/interrupt", headers=JSON),
    ):
        assert (answer.status_code, answer.json()) == (200, {"interrupted": False})
    refused(await http.post("/sessions/s1/interrupt", content=b"{}"), "content-type", 415)


BAD_QUERIES: list[tuple[str, str]] = [
    ("?limit=0", "limit"),
    ("?limit=201", "limit"),
    ("?limit=-1", "limit"),
    ("?limit=" + "9" * 5_000, "limit"),
    ("?limit=ten", "limit"),
    ("?limit=", "limit"),
    ("?limit=%D9%A1", "limit"),
    ("?limit=1.0", "limit"),
    ("?after=", "after"),
    ("?after=x", "after"),
    ("?after=" + "9" * 40 + "-1", "after"),
    ("?after=%00", "after"),
    ("/s1/messages?limit=0", "limit"),
    ("/s1/messages?limit=1001", "limit"),
    ("/s1/messages?limit=%ED%A0%80", "limit"),
    ("/s1/messages?before=", "before"),
    ("/s1/messages?before=nothing", "before"),
    ("/s1/messages?before=v1", "before"),
    ("/s1/messages?before=%00%ff", "before"),
]


async def test_a_bad_query_names_its_member(up: Running, http: httpx.AsyncClient) -> None:
    await talk(up)
    for path, param in BAD_QUERIES:
        refused(await http.get(f"/sessions{path}"), param)


BAD_TITLES: list[tuple[Any, str | None]] = [
    ({}, "title"),
    ({"title": None}, "title"),
    ({"title": 7}, "title"),
    ({"title": ["x"]}, "title"),
    ({"title": ""}, "title"),
    ({"title": " \n "}, "title"),
    ({"title": "x" * 201}, "title"),
    ({"title": "a\x00b"}, "title"),
    ({"title": "a\nb"}, "title"),
    ({"title": "a\x85b"}, "title"),
    ({"title": "a\u2028b"}, "title"),
    ({"title": "\u200b"}, "title"),
    ({"title": "a\u200bb"}, "title"),
    ({"title": "\u200d"}, "title"),
    ({"title": "a \u200d"}, "title"),
    ({"title": "a\u200d\u200db"}, "title"),
    ({"title": "\ufeffa"}, "title"),
    ({"title": "a\u200eb"}, "title"),
    ({"title": "\u202egpj.exe"}, "title"),
    ({"title": "\u2066a\u2069"}, "title"),
    ([], None),
    ("x", None),
    (b'{"title":"\\ud800"}', "title"),
    (b'{"title":', None),
    (b"", None),
    (b"\xff", None),
    (b"[" * 100_000, None),
    (b'{"title":1e999}', "title"),
]


async def test_a_bad_title_is_refused(up: Running, http: httpx.AsyncClient) -> None:
    await talk(up)
    for body, param in BAD_TITLES:
        content = body if isinstance(body, bytes) else orjson.dumps(body)
        refused(await http.patch("/sessions/s1", content=content, headers=JSON), param)
    assert (await http.get("/sessions/s1")).json()["title"] == "A talk"


BAD_BODIES: list[tuple[str, Any, str | None]] = [
    ("fork", {}, "messageId"),
    ("fork", {"messageId": ""}, "messageId"),
    ("fork", {"messageId": 1}, "messageId"),
    ("fork", {"messageId": "nothing"}, "messageId"),
    ("fork", {"messageId": "v1"}, "messageId"),
    ("fork", {"messageId": "m1", "agent": "nobody"}, "agent"),
    ("fork", {"messageId": "m1", "agent": ""}, "agent"),
    ("fork", {"messageId": "m1", "agent": {}}, "agent"),
    ("fork", {"messageId": "m1", "sessionId": ""}, "sessionId"),
    ("fork", {"messageId": "m1", "sessionId": "a b"}, "sessionId"),
    ("fork", {"messageId": "m1", "sessionId": "x" * 129}, "sessionId"),
    ("fork", {"messageId": "m1", "sessionId": "a\n"}, "sessionId"),
    ("fork", {"messageId": "m1", "sessionId": False}, "sessionId"),
    ("interrupt", {"runId": 1}, "runId"),
    ("interrupt", {"runId": "a\x00"}, "runId"),
    ("interrupt", [], None),
    ("observe", {}, "messages"),
    ("observe", {"messages": None}, "messages"),
    ("observe", {"messages": []}, "messages"),
    ("observe", {"messages": {}}, "messages"),
    ("observe", {"messages": ["x"]}, "messages[0]"),
    ("observe", {"messages": [{"role": "user", "content": "hi"}]}, "messages[0].id"),
    ("observe", {"messages": [{"id": "", "role": "user", "content": "hi"}]}, "messages[0].id"),
    ("observe", {"messages": [{"id": "o", "role": "user", "content": 7}]}, "messages[0].content"),
    ("observe", {"messages": [{"id": "o", "role": "user", "content": "x"}] * 10_001}, "messages"),
]


async def test_a_bad_body_names_its_member(up: Running, http: httpx.AsyncClient) -> None:
    await talk(up)
    for path, body, param in BAD_BODIES:
        refused(await http.post(f"/sessions/s1/{path}", json=body), param)


async def test_a_body_that_is_no_json_object_is_refused(up: Running, http: httpx.AsyncClient) -> None:
    await talk(up)
    for path in ("fork", "interrupt", "observe"):
        for bad in (b"", b"{", b'{"a":"\\udc00"}', b"\x00", b"[1]", b'{"a":NaN}', b"null", b"[" * 100_000):
            answer = await http.post(f"/sessions/s1/{path}", content=bad, headers=JSON)
            assert answer.status_code == (200 if bad == b"" and path == "interrupt" else 400), (path, bad[:20])
        for media in ("text/plain", "application/x-ndjson"):
            answer = await http.post(f"/sessions/s1/{path}", content=b"{}", headers={"content-type": media})
            refused(answer, "content-type", 415)


async def test_of_two_that_want_the_same_only_one_gets_it(up: Running, http: httpx.AsyncClient) -> None:
    await talk(up)
    lines = (await http.get("/sessions/s1/export")).content

    async def statuses(*asked: Any) -> list[int]:
        return sorted(answer.status_code for answer in await asyncio.gather(*asked))

    imports = [http.post("/sessions/s2/import", content=lines, headers=NDJSON) for _ in range(4)]
    assert await statuses(*imports) == [201, 409, 409, 409]
    body = {"messageId": "m1", "sessionId": "s3"}
    assert await statuses(*(http.post("/sessions/s1/fork", json=body) for _ in range(4))) == [201, 409, 409, 409]
    assert await statuses(*(http.delete("/sessions/s1") for _ in range(4))) == [204, 404, 404, 404]


async def test_sessions_may_be_asked_for_with_head(up: Running, http: httpx.AsyncClient) -> None:
    await talk(up)
    for path in ("", "/s1", "/s1/messages", "/s1/export"):
        answer = await http.head(f"/sessions{path}")
        assert (answer.status_code, answer.content) == (200, b"")
    assert (await http.options("/sessions/s1")).status_code == 405
    assert (await http.put("/sessions/s1", json={})).status_code == 405


async def test_a_store_that_cannot_answer_is_a_503(
    up: Running, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*given: object, **named: object) -> Message:
        raise RunError("store_unavailable")

    engine = up.server.app.state.services.engine
    for verb in ("find", "page", "load", "read", "acquire", "open"):
        monkeypatch.setattr(type(engine.store), verb, fails)
    lines = b'{"ostinato":"session","version":1}\n'
    for method, path, content in (
        ("GET", "", None),
        ("GET", "/s1", None),
        ("GET", "/s1/messages", None),
        ("GET", "/s1/export", None),
        ("PATCH", "/s1", b'{"title":"x"}'),
        ("DELETE", "/s1", None),
        ("POST", "/s1/interrupt", b"{}"),
        ("POST", "/s1/fork", b'{"messageId":"x"}'),
        ("POST", "/s1/observe", b'{"messages":[{"id":"o","role":"user","content":"x"}]}'),
        ("POST", "/s1/import", lines),
    ):
        headers = NDJSON if content == lines else JSON
        answer = await http.request(method, f"/sessions{path}", content=content, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_unavailable"), path

"""The session API beside real runs: what was streamed can be read again, and only by whom it belongs to."""

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import orjson
import pytest
from fastapi.routing import APIRoute
from pydantic import SecretStr

from agent_core import Agent, ToolContext, tool
from agent_core.models.base import ArgumentsPiece, CallPiece, Piece, TextPiece, ThinkingPiece
from app.routes import sessions, transfers
from app.settings import Settings
from tests.doubles import ScriptedModel, calls, says
from tests.serving import Frame, frames_of, opened, run, run_input, serving, types_of

ALICE, BOB = "alice-key-0123456789", "bob-key-0123456789"
TWO_USERS = Settings(store="memory", api_keys=SecretStr(f"alice:{ALICE},bob:{BOB}"))
ONE_USER = Settings(store="memory")

MESSAGES = [{"id": "o1", "role": "user", "content": "by the way"}]


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    if word == "bad":
        raise ValueError
    return f"{word} it is"


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def client(url: str, key: str | None = None) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, headers=bearer(key) if key else {}, timeout=20)


def applied(frames: Sequence[Frame], given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages that a client has after the run, by the rules of AG-UI's own client."""
    messages = [*given]
    by_id = {each["id"]: each for each in messages}

    def at(message_id: str, role: str) -> dict[str, Any]:
        if message_id not in by_id:
            messages.append(by_id.setdefault(message_id, {"id": message_id, "role": role}))
        return by_id[message_id]

    made: dict[str, dict[str, Any]] = {}
    for frame in frames:
        match frame["type"]:
            case "TEXT_MESSAGE_START":
                at(frame["messageId"], "assistant").setdefault("content", "")
            case "REASONING_MESSAGE_START":
                at(frame["messageId"], "reasoning").setdefault("content", "")
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                by_id[frame["messageId"]]["content"] += frame["delta"]
            case "TOOL_CALL_START":
                function = {"name": frame["toolCallName"], "arguments": ""}
                made[frame["toolCallId"]] = call = {"id": frame["toolCallId"], "type": "function", "function": function}
                at(frame["parentMessageId"], "assistant").setdefault("toolCalls", []).append(call)
            case "TOOL_CALL_ARGS":
                made[frame["toolCallId"]]["function"]["arguments"] += frame["delta"]
            case "TOOL_CALL_RESULT":
                message = at(frame["messageId"], "tool")
                message |= {"toolCallId": frame["toolCallId"], "content": frame["content"]}
    return messages


async def test_the_messages_are_what_a_client_has_that_saw_them_streamed() -> None:
    first: list[Piece] = [
        ThinkingPiece("let me"),
        ThinkingPiece(" see"),
        TextPiece("I will "),
        TextPiece("look"),
        ThinkingPiece("more"),
        CallPiece(0, "c1", "look_up"),
        ArgumentsPiece(0, '{"word":'),
        ArgumentsPiece(0, '"a"}'),
        CallPiece(1, "c2", "look_up"),
        ArgumentsPiece(1, '{"word":"bad"}'),
    ]
    model = ScriptedModel([first, calls(("look_up", '{"word":"b"}')), [ThinkingPiece("so"), *says("done")]])
    async with serving(Agent("a", model, tools=[look_up]), settings=ONE_USER) as up, client(up.url) as http:
        asked = run_input("hello")
        frames = await run(up.url, asked)
        stored = (await http.get("/sessions/t1/messages")).json()["messages"]
        info = (await http.get("/sessions/t1")).json()
    seen = applied(frames, asked["messages"])
    errors = [each.pop("error") for each in stored if "error" in each]
    assert len(errors) == 1
    assert {each["id"] for each in stored} == {each["id"] for each in seen}
    # A client shows thinking where it came; the stored message has all of it in front.
    assert sorted(stored, key=lambda each: str(each["id"])) == sorted(seen, key=lambda each: str(each["id"]))
    assert (info["title"], info["agents"], info["run"]) == ("hello", ["a"], None)


async def test_a_run_under_way_is_shown_and_can_be_interrupted() -> None:
    model = ScriptedModel([[TextPiece("so far"), asyncio.Event()]])
    async with serving(Agent("a", model), settings=ONE_USER) as up, client(up.url) as http:
        async with opened(up.url, run_input("go", runId="r1")) as response:
            await model.streaming.wait()
            assert (await http.get("/sessions/t1")).json()["run"] == {"runId": "r1", "agent": "a"}
            answer = await http.post("/sessions/t1/interrupt", json={"runId": "other"})
            assert answer.json() == {"interrupted": False}
            answer = await http.post("/sessions/t1/interrupt", json={"runId": "r1"})
            assert answer.json() == {"interrupted": True}
            frames = [frame async for frame in frames_of(response)]
        assert frames[-1]["outcome"] == {"type": "cancelled"}
        assert (await http.get("/sessions/t1")).json()["run"] is None
        stored = (await http.get("/sessions/t1/messages")).json()["messages"]
        assert [each["content"] for each in stored] == ["go", "so far"]


async def test_an_old_client_is_told_of_the_interruption_in_its_own_words() -> None:
    model = ScriptedModel([[TextPiece("so far"), asyncio.Event()]])
    async with serving(Agent("a", model), settings=ONE_USER) as up, client(up.url) as http:
        body = run_input("go")
        del body["protocolVersion"]
        async with opened(up.url, body) as response:
            await model.streaming.wait()
            assert (await http.post("/sessions/t1/interrupt")).json() == {"interrupted": True}
            frames = [frame async for frame in frames_of(response)]
        assert frames[-1]["result"] == {"status": "cancelled"}


async def test_deleting_stops_the_run_and_leaves_nothing() -> None:
    model = ScriptedModel([[TextPiece("so far"), asyncio.Event()]])
    async with serving(Agent("a", model), settings=ONE_USER) as up, client(up.url) as http:
        async with opened(up.url, run_input("go")) as response:
            await model.streaming.wait()
            assert (await http.delete("/sessions/t1")).status_code == 204
            frames = [frame async for frame in frames_of(response)]
        assert types_of(frames)[-1] == "RUN_FINISHED"
        assert (await http.delete("/sessions/t1")).status_code == 404
        assert (await http.get("/sessions")).json()["sessions"] == []


@pytest.mark.parametrize("settings", [{"when_busy": "reject"}, {"queue_size": 0}])
async def test_deleting_and_renaming_need_no_place_in_the_queue(settings: dict[str, Any]) -> None:
    model = ScriptedModel([[TextPiece("so far"), asyncio.Event()]])
    async with serving(Agent("a", model), settings=Settings(store="memory", **settings)) as up, client(up.url) as http:
        async with opened(up.url, run_input("go")):
            await model.streaming.wait()
            assert (await http.patch("/sessions/t1", json={"title": "mine"})).json()["title"] == "mine"
            assert (await http.delete("/sessions/t1")).status_code == 204
        assert (await http.get("/sessions")).json()["sessions"] == []


async def test_a_session_is_renamed_while_its_run_is_under_way() -> None:
    gate = asyncio.Event()
    model = ScriptedModel([[gate, TextPiece("done")]])
    async with serving(Agent("a", model), settings=ONE_USER) as up, client(up.url) as http:
        running = asyncio.create_task(run(up.url, run_input("go")))
        await model.streaming.wait()
        assert (await http.patch("/sessions/t1", json={"title": "mine"})).json()["title"] == "mine"
        gate.set()
        assert types_of(await running)[-1] == "RUN_FINISHED"
        assert (await http.get("/sessions/t1")).json()["title"] == "mine"


async def test_the_conversation_goes_on_in_a_fork_and_in_an_import() -> None:
    model = ScriptedModel([says("one"), says("two"), says("three"), says("four")])
    async with serving(Agent("a", model), settings=ONE_USER) as up, client(up.url) as http:
        frames = await run(up.url, run_input("hello"))
        await run(up.url, run_input("more"))
        answer_id = next(frame["messageId"] for frame in frames if frame["type"] == "TEXT_MESSAGE_START")
        body = {"messageId": answer_id, "sessionId": "branch"}
        assert (await http.post("/sessions/t1/fork", json=body)).status_code == 201
        await run(up.url, run_input("other", thread="branch"))
        exported = (await http.get("/sessions/branch/export")).content
        headers = {"content-type": "application/jsonl"}
        assert (await http.post("/sessions/copy/import", content=exported, headers=headers)).status_code == 201
        await run(up.url, run_input("again", thread="copy"))
    assert [m.text for m in model.requests[2].messages] == ["hello", "one", "other"]
    assert [m.text for m in model.requests[3].messages] == ["hello", "one", "other", "three", "again"]


async def test_an_import_runs_no_call_that_it_brings() -> None:
    ran: list[str] = []

    @tool(idempotent=True)
    def act(word: str) -> str:
        """Act."""
        ran.append(word)
        return word

    model = ScriptedModel([says("well")])
    async with serving(Agent("a", model, tools=[act]), settings=ONE_USER) as up, client(up.url) as http:
        call = {"id": "c1", "name": "act", "arguments": '{"word":"x"}'}
        message = {"id": "m1", "role": "assistant", "tool_calls": [call]}
        entry = {"seq": 1, "lane": "root", "runId": "r", "kind": "message", "body": {"agent": "a", "message": message}}
        lines = b'{"ostinato":"session","version":1}\n' + orjson.dumps(entry)
        answer = await http.post("/sessions/t1/import", content=lines, headers={"content-type": "application/jsonl"})
        assert answer.status_code == 201, answer.text
        await run(up.url, run_input("go"))
    assert ran == []
    assert [m.status for m in model.requests[0].messages if m.role == "tool"] == ["not_run"]


async def test_what_was_observed_is_known_to_the_next_run() -> None:
    model = ScriptedModel([says("I know")])
    async with serving(Agent("a", model), settings=ONE_USER) as up, client(up.url) as http:
        assert (await http.post("/sessions/t1/observe", json={"messages": MESSAGES})).json() == {"observed": 1}
        await run(up.url, run_input("and?"))
    assert [m.text for m in model.requests[0].messages] == ["by the way", "and?"]


async def test_each_agent_has_a_history_of_its_own_in_the_session() -> None:
    one, two = ScriptedModel([says("one")]), ScriptedModel([says("two")])
    async with serving(Agent("a", one), Agent("b", two), settings=ONE_USER) as up, client(up.url) as http:
        await run(up.url, run_input("to a"), "/agui/a")
        await run(up.url, run_input("to b"), "/agui/b")
        assert (await http.get("/sessions/t1")).json()["agents"] == ["a", "b"]
        for agent, texts in (("a", ["to a", "one"]), ("b", ["to b", "two"])):
            shown = (await http.get("/sessions/t1/messages", params={"agent": agent})).json()
            assert ([each["content"] for each in shown["messages"]], shown["agent"]) == (texts, agent)


async def test_the_state_that_a_tool_changed_is_the_sessions() -> None:
    @tool
    def count(context: ToolContext) -> str:
        """Count."""
        context.state["n"] = context.state.get("n", 0) + 1
        return "counted"

    model = ScriptedModel([calls(("count", "{}")), says("done")])
    async with serving(Agent("a", model, tools=[count]), settings=ONE_USER) as up, client(up.url) as http:
        await run(up.url, run_input("go", state={"n": 4}))
        assert (await http.get("/sessions/t1")).json()["state"] == {"n": 5}


LINES = (
    orjson.dumps({"ostinato": "session", "version": 1})
    + b"\n"
    + orjson.dumps(
        {
            "seq": 1,
            "lane": "root",
            "runId": "r",
            "kind": "message",
            "body": {"agent": "a", "message": {"id": "m", "role": "user", "content": "mine"}},
        }
    )
)
JSON = {"content-type": "application/json"}

ROUTES: list[tuple[str, str, bytes, int]] = [
    ("GET", "", b"", 404),
    ("HEAD", "", b"", 404),
    ("PATCH", "", b'{"title":"stolen"}', 404),
    ("PATCH", "", b"no json", 404),
    ("DELETE", "", b"", 404),
    ("GET", "/messages", b"", 404),
    ("GET", "/messages?agent=nobody", b"", 404),
    ("GET", "/messages?limit=0", b"", 404),
    ("GET", "/export", b"", 404),
    ("POST", "/fork", b'{"messageId":"u1"}', 404),
    ("POST", "/fork", b'{"messageId":"u1","sessionId":"t1"}', 404),
    ("POST", "/fork", b"{}", 404),
    ("POST", "/interrupt", b"", 404),
    ("POST", "/interrupt", b'{"runId":"r1"}', 404),
    ("POST", "/observe", orjson.dumps({"messages": MESSAGES}), 200),
    ("POST", "/import", LINES, 201),
]
"""Every route, and what it answers to the id of a session that is not the caller's."""


@pytest.mark.parametrize(("method", "path", "content", "status"), ROUTES)
async def test_a_foreign_id_is_like_one_that_nobody_has(method: str, path: str, content: bytes, status: int) -> None:
    model = ScriptedModel([[TextPiece("so far"), asyncio.Event()]])
    async with serving(Agent("a", model), settings=TWO_USERS) as up:
        async with client(up.url, ALICE) as alice, client(up.url, BOB) as bob:
            body = run_input("my secret", thread="of-alice", runId="r1")
            async with opened(up.url, body, **bearer(ALICE)):
                await model.streaming.wait()
                before = (await alice.get("/sessions/of-alice/export")).content.splitlines()[1:]

                async def ask(session_id: str) -> tuple[int, dict[str, str], bytes]:
                    headers = {"content-type": "application/jsonl"} if path == "/import" else JSON if content else {}
                    url = f"/sessions/{session_id}{path}"
                    answer = await bob.request(method, url, content=content, headers=headers)
                    request_id = answer.headers.pop("x-request-id").encode()
                    kept = {name: value for name, value in answer.headers.items() if name != "date"}
                    return answer.status_code, kept, answer.content.replace(request_id, b"")

                foreign, unknown = await ask("of-alice"), await ask("of-nobod")
                assert foreign[0] == status
                if status == 404:
                    assert foreign == unknown
                    assert (foreign[2] == b"") == (method == "HEAD")
                for bad in ("a%20b", "%00", "x" * 129, "%C3%A4", "%ED%A0%80", "a%0A", "%F0%9F%90%88", "a@b"):
                    answer = await ask(bad)
                    assert answer[0] == 404
                    if status == 404:
                        assert answer == unknown
                shown = (await alice.get("/sessions/of-alice/export")).content
                assert shown.splitlines()[1:] == before
                assert (await alice.get("/sessions/of-alice")).json()["run"] == {"runId": "r1", "agent": "a"}
            listed = (await bob.get("/sessions")).json()["sessions"]
            assert [each["id"] for each in listed] == ([] if status == 404 else ["of-nobod", "of-alice"])
            assert b"secret" not in (await bob.get("/sessions/of-alice/export")).content


def test_the_table_names_every_route() -> None:
    routes = {
        (method, route.path.removeprefix("/sessions/{session_id}"))
        for route in (*sessions.router.routes, *transfers.router.routes)
        if isinstance(route, APIRoute) and route.path != "/sessions"
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert routes == {(method, path.partition("?")[0]) for method, path, *_ in ROUTES} - {("HEAD", "")}


async def test_sessions_need_a_key_where_there_are_keys() -> None:
    async with serving(Agent("a", ScriptedModel([says("x")])), settings=TWO_USERS) as up, client(up.url) as http:
        for method, path, *_ in ROUTES:
            assert (await http.request(method, f"/sessions/t1{path}")).status_code == 401
        assert (await http.get("/sessions")).status_code == 401

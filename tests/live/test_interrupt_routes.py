"""What waits in a session, answered by whoever does not speak AG-UI."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import orjson
import pytest
from fastapi.routing import APIRoute
from pydantic import SecretStr

from agent_core import Agent, tool
from agent_core.errors import ModelError
from agent_core.tools.base import Pending
from app.routes import interrupts
from app.settings import Settings
from tests.app.doubles import Running, until
from tests.doubles import ScriptedModel, calls, says
from tests.serving import check_whole, frames_of, opened, results_of, run, run_input, serving, text_of

ALICE, BOB = "alice-key-0123456789", "bob-key-0123456789"
MEMORY = Settings(store="memory")
STREAM = {"accept": "text/event-stream"}


class Desk:
    """An agent that asks before it sends, and whose prints take days."""

    def __init__(self, *steps: Any, name: str = "a") -> None:
        self.done: list[str] = []

        @tool(approval=True)
        def send(to: str) -> str:
            """Send."""
            self.done.append(f"send {to}")
            return f"sent to {to}"

        @tool
        def print_out(what: str) -> Pending:
            """Print."""
            self.done.append(f"print {what}")
            return Pending(operation_id=f"op/{what}", wait_id="w", retry_after=5)

        self.model = ScriptedModel(steps)
        self.agent = Agent(name, self.model, tools=[send, print_out])


SEND = ("send", '{"to":"ann"}')
PRINT = ("print_out", '{"what":"a"}')


@asynccontextmanager
async def at(
    *desks: Desk, settings: Settings = MEMORY, question: str | None = "go"
) -> AsyncIterator[tuple[Running, httpx.AsyncClient]]:
    """A server with these agents, the first of which was asked something."""
    async with (
        serving(*(desk.agent for desk in desks), settings=settings) as up,
        httpx.AsyncClient(base_url=up.url, timeout=20) as http,
    ):
        if question is not None:
            await run(up.url, run_input(question))
        yield up, http


async def waiting(http: httpx.AsyncClient, query: str = "") -> list[dict[str, Any]]:
    answer = await http.get(f"/sessions/t1/interrupts{query}")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["interrupts"]
    return found


async def resume(http: httpx.AsyncClient, *answers: dict[str, Any], **members: Any) -> httpx.Response:
    return await http.post("/sessions/t1/resume", json={"answers": list(answers), **members})


def yes(interrupt: dict[str, Any], **payload: Any) -> dict[str, Any]:
    return {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True, **payload}}


def refused(answer: httpx.Response, param: str | None, status: int = 400) -> None:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert (error["param"], error["code"]) == (param, "not_found" if status == 404 else "invalid_request")


async def test_what_waits_is_listed_in_the_shape_of_the_outcome() -> None:
    desk, other = Desk(calls(SEND)), Desk(calls(PRINT), name="b")
    async with at(desk, other, question=None) as (up, http):
        first = await run(up.url, run_input("go"))
        second = await run(up.url, run_input("go"), "/agui/b")
        told = [*first[-1]["outcome"]["interrupts"], *second[-1]["outcome"]["interrupts"]]
        listed = await waiting(http)
        assert [each.pop("agent") for each in listed] == ["a", "b"]
        assert all(each.pop("createdAt").endswith("Z") for each in listed)
        assert listed == told
        assert [each["reason"] for each in await waiting(http, "?agent=b")] == ["waiting"]
        assert (await http.head("/sessions/t1/interrupts")).status_code == 200
        refused(await http.get("/sessions/t1/interrupts?agent=nobody"), "agent", 404)


async def test_nothing_is_listed_where_nothing_waits() -> None:
    async with at(Desk(says("hi"))) as (_, http):
        assert await waiting(http) == []
        assert await waiting(http, "?agent=a") == []


async def test_an_answer_is_told_when_its_run_has_ended() -> None:
    desk = Desk(calls(SEND), says("done"))
    async with at(desk) as (_, http):
        [interrupt] = await waiting(http)
        answer = await resume(http, yes(interrupt, arguments={"to": "bob"}), runId="r9")
        assert answer.status_code == 200
        told = answer.json()
        assert told.pop("message").items() >= {"role": "assistant", "content": "done"}.items()
        assert told == {"runId": "r9", "status": "completed", "interrupts": []}
        assert desk.done == ["send bob"]
        assert await waiting(http) == []
        again = await resume(http, yes(interrupt))
        assert (again.json()["status"], again.json()["message"]["content"]) == ("completed", "done")
        assert desk.done == ["send bob"]


async def test_what_still_waits_is_told_with_it() -> None:
    desk = Desk(calls(SEND, ("send", '{"to":"bob"}')), says("done"))
    async with at(desk) as (_, http):
        first, second = await waiting(http)
        told = (await resume(http, yes(second))).json()
        assert (told["status"], told["message"], desk.done) == ("approval", None, [])
        assert [each["id"] for each in told["interrupts"]] == [first["id"]]
        assert [each["id"] for each in await waiting(http)] == [first["id"]]
        told = (await resume(http, {"interruptId": first["id"], "status": "cancelled"})).json()
        assert (told["status"], desk.done) == ("completed", ["send bob"])


@pytest.mark.parametrize(
    ("headers", "stream", "streams"),
    [(STREAM, None, True), ({}, True, True), (STREAM, True, True), ({}, None, False), (STREAM, False, False)],
)
async def test_a_run_is_streamed_where_that_is_asked_for(
    headers: dict[str, str], stream: bool | None, streams: bool
) -> None:
    async with at(Desk(calls(SEND), says("done"))) as (_, http):
        [interrupt] = await waiting(http)
        body = {"answers": [yes(interrupt)], "stream": stream}
        async with http.stream("POST", "/sessions/t1/resume", json=body, headers=headers) as response:
            assert response.headers["content-type"].startswith("text/event-stream" if streams else "application/json")
            if streams:
                frames = [frame async for frame in frames_of(response)]
                check_whole(frames)
                assert (results_of(frames), text_of(frames)) == (["sent to ann"], "done")


async def test_a_failed_run_is_its_status() -> None:
    async with at(Desk(calls(SEND), [ModelError("model_auth")])) as (_, http):
        [interrupt] = await waiting(http)
        answer = await resume(http, yes(interrupt))
        assert (answer.status_code, answer.json()["error"]["code"]) == (502, "model_auth")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "answers"),
        ({"answers": []}, "answers"),
        ({"answers": {}}, "answers"),
        ({"answers": ["i"]}, "answers[0]"),
        ({"answers": [{}]}, "answers[0].interruptId"),
        ({"answers": [{"interruptId": "ID"}]}, "answers[0].status"),
        ({"answers": [{"interruptId": "ID", "status": "resolved"}]}, "answers[0].payload"),
        ({"answers": [{"interruptId": "ID", "status": "resolved", "payload": {}}]}, "answers[0].payload.approved"),
        ({"answers": [{"interruptId": "ID", "status": "cancelled"}] * 2}, "answers[1].interruptId"),
        ({"answers": [{"interruptId": "ID", "status": "cancelled"}], "runId": "a b"}, "runId"),
        ({"answers": [{"interruptId": "ID", "status": "cancelled"}], "runId": 1}, "runId"),
        ({"answers": [{"interruptId": "ID", "status": "cancelled"}], "agent": 1}, "agent"),
        ({"answers": [{"interruptId": "ID", "status": "cancelled"}], "stream": "yes"}, "stream"),
    ],
)
@pytest.mark.parametrize("headers", [{}, STREAM])
async def test_a_wrong_answer_is_named_and_changes_nothing(
    body: dict[str, Any], param: str, headers: dict[str, str]
) -> None:
    desk = Desk(calls(SEND), says("done"))
    async with at(desk) as (_, http):
        [interrupt] = await waiting(http)
        before = (await http.get("/sessions/t1/export")).content.splitlines()[1:]
        sent = orjson.dumps(body).replace(b'"ID"', orjson.dumps(interrupt["id"]))
        answer = await http.post(
            "/sessions/t1/resume", content=sent, headers={**headers, "content-type": "application/json"}
        )
        refused(answer, param)
        assert (await http.get("/sessions/t1/export")).content.splitlines()[1:] == before
        assert [each["id"] for each in await waiting(http)] == [interrupt["id"]]


async def test_an_interrupt_that_the_session_does_not_know_is_not_found() -> None:
    desk, other = Desk(calls(SEND), calls(SEND), says("done")), Desk(calls(SEND), says("done"), name="b")
    async with at(desk, other) as (up, http):
        await run(up.url, run_input("go", thread="t2"))
        await run(up.url, run_input("go"), "/agui/b")
        mine, theirs = await waiting(http)
        [elsewhere] = (await http.get("/sessions/t2/interrupts")).json()["interrupts"]
        refused(await resume(http, yes(elsewhere)), "answers[0].interruptId", 404)
        refused(await resume(http, yes(mine), yes(elsewhere)), "answers[1].interruptId", 404)
        refused(await resume(http, yes(mine), agent="b"), "answers[0].interruptId", 404)
        refused(await resume(http, yes(mine), agent="nobody"), "agent", 404)
        refused(await resume(http, yes(mine), yes(theirs)), "answers[1].interruptId", 400)
        assert (desk.done, other.done) == ([], [])
        assert (await resume(http, yes(theirs))).json()["status"] == "completed"
        assert (await resume(http, yes(mine), agent="a")).json()["status"] == "completed"
        assert (desk.done, other.done) == (["send ann"], ["send ann"])


async def ended(up: Running) -> None:
    runs = up.server.app.state.services.runs
    await until(lambda: len(runs) == 0)


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ({"result": "on paper"}, "on paper"),
        ({"result": {"pages": 2}}, '{"pages":2}'),
        ({"result": None, "error": None, "more": 1}, "null"),
        ({"error": "no paper"}, "Error: no paper"),
    ],
)
async def test_the_result_of_an_operation_continues_its_run(body: dict[str, Any], result: str) -> None:
    desk = Desk(calls(PRINT), says("done"))
    async with at(desk) as (up, http):
        taken = await http.post("/sessions/t1/operations/op/a", json=body)
        assert (taken.status_code, set(taken.json())) == (202, {"runId"})
        await ended(up)
        messages = (await http.get("/sessions/t1/messages")).json()["messages"]
        assert [each["content"] for each in messages if each["role"] == "tool"] == [result]
        assert messages[-1]["content"] == "done"
        events = await http.get(f"/sessions/t1/runs/{taken.json()['runId']}/events")
        assert '"delta":"done"' in events.text


async def test_a_result_that_is_taken_is_stored_and_its_run_goes_on_by_itself() -> None:
    gate = asyncio.Event()
    desk = Desk(calls(PRINT), [gate, *says("done")])
    async with at(desk) as (up, http):
        taken = await http.post("/sessions/t1/operations/op%2Fa", json={"result": 1})
        assert taken.status_code == 202
        messages = (await http.get("/sessions/t1/messages")).json()["messages"]
        assert messages[-1]["content"] == "1"
        gate.set()
        await ended(up)
        assert (await http.get("/sessions/t1/messages")).json()["messages"][-1]["content"] == "done"


async def test_a_result_can_be_answered_with_the_stream_of_its_run() -> None:
    async with at(Desk(calls(PRINT), says("done"))) as (up, _):
        async with opened(up.url, {"result": "x"}, "/sessions/t1/operations/op/a") as response:
            frames = [frame async for frame in frames_of(response)]
        check_whole(frames)
        assert (results_of(frames), text_of(frames)) == (["x"], "done")
        async with opened(up.url, {"result": "y"}, "/sessions/t1/operations/op/a") as response:
            again = [frame async for frame in frames_of(response)]
        assert again == frames


async def test_a_result_that_comes_again_is_answered_alike_and_not_taken() -> None:
    async with at(Desk(calls(PRINT), says("done"))) as (up, http):
        first = await http.post("/sessions/t1/operations/op/a", json={"result": 1})
        await ended(up)
        before = (await http.get("/sessions/t1/export")).content.splitlines()[1:]
        again = await http.post("/sessions/t1/operations/op/a", json={"result": 2})
        assert (again.status_code, again.json()) == (202, first.json())
        assert (await http.get("/sessions/t1/export")).content.splitlines()[1:] == before


async def test_an_operation_for_which_nothing_waits_is_not_found() -> None:
    async with at(Desk(calls(PRINT), says("fine"), calls(PRINT), says("done"))) as (up, http):
        for unknown in ("op/b", "op", "a", "op/a/", "%00"):
            refused(await http.post(f"/sessions/t1/operations/{unknown}", json={"result": 1}), None, 404)
        [interrupt] = await waiting(http)
        await run(up.url, run_input("never mind"))
        refused(await http.post("/sessions/t1/operations/op/a", json={"result": 1}), None, 404)
        await run(up.url, run_input("again"))
        [interrupt] = await waiting(http)
        await resume(http, {"interruptId": interrupt["id"], "status": "cancelled"})
        refused(await http.post("/sessions/t1/operations/op/a", json={"result": 1}), None, 404)


@pytest.mark.parametrize("body", [{}, {"error": None}, {"result": 1, "error": "x"}, {"error": 5}, {"error": {}}, []])
async def test_a_result_of_another_shape_is_refused(body: Any) -> None:
    async with at(Desk(calls(PRINT), says("done"))) as (_, http):
        answer = await http.post("/sessions/t1/operations/op/a", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
        assert len(await waiting(http)) == 1


async def test_an_approval_beside_an_operation_goes_on_waiting() -> None:
    desk = Desk(calls(PRINT), calls(SEND), says("done"))
    async with at(desk) as (up, http):
        await http.post("/sessions/t1/operations/op/a", json={"result": 1})
        await ended(up)
        [interrupt] = await waiting(http)
        assert interrupt["reason"] == "tool_call"
        assert (await resume(http, yes(interrupt))).json()["status"] == "completed"


async def test_a_busy_session_is_as_the_gate_says() -> None:
    desk = Desk(calls(SEND), [asyncio.Event()])
    async with at(desk, settings=Settings(store="memory", when_busy="reject")) as (up, http):
        [interrupt] = await waiting(http)
        async with opened(up.url, {"answers": [yes(interrupt)]}, "/sessions/t1/resume"):
            await desk.model.streaming.wait()
            busy = await resume(http, yes(interrupt))
            assert (busy.status_code, busy.json()["error"]["code"]) == (409, "session_busy")
        assert desk.done == ["send ann"]


ROUTES: list[tuple[str, str, Any]] = [
    ("GET", "/interrupts", None),
    ("HEAD", "/interrupts", None),
    ("GET", "/interrupts?agent=nobody", None),
    ("POST", "/resume", {"answers": [{"interruptId": "i", "status": "cancelled"}]}),
    ("POST", "/resume", {"answers": 5}),
    ("POST", "/operations/op/a", {"result": 1}),
    ("POST", "/operations/op/a", {}),
]


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
async def test_a_foreign_id_is_like_one_that_nobody_has(method: str, path: str, body: Any) -> None:
    desk = Desk(calls(SEND, PRINT), says("done"))
    settings = Settings(store="memory", api_keys=SecretStr(f"alice:{ALICE},bob:{BOB}"))
    alice, bob = {"authorization": f"Bearer {ALICE}"}, {"authorization": f"Bearer {BOB}"}
    async with at(desk, settings=settings, question=None) as (up, http):
        await run(up.url, run_input("go"), **alice)
        before = (await http.get("/sessions/t1/export", headers=alice)).content.splitlines()[1:]
        [interrupt] = (await http.get("/sessions/t1/interrupts", headers=alice)).json()["interrupts"]
        if isinstance(body, dict) and isinstance(body.get("answers"), list):
            body = {"answers": [yes(interrupt)]}

        async def ask(session_id: str) -> bytes:
            answer = await http.request(method, f"/sessions/{session_id}{path}", json=body, headers=bob)
            assert answer.status_code == 404, answer.text
            return answer.content.replace(answer.headers["x-request-id"].encode(), b"")

        unknown = await ask("nobodys")
        for session_id in ("t1", "a%20b", "%00", "x" * 129, "%C3%A4"):
            assert await ask(session_id) == unknown
        assert (await http.get("/sessions/t1/export", headers=alice)).content.splitlines()[1:] == before
        assert (await http.request(method, f"/sessions/t1{path}", json=body)).status_code == 401
        assert desk.done == []


def test_the_table_names_every_route() -> None:
    routes = {route.path for route in interrupts.router.routes if isinstance(route, APIRoute)}
    named = {path.partition("?")[0].replace("op/a", "{operation_id:path}") for _, path, _ in ROUTES}
    assert routes == {f"/sessions/{{session_id}}{path}" for path in named}


async def test_an_answer_that_comes_too_late_is_told() -> None:
    desk = Desk(calls(SEND), says("as you like"))
    async with at(desk) as (up, http):
        [interrupt] = await waiting(http)
        await run(up.url, run_input("never mind"))
        late = yes(interrupt)
        answer = (await resume(http, late)).json()
        assert (answer["status"], answer["ignored"]) == ("completed", [interrupt["id"]])
        assert desk.done == []

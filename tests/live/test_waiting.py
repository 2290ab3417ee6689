"""A tool that has begun something elsewhere: the run ends as waiting, and goes on when the result is brought."""

import asyncio
from typing import Any

import httpx
import pytest

from agent_core import Agent, tool
from agent_core.models.base import TextPiece
from agent_core.tools.base import Pending
from app.settings import Settings
from tests.doubles import ScriptedModel, calls, says
from tests.live.test_session_api import ALICE, BOB, ONE_USER, TWO_USERS, bearer, client
from tests.serving import Frame, frames_of, opened, results_of, run, run_input, serving, text_of, types_of

TEA = ("order", '{"what":"tea"}')
RICE = ("order", '{"what":"rice/1"}')
STREAM = {"accept": "text/event-stream"}


def shop(*steps: Any) -> tuple[Agent, ScriptedModel]:
    """An agent that orders, and does not forget what it has ordered."""
    ordered: list[str] = []

    @tool
    def order(what: str) -> Pending:
        """Order something."""
        assert what not in ordered, "ordered twice"
        ordered.append(what)
        return Pending(operation_id=f"op/{what}", wait_id="w1", retry_after=2.5)

    @tool
    def look() -> str:
        """Look."""
        return "shelves"

    model = ScriptedModel(steps)
    return Agent("shop", model, tools=[order, look]), model


def waits(frames: list[Frame]) -> list[dict[str, Any]]:
    """What the run waits for, as its end tells it."""
    end = frames[-1]
    assert end["type"] == "RUN_FINISHED"
    assert end["outcome"]["type"] == "interrupt"
    assert "result" not in end
    found: list[dict[str, Any]] = end["outcome"]["interrupts"]
    return found


async def pending(http: httpx.AsyncClient, thread: str = "t1") -> list[str]:
    answer = await http.get(f"/sessions/{thread}/interrupts")
    assert answer.status_code == 200, answer.text
    return [each["metadata"]["operationId"] for each in answer.json()["interrupts"]]


async def whole(http: httpx.AsyncClient, answer: httpx.Response, thread: str = "t1") -> list[Frame]:
    """All frames of the run that an answer of 202 names, read until it has ended."""
    assert answer.status_code == 202, answer.text
    path = f"/sessions/{thread}/runs/{answer.json()['runId']}/events"
    async with http.stream("GET", path, headers=STREAM) as response:
        assert response.status_code == 200
        return [frame async for frame in frames_of(response)]


async def test_the_run_says_what_it_waits_for_and_its_siblings_have_run() -> None:
    agent, _ = shop(calls(TEA, ("look", "{}")), says("here"))
    async with serving(agent, settings=ONE_USER) as up, client(up.url) as http:
        frames = await run(up.url, run_input("go"))
        (interrupt,) = waits(frames)
        listed = (await http.get("/sessions/t1/interrupts")).json()["interrupts"]
    assert results_of(frames) == ["shelves"]
    assert interrupt["reason"] == "waiting"
    assert interrupt["metadata"] == {"toolName": "order", "operationId": "op/tea", "waitId": "w1", "retryAfter": 2.5}
    assert interrupt["responseSchema"] == {"type": "object", "properties": {"result": {}}, "required": ["result"]}
    assert [each | interrupt for each in listed] == listed


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"result": "two cups"}, "two cups"),
        ({"result": {"cups": 2}}, '{"cups":2}'),
        ({"result": None}, "null"),
        ({"result": False}, "false"),
        ({"error": "out of tea"}, "Error: out of tea"),
    ],
)
async def test_whoever_brings_the_result_is_answered_at_once_and_the_run_goes_on(
    body: dict[str, Any], told: str
) -> None:
    agent, model = shop(calls(TEA), says("here you are"))
    async with serving(agent, settings=ONE_USER) as up, client(up.url) as http:
        await run(up.url, run_input("go"))
        frames = await whole(http, await http.post("/sessions/t1/operations/op/tea", json=body))
        assert await pending(http) == []
        stored = (await http.get("/sessions/t1/messages")).json()["messages"]
    assert results_of(frames) == [told]
    assert "TOOL_CALL_START" not in types_of(frames)
    assert text_of(frames) == "here you are"
    assert [each["role"] for each in stored] == ["user", "assistant", "tool", "assistant"]
    assert model.requests[-1].messages[-1].text == told


async def test_a_client_that_wants_a_stream_has_one() -> None:
    agent, _ = shop(calls(TEA), says("here you are"))
    async with serving(agent, settings=ONE_USER) as up, client(up.url) as http:
        await run(up.url, run_input("go"))
        frames = await run(up.url, {"result": "tea"}, "/sessions/t1/operations/op/tea")
        assert await pending(http) == []
    assert (results_of(frames), text_of(frames)) == (["tea"], "here you are")


async def test_a_result_that_comes_twice_counts_once() -> None:
    agent, model = shop(calls(TEA), says("here you are"))
    async with serving(agent, settings=ONE_USER) as up, client(up.url) as http:
        await run(up.url, run_input("go"))
        first = await http.post("/sessions/t1/operations/op/tea", json={"result": "tea"})
        await whole(http, first)
        again = await http.post("/sessions/t1/operations/op/tea", json={"result": "coffee"})
        assert (again.status_code, again.json()) == (202, first.json())
        stored = (await http.get("/sessions/t1/messages")).json()["messages"]
    assert [each["content"] for each in stored if each["role"] == "tool"] == ["tea"]
    assert len(model.requests) == 2


async def test_of_two_operations_the_run_waits_for_both() -> None:
    agent, model = shop(calls(TEA, RICE), says("all there"))
    async with serving(agent, settings=ONE_USER) as up, client(up.url) as http:
        assert len(waits(await run(up.url, run_input("go")))) == 2
        partly = await whole(http, await http.post("/sessions/t1/operations/op/rice/1", json={"result": "rice"}))
        assert [each["metadata"]["operationId"] for each in waits(partly)] == ["op/tea"]
        assert len(model.requests) == 1, "the model waits too"
        frames = await whole(http, await http.post("/sessions/t1/operations/op/tea", json={"result": "tea"}))
    assert text_of(frames) == "all there"
    assert [each.text for each in model.requests[-1].messages if each.role == "tool"] == ["tea", "rice"]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "result"),
        ({"result": 1, "error": "x"}, "result"),
        ({"error": 1}, "error"),
        ([], None),
        ({"error": None}, "result"),
    ],
)
async def test_a_body_of_another_shape_is_refused_and_everything_waits_on(body: Any, named: str | None) -> None:
    agent, model = shop(calls(TEA), says("here"))
    async with serving(agent, settings=ONE_USER) as up, client(up.url) as http:
        await run(up.url, run_input("go"))
        answer = await http.post("/sessions/t1/operations/op/tea", json=body)
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["code"] == "invalid_request"
        assert answer.json()["error"]["param"] == named
        assert await pending(http) == ["op/tea"]
    assert len(model.requests) == 1


async def test_what_is_unknown_or_somebody_else_s_is_not_there() -> None:
    agent, model = shop(calls(TEA), says("here"))
    async with serving(agent, settings=TWO_USERS) as up, client(up.url, ALICE) as http:
        await run(up.url, run_input("go"), **bearer(ALICE))
        for path in (
            "/sessions/t1/operations/nothing",
            "/sessions/other/operations/op/tea",
            "/sessions/é/operations/x",
        ):
            assert (await http.post(path, json={"result": 1})).status_code == 404, path
        async with client(up.url, BOB) as bob:
            assert (await bob.post("/sessions/t1/operations/op/tea", json={"result": 1})).status_code == 404
            assert (await bob.get("/sessions/t1/interrupts")).status_code == 404
        assert await pending(http) == ["op/tea"]
    assert len(model.requests) == 1


async def test_the_resume_route_takes_the_result_too_and_tells_the_whole_run() -> None:
    agent, _ = shop(calls(TEA), says("here you are"))
    async with serving(agent, settings=ONE_USER) as up, client(up.url) as http:
        (interrupt,) = waits(await run(up.url, run_input("go")))
        entry = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"result": "tea"}}
        answer = await http.post("/sessions/t1/resume", json={"answers": [entry], "runId": "r2"})
        assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["runId"], told["status"], told["interrupts"]) == ("r2", "completed", [])
    assert told["message"]["content"] == "here you are"


async def test_an_operation_that_is_given_up_leaves_a_result_that_says_so() -> None:
    agent, _ = shop(calls(TEA), says("a pity"))
    async with serving(agent, settings=ONE_USER) as up:
        (interrupt,) = waits(await run(up.url, run_input("go")))
        entry = {"interruptId": interrupt["id"], "status": "cancelled"}
        frames = await run(up.url, run_input(resume=[entry]))
    assert results_of(frames)[0].startswith("Interrupted: ")
    assert text_of(frames) == "a pity"


async def test_after_a_new_message_nobody_waits_for_the_result() -> None:
    agent, model = shop(calls(TEA), says("as you like"))
    async with serving(agent, settings=ONE_USER) as up, client(up.url) as http:
        await run(up.url, run_input("go"))
        frames = await run(up.url, run_input("never mind"))
        assert results_of(frames)[0].startswith("Interrupted: ")
        assert (await http.post("/sessions/t1/operations/op/tea", json={"result": 1})).status_code == 404
    assert len(model.requests) == 2


async def test_a_session_that_is_busy_takes_no_result_and_waits_on() -> None:
    agent, _ = shop(calls(TEA), says("here"))
    never = asyncio.Event()
    other = ScriptedModel([[TextPiece("so"), never]])
    reject = Settings(store="memory", when_busy="reject")
    async with (
        serving(agent, Agent("other", other), settings=reject) as up,
        client(up.url) as http,
    ):
        await run(up.url, run_input("go"))
        async with opened(up.url, run_input("hold"), "/agui/other") as held:
            await other.streaming.wait()
            answer = await http.post("/sessions/t1/operations/op/tea", json={"result": "tea"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "session_busy")
            assert await pending(http) == ["op/tea"]
            never.set()
            assert [frame async for frame in frames_of(held)][-1]["type"] == "RUN_FINISHED"
        frames = await whole(http, await http.post("/sessions/t1/operations/op/tea", json={"result": "tea"}))
    assert text_of(frames) == "here"


async def test_the_result_is_taken_although_whoever_brings_it_has_left() -> None:
    agent, model = shop(calls(TEA), says("here"))
    async with serving(agent, settings=ONE_USER) as up, client(up.url) as http:
        await run(up.url, run_input("go"))
        async with opened(up.url, {"result": "tea"}, "/sessions/t1/operations/op/tea") as response:
            assert response.status_code == 200
        again = await http.post("/sessions/t1/operations/op/tea", json={"result": "tea"})
        assert text_of(await whole(http, again)) == "here"
    assert len(model.requests) == 2

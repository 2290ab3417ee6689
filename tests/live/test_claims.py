"""Requests without a session that come again, through another server too: the agent runs once, and the answer is the
same."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_core import Agent, tool
from agent_core.errors import ModelError, RunError
from agent_core.models.base import CutPiece, Piece, TextPiece, ThinkingPiece, UsagePiece
from agent_core.usage import Usage
from app.retries import claims as claims_module
from tests.agent_core.react.agents import add
from tests.app.doubles import Running, until
from tests.doubles import ScriptedModel, calls, says
from tests.live.test_openai import PICK, ask, post, stream, text_of
from tests.live.test_openai_again import FIRST, SECOND, content_of, on_disk
from tests.live.two_servers import pair, services_of, sql, take_for_dead
from tests.serving import serving

KEY = {"idempotency-key": "k1"}


class Register:
    """A tool's ledger."""

    def __init__(self) -> None:
        self.charged = 0
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    def agent(self, *steps: Any, **options: Any) -> tuple[Agent, ScriptedModel]:
        @tool
        async def charge() -> str:
            """Charge the card."""
            self.charged += 1
            self.begun.set()
            await self.go_on.wait()
            return "charged"

        model = ScriptedModel(steps)
        return Agent("a", model, tools=[charge, add], max_retries=0, **options), model


def told(response: httpx.Response) -> Any:
    """The answer without the time at which it was made."""
    assert response.status_code == 200, response.text
    return response.json() | {"created": 0}


def end_of(found: list[Any]) -> Any:
    return [each for each in found if each["choices"] and each["choices"][0]["finish_reason"]][-1]["x_agent"]


def call_of(found: list[Any]) -> tuple[str, str, str]:
    """The id, the name and the arguments of the stream's one call."""
    pieces = [call for each in found for choice in each["choices"] for call in choice["delta"].get("tool_calls", ())]
    arguments = "".join(piece["function"].get("arguments", "") for piece in pieces)
    return pieces[0]["id"], pieces[0]["function"]["name"], arguments


async def quiet_claims(up: Running) -> None:
    await until(lambda: not services_of(up).claims._under_way)


async def test_one_key_runs_the_agent_once_whichever_server_it_comes_to(tmp_path: Path) -> None:
    register = Register()
    cost = UsagePiece(Usage(provider="p", model="m", input_tokens=9, output_tokens=2, total_tokens=11))
    final: list[Piece] = [ThinkingPiece("hm"), TextPiece("do"), TextPiece("ne"), CutPiece("length"), cost]
    acts: list[Piece] = [TextPiece("Wait."), *calls(("charge", "{}"))]
    agent, model = register.agent(acts, final, acts, final)
    async with pair(tmp_path, agent) as (one, two):
        first = await post(one.url, ask("pay"), **KEY)
        again = await post(two.url, ask("pay"), **KEY)
        assert told(again) == told(first)
        assert first.json()["choices"][0]["finish_reason"] == "length"
        assert (register.charged, len(model.requests)) == (1, 2)
        options = {"stream_options": {"include_usage": True}}
        streamed = await stream(two.url, ask("pay", **options), **{"idempotency-key": "k2"})
        replayed = await stream(one.url, ask("pay", **options), **{"idempotency-key": "k2"})
        assert text_of(replayed) == text_of(streamed) == "Wait.\n\ndone"
        assert [each | {"created": 0} for each in replayed[-2:]] == [each | {"created": 0} for each in streamed[-2:]]
        other = await post(two.url, ask("pay more"), **KEY)
        assert (other.status_code, other.json()["error"]["param"]) == (422, "Idempotency-Key")
    assert (register.charged, len(model.requests)) == (2, 4)


async def test_an_answer_that_was_streamed_is_given_out_again_by_the_other_server(tmp_path: Path) -> None:
    register = Register()
    agent, model = register.agent(calls(("pick_colour", '{"x":1}')))
    async with pair(tmp_path, agent) as (one, two):
        first = await stream(one.url, ask("go", tools=[PICK]), **KEY)
        again = await stream(two.url, ask("go", tools=[PICK]), **KEY)
        whole = (await post(one.url, ask("go", tools=[PICK]), **{"idempotency-key": "k2"})).json()
        same = (await post(two.url, ask("go", tools=[PICK]), **{"idempotency-key": "k2"})).json()
    assert end_of(again) == end_of(first)
    assert call_of(again) == call_of(first)
    assert same | {"created": 0} == whole | {"created": 0}
    [call] = same["choices"][0]["message"]["tool_calls"]
    assert call["function"] == {"name": "pick_colour", "arguments": '{"x":1}'}
    assert same["choices"][0]["finish_reason"] == "tool_calls"
    assert len(model.requests) == 2


async def test_the_second_request_waits_for_the_first_that_another_server_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims_module, "POLL", 0.01)
    register = Register()
    register.go_on.clear()
    agent, model = register.agent(calls(("charge", "{}")), says("done"))
    async with pair(tmp_path, agent) as (one, two):
        first = asyncio.create_task(post(one.url, ask("pay"), **KEY))
        await register.begun.wait()
        second = [asyncio.create_task(post(up.url, ask("pay"), **KEY)) for up in (one, two, two)]
        await until(lambda: len(services_of(two).claims._locks) == 1)
        register.go_on.set()
        answers = [told(await each) for each in (first, *second)]
    assert all(answer == answers[0] for answer in answers)
    assert (register.charged, len(model.requests)) == (1, 2)


async def test_equal_requests_at_the_same_time_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims_module, "POLL", 0.01)
    register = Register()
    agent, model = register.agent(calls(("charge", "{}")), says("done"))
    async with pair(tmp_path, agent) as servers:
        answers = await asyncio.gather(*(post(servers[n % 2].url, ask("pay"), **KEY) for n in range(8)))
        assert [content_of(answer) for answer in answers] == ["done"] * 8
        for up in servers:
            assert services_of(up).claims._locks == {}
            await quiet_claims(up)
    assert (register.charged, len(model.requests)) == (1, 2)


async def test_who_has_waited_long_enough_is_told_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims_module, "POLL", 0.01)
    go_on = asyncio.Event()
    model = ScriptedModel([[go_on, *says("done")]])
    async with pair(tmp_path, Agent("a", model), queue_seconds=0.05) as (one, two):
        first = asyncio.create_task(post(one.url, ask("hi"), **KEY))
        await model.streaming.wait()
        busy = await post(two.url, ask("hi"), **KEY)
        assert (busy.status_code, busy.json()["error"]["code"]) == (409, "session_busy_timeout")
        assert int(busy.headers["retry-after"]) > 0
        assert "x-should-retry" not in busy.headers
        other = await post(two.url, ask("hi there"), **KEY)
        assert other.status_code == 422, "also while it is under way"
        go_on.set()
        assert content_of(await first) == content_of(await post(two.url, ask("hi"), **KEY)) == "done"
    assert len(model.requests) == 1


async def test_a_client_that_leaves_while_it_waits_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims_module, "POLL", 0.01)
    go_on = asyncio.Event()
    model = ScriptedModel([[go_on, *says("done")]])
    async with pair(tmp_path, Agent("a", model)) as (one, two):
        first = asyncio.create_task(post(one.url, ask("hi"), **KEY))
        await model.streaming.wait()
        second = asyncio.create_task(post(two.url, ask("hi"), **KEY))
        await until(lambda: len(services_of(two).claims._locks) == 1)
        second.cancel()
        await until(lambda: services_of(two).claims._locks == {})
        go_on.set()
        assert content_of(await first) == "done"


async def test_a_claim_whose_worker_died_is_taken_over_and_its_late_worker_begins_no_call(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    register = Register()
    agent, model = register.agent([go_on, *calls(("charge", "{}"))], calls(("charge", "{}")), says("done"))
    async with pair(tmp_path, agent) as (one, two):
        first = asyncio.create_task(post(one.url, ask("pay"), **KEY))
        await model.streaming.wait()
        await take_for_dead(one)
        assert content_of(await post(two.url, ask("pay"), **KEY)) == "done"
        go_on.set()
        late = await first
        assert (late.status_code, late.json()["error"]["code"]) == (502, "worker_lost")
        assert content_of(await post(two.url, ask("pay"), **KEY)) == "done", "the late one has not taken its place"
    assert register.charged == 1


async def test_a_call_that_had_begun_when_its_worker_died_is_not_run_again(tmp_path: Path) -> None:
    register = Register()
    register.go_on.clear()
    agent, model = register.agent(calls(("charge", "{}")), says("done"))
    async with pair(tmp_path, agent) as (one, two):
        first = asyncio.create_task(post(one.url, ask("pay"), **KEY))
        await register.begun.wait()
        await take_for_dead(one)
        for _ in range(2):
            lost = await post(two.url, ask("pay"), **KEY)
            assert (lost.status_code, lost.json()["error"]["code"]) == (502, "worker_lost")
        register.go_on.set()
        assert content_of(await first) == "done", "it was alive after all"
        assert content_of(await post(two.url, ask("pay"), **KEY)) == "done"
    assert (register.charged, len(model.requests)) == (1, 2)


async def test_a_run_that_is_said_to_be_under_way_for_too_long_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel([[asyncio.Event()], says("done")])
    async with pair(tmp_path, Agent("a", model), drain_seconds=0.1) as (one, two):
        first = asyncio.create_task(post(one.url, ask("hi"), **KEY))
        await model.streaming.wait()
        services_of(two).claims._longest = -1.0
        assert content_of(await post(two.url, ask("hi"), **KEY)) == "done"
        first.cancel()


@pytest.mark.parametrize("acted", [False, True])
async def test_a_run_that_failed_is_tried_again_elsewhere_only_where_no_call_had_begun(
    acted: bool, tmp_path: Path
) -> None:
    register = Register()
    steps: list[Any] = [[ModelError("model_unreachable")], says("done")]
    agent, _ = register.agent(*([calls(("charge", "{}"))] if acted else []), *steps)
    async with pair(tmp_path, agent) as (one, two):
        first = await post(one.url, ask("pay"), **KEY)
        assert first.status_code == 502
        second = await post(two.url, ask("pay"), **KEY)
        if acted:
            assert second.json()["error"]["code"] == first.json()["error"]["code"]
            assert (await post(two.url, ask("pay", stream=True), **KEY)).status_code == 422
        else:
            assert content_of(second) == "done"
    assert register.charged == int(acted)


async def test_a_retry_without_a_key_finds_the_run_that_its_client_gave_up_on_at_another_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims_module, "POLL", 0.01)
    register = Register()
    register.go_on.clear()
    agent, model = register.agent(calls(("charge", "{}")), says("done"))
    async with pair(tmp_path, agent) as (one, two):
        slow = asyncio.create_task(post(one.url, ask("pay"), **FIRST))
        await register.begun.wait()
        assert await sql(two, "SELECT 1 FROM records") == [(1,)], "a call has begun"
        slow.cancel()
        retry = asyncio.create_task(post(two.url, ask("pay"), **SECOND))
        await until(lambda: len(services_of(two).claims._locks) == 1)
        register.go_on.set()
        assert content_of(await retry) == "done"
        assert content_of(await post(two.url, ask("pay"), **FIRST)) == "done", "a request of its own"
    assert register.charged == 1
    assert len(model.requests) == 3


async def test_after_a_restart_a_key_without_a_session_gets_the_same_answer(tmp_path: Path) -> None:
    register = Register()
    agent, model = register.agent(calls(("charge", "{}")), says("done"))
    async with on_disk(tmp_path, agent) as up:
        first = await post(up.url, ask("pay"), **KEY)
    async with on_disk(tmp_path, agent) as up:
        assert told(await post(up.url, ask("pay"), **KEY)) == told(first)
        assert (await post(up.url, ask("other"), **KEY)).status_code == 422
    assert (register.charged, len(model.requests)) == (1, 2)


async def test_an_answer_whose_events_are_not_kept_any_more_is_given_out_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    register = Register()
    agent, model = register.agent(calls(("charge", "{}")), says(*["x" * 100] * 100))
    async with serving(agent) as up:
        monkeypatch.setattr(services_of(up).runs, "most", 2_000)
        first = await post(up.url, ask("pay"), **KEY)
        assert told(await post(up.url, ask("pay"), **KEY)) == told(first)
    assert (register.charged, len(model.requests)) == (1, 2)


async def test_an_answer_that_waits_for_a_person_goes_with_its_session(tmp_path: Path) -> None:
    @tool(approval=True)
    def send(to: str) -> str:
        """Sends."""
        return f"sent to {to}"

    model = ScriptedModel([calls(("send", '{"to":"ann"}'))])
    async with pair(tmp_path, Agent("a", model, tools=[send])) as (one, two):
        first = await post(one.url, ask("go"), **KEY)
        assert told(await post(two.url, ask("go"), **KEY)) == told(first)
        session = first.json()["x_agent"]["session_id"]
        async with httpx.AsyncClient() as http:
            assert (await http.delete(f"{two.url}/sessions/{session}")).status_code == 204
        assert await sql(two, "SELECT 1 FROM records") == []
        for up in (two, one):
            again = await post(up.url, ask("go"), **KEY)
            assert again.json()["x_agent"]["session_id"] != session
    assert len(model.requests) == 2


@pytest.mark.parametrize("method", ["claim", "keep"])
async def test_a_store_that_fails_is_a_503_for_a_key_and_nothing_to_others(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise RunError("store_unavailable")

    async with serving(Agent("a", ScriptedModel([says("hi")]))) as up:
        with monkeypatch.context() as patch:
            patch.setattr(services_of(up).engine.store.records, method, fail)
            failed = await post(up.url, ask("hello"), **KEY)
            assert (failed.status_code, failed.json()["error"]["code"]) == (503, "store_unavailable")
            assert content_of(await post(up.url, ask("hello"))) == "hi"
            assert content_of(await post(up.url, ask("hello"), **FIRST)) == "hi"
        assert content_of(await post(up.url, ask("hello"), **KEY)) == "hi", "and it can come again"


async def test_no_call_begins_where_the_store_does_not_know_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise RunError("store_unavailable")

    register = Register()
    agent, _ = register.agent(calls(("charge", "{}")), says("done"))
    async with serving(agent) as up:
        with monkeypatch.context() as patch:
            patch.setattr(services_of(up).engine.store.records, "keep", fail)
            assert (await post(up.url, ask("pay"), **KEY)).status_code == 503
        assert register.charged == 0


async def test_a_request_that_is_refused_gives_its_key_back() -> None:
    model = ScriptedModel([says("hi")])
    async with serving(Agent("a", model, tools=[add])) as up:
        tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
        refused = await post(up.url, ask("hello", tools=tools), **KEY)
        assert refused.status_code == 400
        assert content_of(await post(up.url, ask("hello"), **KEY)) == "hi"


async def test_plain_requests_ask_the_store_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("it was asked")

    model = ScriptedModel([says("hi")])
    async with serving(Agent("a", model, tools=[add]), Agent("b", model)) as up:
        for method in ("claim", "keep", "recall", "discard"):
            monkeypatch.setattr(services_of(up).engine.store.records, method, fail)
        for headers in ({}, FIRST):
            assert content_of(await post(up.url, ask("hello"), **headers)) == "hi"
            assert text_of(await stream(up.url, ask("hello"), **headers)) == "hi"
            later = ask("hello", {"role": "assistant", "content": "hi"}, "more", model="b")
            assert content_of(await post(up.url, later, **headers)) == "hi"

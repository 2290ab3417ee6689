"""Requests of `/v1/chat/completions` that come again, and conversations that only the server has whole."""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_core import Agent, tool
from agent_core.errors import ModelError
from agent_core.messages import Message
from agent_core.models.base import CallPiece, CutPiece, Piece, TextPiece
from app.settings import Settings
from tests.agent_core.react.agents import add
from tests.app.doubles import Running, until
from tests.doubles import ScriptedModel, calls, says
from tests.live.test_disconnects import quiet
from tests.live.test_openai import PATH, PICK, ask, post, stream, text_of
from tests.serving import serving

FIRST, SECOND = {"x-stainless-retry-count": "0"}, {"x-stainless-retry-count": "1"}


def content_of(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["message"]["content"]


def texts(messages: tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages]


def on_disk(folder: Path, agent: Agent, **settings: Any) -> AbstractAsyncContextManager[Running]:
    return serving(agent, settings=Settings(store="sqlite", data_dir=folder, **settings))


async def test_two_conversations_with_equal_call_ids_of_the_provider_do_not_meet() -> None:
    both = [CallPiece(0, "c1", "add"), CallPiece(1, "c2", "pick_colour")]
    model = ScriptedModel([both, both, lambda request: says(str(texts(request.messages)))])
    async with serving(Agent("a", model, tools=[add])) as up:
        messages = []
        for secret in ("one", "two"):
            answer = (await post(up.url, ask(secret, tools=[PICK]))).json()
            messages.append(answer["choices"][0]["message"])
        ids = [message["tool_calls"][0]["id"] for message in messages]
        assert len({*ids, "c2"}) == 3
        for secret, message, call_id in zip(("one", "two"), messages, ids, strict=True):
            result = {"role": "tool", "tool_call_id": call_id, "content": "blue"}
            said = content_of(await post(up.url, ask(secret, message, result, tools=[PICK])))
            assert secret in said
            assert ("one" in said) != ("two" in said)


async def test_a_turn_of_client_tools_alone_leaves_nothing_behind_and_the_body_counts() -> None:
    model = ScriptedModel([calls(("pick_colour", "{}")), says("ok")])
    async with serving(Agent("a", model, tools=[add])) as up:
        message = (await post(up.url, ask("go", tools=[PICK]))).json()["choices"][0]["message"]
        services = up.server.app.state.services
        assert services.engine.store.records._kept == {}
        assert services.engine._runner.scratch._sessions == {}
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "blue"}
        await post(up.url, ask("edited", message, result, tools=[PICK]))
    assert texts(model.requests[1].messages) == ["edited", "", "blue"]


@pytest.mark.parametrize("failure", ["fails", "is left"])
async def test_the_server_s_half_is_there_again_after_a_second_leg_that_failed(failure: str) -> None:
    broken: list[Any] = [ModelError("model_unreachable")] if failure == "fails" else [asyncio.Event()]
    model = ScriptedModel([calls(("add", '{"a":1,"b":2}'), ("pick_colour", "{}")), broken, says("3 and blue")])
    async with serving(Agent("a", model, tools=[add], max_retries=0)) as up:
        message = (await post(up.url, ask("go", tools=[PICK]))).json()["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "blue"}
        body = ask("go", message, result, tools=[PICK])
        second = asyncio.create_task(post(up.url, body))
        if failure == "fails":
            assert (await second).status_code == 502
        else:
            await model.streaming.wait()
            second.cancel()
            await until(lambda: quiet(up))
        assert content_of(await post(up.url, body)) == "3 and blue"
        assert content_of(await post(up.url, body)) == "3 and blue", "whoever regenerates goes on from there too"
    for request in model.requests[1:]:
        assert [m.text for m in request.messages if m.role == "tool"] == ["3", "blue"]


async def test_calls_that_still_wait_after_some_answers_are_named() -> None:
    model = ScriptedModel([calls(("pick_colour", "{}"), ("pick_colour", "{}"))])
    async with serving(Agent("a", model)) as up:
        message = (await post(up.url, ask("go", tools=[PICK]))).json()["choices"][0]["message"]
        first, second = (call["id"] for call in message["tool_calls"])
        result = {"role": "tool", "tool_call_id": first, "content": "blue"}
        answer = (await post(up.url, ask("go", message, result, tools=[PICK]))).json()
        assert answer["choices"][0]["message"]["content"] == ""
        assert answer["x_agent"]["waiting"] == [second]


async def test_a_retry_does_not_say_the_message_a_second_time() -> None:
    model = ScriptedModel([[ModelError("model_unreachable")], says("one"), [ModelError("model_quota")], says("two")])
    session = {"x-session-id": "s1"}
    async with serving(Agent("a", model, max_retries=0)) as up:
        for body, said in ((ask("hello"), "one"), (ask("more"), "two")):
            assert (await post(up.url, body, **session, **FIRST)).status_code in (429, 502)
            assert content_of(await post(up.url, body, **session, **SECOND)) == said
    assert texts(model.requests[1].messages) == ["hello"]
    assert texts(model.requests[3].messages) == ["hello", "one", "more"]


async def test_a_person_may_say_yes_twice_through_a_client_that_counts_its_retries() -> None:
    model = ScriptedModel([says("one"), says("two")])
    session = {"x-session-id": "s1"}
    async with serving(Agent("a", model)) as up:
        assert content_of(await post(up.url, ask("yes"), **session, **FIRST)) == "one"
        assert content_of(await post(up.url, ask("yes"), **session, **FIRST)) == "two"
    assert texts(model.requests[1].messages) == ["yes", "one", "yes"]


async def test_half_an_answer_is_said_anew_and_not_gone_on_with() -> None:
    model = ScriptedModel([[TextPiece("half an"), ModelError("model_unreachable")], says("whole")])
    session = {"x-session-id": "s1"}
    async with serving(Agent("a", model, max_retries=0)) as up:
        assert (await post(up.url, ask("hello"), **session, **FIRST)).status_code == 502
        assert content_of(await post(up.url, ask("hello"), **session, **SECOND)) == "whole"
        async with httpx.AsyncClient() as http:
            history = (await http.get(up.url + "/sessions/s1/messages")).json()
    assert texts(model.requests[1].messages) == ["hello"]
    assert "half an" not in str(history)


@tool
async def charge() -> str:
    """Charge the card."""
    return "charged"


@pytest.mark.parametrize("known", [{"idempotency-key": "k1"}, SECOND])
async def test_after_a_restart_the_answer_is_given_out_again_and_nothing_runs(
    known: dict[str, str], tmp_path: Path
) -> None:
    both: list[Piece] = [TextPiece("Wait."), *calls(("charge", "{}"))]
    headers = {"x-session-id": "s1"}
    model = ScriptedModel([both, says("done")])
    agent = Agent("a", model, tools=[charge])
    async with on_disk(tmp_path, agent) as up:
        first = (await post(up.url, ask("pay"), **headers, **(known if known is not SECOND else FIRST))).json()
        streamed = await stream(up.url, ask("pay again"), **headers, **{"idempotency-key": "k2"})
    async with on_disk(tmp_path, agent) as up:
        again = (await post(up.url, ask("pay"), **headers, **known)).json()
        replayed = await stream(up.url, ask("pay again"), **headers, **{"idempotency-key": "k2"})
    ignored = {"usage", "created"}
    assert {k: v for k, v in again.items() if k not in ignored} == {k: v for k, v in first.items() if k not in ignored}
    assert abs(again["created"] - first["created"]) <= 1
    assert text_of(replayed) == text_of(streamed) == "done"
    assert replayed[-1]["x_agent"] == streamed[-1]["x_agent"]
    assert len(model.requests) == 3


async def test_after_a_restart_calls_for_the_client_are_given_out_again_under_their_ids(tmp_path: Path) -> None:
    model = ScriptedModel([calls(("add", '{"a":1,"b":2}'), ("pick_colour", '{"x":1}')), says("blue")])
    agent = Agent("a", model, tools=[add])
    headers = {"x-session-id": "s1", "idempotency-key": "k1"}
    async with on_disk(tmp_path, agent) as up:
        first = (await post(up.url, ask("go", tools=[PICK]), **headers)).json()
    async with on_disk(tmp_path, agent) as up:
        again = (await post(up.url, ask("go", tools=[PICK]), **headers)).json()
        assert again["choices"] == first["choices"]
        assert again["x_agent"] == first["x_agent"]
        [call] = again["choices"][0]["message"]["tool_calls"]
        result = {"role": "tool", "tool_call_id": call["id"], "content": "blue"}
        answer = {"x-session-id": "s1", "idempotency-key": "k2"}
        assert content_of(await post(up.url, ask(result, tools=[PICK]), **answer)) == "blue"
    async with on_disk(tmp_path, agent) as up:
        assert content_of(await post(up.url, ask(result, tools=[PICK]), **answer)) == "blue"
    assert len(model.requests) == 2


async def test_after_a_restart_a_run_that_failed_behind_its_tool_goes_on_without_running_it_again(
    tmp_path: Path,
) -> None:
    model = ScriptedModel([calls(("add", '{"a":1,"b":2}')), [ModelError("model_unreachable")], says("3")])
    agent = Agent("a", model, tools=[add], max_retries=0)
    headers = {"x-session-id": "s1", "idempotency-key": "k1"}
    async with on_disk(tmp_path, agent) as up:
        assert (await post(up.url, ask("go"), **headers)).status_code == 502
    async with on_disk(tmp_path, agent) as up:
        assert content_of(await post(up.url, ask("go"), **headers)) == "3"
    async with on_disk(tmp_path, agent) as up:
        assert content_of(await post(up.url, ask("go"), **headers)) == "3", "the second attempt's answer is found too"
    assert len(model.requests) == 3
    assert texts(model.requests[2].messages) == ["go", "", "3"]


async def test_after_a_restart_a_key_with_another_body_is_refused_and_an_old_one_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel([says("one"), says("two")])
    agent = Agent("a", model)
    headers = {"x-session-id": "s1", "idempotency-key": "k1"}
    async with on_disk(tmp_path, agent) as up:
        await post(up.url, ask("hello"), **headers)
    async with on_disk(tmp_path, agent) as up:
        other = await post(up.url, ask("something else"), **headers)
        assert (other.status_code, other.json()["error"]["param"]) == (422, "Idempotency-Key")
        elsewhere = await post(up.url, ask("hello"), **headers | {"x-session-id": "s2"})
        assert content_of(elsewhere) == "two"
    monkeypatch.setattr("app.retries.claim.KEY_SECONDS", -1.0)
    async with on_disk(tmp_path, agent) as up:
        assert content_of(await post(up.url, ask("hello"), **headers)) == "two"
    assert texts(model.requests[-1].messages) == ["hello", "one", "hello"]


async def test_a_key_of_one_session_is_refused_in_another_and_a_retry_there_is_a_request_of_its_own() -> None:
    model = ScriptedModel([says("one"), says("two"), says("three")])
    async with serving(Agent("a", model)) as up:
        key = {"idempotency-key": "k1"}
        assert content_of(await post(up.url, ask("hi"), **key, **{"x-session-id": "s1"})) == "one"
        for session in ({"x-session-id": "s2"}, {}):
            refused = await post(up.url, ask("hi"), **key, **session)
            assert (refused.status_code, refused.json()["error"]["param"]) == (422, "Idempotency-Key")
        assert content_of(await post(up.url, ask("hi"), **FIRST, **{"x-session-id": "s1"})) == "two"
        assert content_of(await post(up.url, ask("hi"), **SECOND, **{"x-session-id": "s2"})) == "three"


async def test_an_empty_key_is_none_and_one_that_is_too_long_is_a_400() -> None:
    model = ScriptedModel([says("one"), says("two")])
    async with serving(Agent("a", model)) as up:
        assert content_of(await post(up.url, ask("hi"), **{"idempotency-key": ""})) == "one"
        assert content_of(await post(up.url, ask("hi"), **{"idempotency-key": ""})) == "two"
        refused = await post(up.url, ask("hi"), **{"idempotency-key": "k" * 257})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "Idempotency-Key")


@pytest.mark.parametrize("told", ["header", "agent", "server"])
async def test_a_run_of_a_named_session_goes_on_without_its_client_where_that_is_wanted(told: str) -> None:
    go_on = asyncio.Event()
    model = ScriptedModel([[go_on, *says("finished")], [asyncio.Event()]])
    agent = Agent("a", model, on_disconnect="continue" if told == "agent" else None)
    settings = Settings(on_disconnect="continue" if told == "server" else "cancel")
    headers = {"x-on-disconnect": "continue"} if told == "header" else {}
    async with serving(agent, settings=settings) as up:
        left = asyncio.create_task(post(up.url, ask("go"), **headers, **{"x-session-id": "s1"}))
        await model.streaming.wait()
        left.cancel()
        await asyncio.wait({left})
        services = up.server.app.state.services
        await until(lambda: next(iter(services.runs._runs))._readers == 0)
        go_on.set()
        await until(lambda: quiet(up))
        async with httpx.AsyncClient() as http:
            assert "finished" in (await http.get(up.url + "/sessions/s1/messages")).text
        model.streaming.clear()
        unnamed = asyncio.create_task(post(up.url, ask("go"), **headers))
        await model.streaming.wait()
        unnamed.cancel()
        await until(lambda: quiet(up))
        assert model.closed == 2, "nobody could read its answer any more"


async def test_a_word_that_says_nothing_about_leaving_is_refused_by_name() -> None:
    async with serving(Agent("a", ScriptedModel([says("hi")]))) as up:
        for session in ({}, {"x-session-id": "s1"}):
            refused = await post(up.url, ask("hi"), **{"x-on-disconnect": "stay"}, **session)
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, "X-On-Disconnect")


async def test_the_models_answer_a_head_request() -> None:
    async with serving(Agent("a", ScriptedModel([says("hi")]))) as up, httpx.AsyncClient() as http:
        for path, status in (("/v1/models", 200), ("/v1/models/a", 200), ("/v1/models/b", 404)):
            answer = await http.head(up.url + path)
            assert (answer.status_code, answer.content) == (status, b"")
        assert (await http.head(up.url + PATH)).status_code == 405


@pytest.mark.parametrize(("why", "reason"), [("length", "length"), ("filter", "content_filter")])
async def test_an_answer_that_the_provider_cut_says_why_streamed_and_not(why: Any, reason: str) -> None:
    async with serving(Agent("a", ScriptedModel([[TextPiece("half"), CutPiece(why)]]))) as up:
        assert (await post(up.url, ask("go"))).json()["choices"][0]["finish_reason"] == reason
        assert (await stream(up.url, ask("go")))[-1]["choices"][0]["finish_reason"] == reason

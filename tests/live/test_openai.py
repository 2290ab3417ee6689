"""`/v1/chat/completions` over real sockets: streams, answers, tools, sessions, failures, clients that leave."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from agent_core import Agent, tool
from agent_core.errors import ModelError
from agent_core.events import Event, TextDelta
from agent_core.models.base import Piece, TextPiece, ThinkingPiece, UsagePiece
from agent_core.usage import Usage
from app.demo.agents import agents as demo
from app.runs import run as run_module
from app.settings import Settings
from converters.agui.encode import frame
from converters.wire import Frame
from tests.agent_core.react.agents import add
from tests.app.doubles import until
from tests.doubles import ScriptedModel, calls, says
from tests.live.test_disconnects import quiet
from tests.serving import serving

PATH = "/v1/chat/completions"
PICK = {"type": "function", "function": {"name": "pick_colour", "parameters": {"type": "object", "properties": {}}}}


def ask(*messages: dict[str, Any] | str, **members: Any) -> dict[str, Any]:
    said = [{"role": "user", "content": each} if isinstance(each, str) else each for each in messages]
    return {"model": "a", "messages": said, **members}


async def post(url: str, body: dict[str, Any], **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=20) as http:
        return await http.post(url + PATH, json=body, headers=headers)


@asynccontextmanager
async def opened(url: str, body: dict[str, Any], **headers: str) -> AsyncIterator[httpx.Response]:
    async with (
        httpx.AsyncClient(timeout=20) as http,
        http.stream("POST", url + PATH, json=body | {"stream": True}, headers=headers) as response,
    ):
        yield response


def chunks(text: str) -> list[Any]:
    """The stream's chunks; checks its shape, and that [DONE] ends it."""
    frames = text.split("\n\n")
    assert frames.pop() == ""
    assert all(frame.startswith("data: ") for frame in frames), frames
    assert frames.pop() == "data: [DONE]"
    return [json.loads(frame.removeprefix("data: ")) for frame in frames]


async def stream(url: str, body: dict[str, Any], **headers: str) -> list[Any]:
    async with opened(url, body, **headers) as response:
        assert response.status_code == 200, await response.aread()
        return chunks((await response.aread()).decode())


def text_of(found: list[Any]) -> str:
    deltas = [chunk["choices"][0]["delta"] for chunk in found if chunk["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


async def test_a_stream_has_the_role_first_one_finish_and_the_usage_last() -> None:
    cost = UsagePiece(Usage(provider="p", model="m", input_tokens=9, output_tokens=2, total_tokens=11))
    thinks: list[Piece] = [ThinkingPiece("hm"), TextPiece("Hi"), TextPiece(" there"), cost]
    async with serving(Agent("a", ScriptedModel([thinks]))) as up:
        found = await stream(up.url, ask("hello", stream_options={"include_usage": True}))
    assert found[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [c["choices"][0]["finish_reason"] for c in found if c["choices"]].count("stop") == 1
    assert text_of(found) == "Hi there"
    assert len({(c["id"], c["created"], c["model"]) for c in found}) == 1
    assert found[-1]["choices"] == []
    assert found[-1]["usage"]["total_tokens"] == 11
    assert found[-2]["x_agent"]["status"] == "completed"


async def test_an_answer_that_is_not_streamed_is_one_object() -> None:
    async with serving(Agent("a", ScriptedModel([says("Hi")]))) as up:
        answer = (await post(up.url, ask("hello"))).json()
        assert quiet(up)
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["content"] == "Hi"
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["x_agent"]["status"] == "completed"


async def test_the_agents_are_the_models() -> None:
    async with serving(Agent("a", "fake:fake"), Agent("b", "fake:fake")) as up, httpx.AsyncClient() as http:
        listed = (await http.get(up.url + "/v1/models")).json()
        assert [each["id"] for each in listed["data"]] == ["a", "b"]
        assert (await http.get(up.url + "/v1/models/b")).json()["object"] == "model"
        missing = await http.get(up.url + "/v1/models/c")
        assert (missing.status_code, missing.json()["error"]["param"]) == (404, "model")
        unknown = await post(up.url, ask("hi") | {"model": "c"})
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not_found")


async def test_the_body_is_the_conversation_and_nothing_of_it_is_kept() -> None:
    model = ScriptedModel([says("one"), says("two")])
    async with serving(Agent("a", model)) as up:
        await post(up.url, ask("hello"))
        await post(up.url, ask("hello", {"role": "assistant", "content": "edited"}, "more"))
        engine = up.server.app.state.services.engine
        assert engine.store._sessions == {}
        assert engine._runner.scratch._sessions == {}
    assert [m.text for m in model.requests[1].messages] == ["hello", "edited", "more"]


async def test_a_named_session_takes_only_what_is_new() -> None:
    model = ScriptedModel([says("one"), says("two")])
    async with serving(Agent("a", model)) as up:
        await post(up.url, ask("hello"), **{"x-session-id": "s1"})
        body = ask("hello", {"role": "assistant", "content": "forged"}, "more")
        await post(up.url, body, **{"x-session-id": "s1"})
        refused = await post(up.url, ask("hi"), **{"x-session-id": "no spaces"})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "X-Session-Id")
    assert [m.text for m in model.requests[1].messages] == ["hello", "one", "more"]


async def test_server_tools_are_hidden_and_shown_on_request() -> None:
    model = ScriptedModel([calls(("add", '{"a":1,"b":2}')), says("3")])
    async with serving(Agent("a", model, tools=[add])) as up:
        plain = await stream(up.url, ask("1+2"))
        model.requests.clear()
        shown = await stream(up.url, ask("1+2", x_agent={"events": True}))
    assert "tool_calls" not in str(plain)
    assert text_of(plain) == text_of(shown) == "3"
    told = [chunk["x_agent"]["type"] for chunk in shown if "type" in chunk.get("x_agent", {})]
    assert "TOOL_CALL_RESULT" in told


async def test_a_turn_with_server_and_client_tools_goes_on_where_it_stood() -> None:
    model = ScriptedModel([calls(("add", '{"a":1,"b":2}'), ("pick_colour", "{}")), says("3 and blue")])
    async with serving(Agent("a", model, tools=[add])) as up:
        first = (await post(up.url, ask("go", tools=[PICK]))).json()
        message = first["choices"][0]["message"]
        assert first["choices"][0]["finish_reason"] == "tool_calls"
        [call] = message["tool_calls"]
        assert call["function"]["name"] == "pick_colour"
        result = {"role": "tool", "tool_call_id": call["id"], "content": "blue"}
        second = (await post(up.url, ask("go", message, result, tools=[PICK]))).json()
        assert up.server.app.state.services.engine._runner.scratch._sessions == {}
    assert second["choices"][0]["message"]["content"] == "3 and blue"
    seen = [(m.name, m.text) for m in model.requests[1].messages if m.role == "tool"]
    assert seen == [("add", "3"), ("pick_colour", "blue")], "the server's half was kept"


async def test_another_user_does_not_find_the_waiting_half() -> None:
    alice, bob = "alice-key-0123456789", "bob-key-0123456789"
    model = ScriptedModel([calls(("pick_colour", "{}")), says("ok")])
    settings = Settings(api_keys=SecretStr(f"alice:{alice},bob:{bob}"))
    async with serving(Agent("a", model), settings=settings) as up:
        first = (await post(up.url, ask("secret", tools=[PICK]), authorization=f"Bearer {alice}")).json()
        call = first["choices"][0]["message"]["tool_calls"][0]
        stolen = ask("mine", {"role": "tool", "tool_call_id": call["id"], "content": "x"}, tools=[PICK])
        await post(up.url, stolen, authorization=f"Bearer {bob}")
    assert "secret" not in str(model.requests[1].messages)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("model_auth", 502),
        ("model_quota", 429),
        ("model_timeout", 504),
        ("model_unreachable", 502),
        ("context_overflow", 400),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
async def test_an_early_failure_keeps_its_status(code: Any, status: int, streamed: bool) -> None:
    failing = ModelError(code, detail="secret", retry_after=7.0)
    async with serving(Agent("a", ScriptedModel([[failing]]), max_retries=0)) as up:
        response = await post(up.url, ask("go", stream=streamed))
    assert response.status_code == status
    assert response.json()["error"]["code"] == code
    assert "secret" not in response.text
    if code == "model_quota":
        assert response.headers["retry-after"] == "7"
    if code == "model_auth":
        assert response.headers["x-should-retry"] == "false"


async def test_a_failure_in_mid_stream_is_one_error_frame_and_done() -> None:
    model = ScriptedModel([[TextPiece("half"), ModelError("model_unreachable")]])
    async with serving(Agent("a", model)) as up:
        found = await stream(up.url, ask("go"))
    assert found[-1]["error"]["code"] == "model_unreachable"
    assert text_of(found[:-1]) == "half"


async def test_the_summary_of_an_exceeded_run_arrives_streamed_and_not() -> None:
    for streamed in (True, False):
        model = ScriptedModel([calls(("add", '{"a":1,"b":2}')), says("so far: 3")])
        async with serving(Agent("a", model, tools=[add], max_iterations=1)) as up:
            if streamed:
                found = await stream(up.url, ask("go"))
                assert text_of(found) == "so far: 3"
                finish = found[-1]
            else:
                answer = (await post(up.url, ask("go"))).json()
                assert answer["choices"][0]["message"]["content"] == "so far: 3"
                finish = answer
            assert finish["choices"][0]["finish_reason"] == "stop"
            assert finish["x_agent"]["status"] == "max_iterations"


async def test_headers_are_held_for_the_first_piece_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    from app.routes import openai as route

    monkeypatch.setattr(route, "HOLD", 0.05)
    go_on = asyncio.Event()
    async with serving(Agent("a", ScriptedModel([[go_on, *says("late")]]))) as up:
        async with opened(up.url, ask("go")) as response:
            assert response.status_code == 200, "the headers came before the first piece"
            go_on.set()
            assert text_of(chunks((await response.aread()).decode())) == "late"


async def test_a_silent_stream_sends_empty_deltas_and_no_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = asyncio.Event()
    model = ScriptedModel([[TextPiece("so"), go_on, TextPiece(" far")]])
    async with serving(Agent("a", model), settings=Settings(ping_seconds=0.05)) as up:
        async with opened(up.url, ask("go")) as response:
            seen = ""
            async for piece in response.aiter_text():
                seen += piece
                if seen.count('"delta":{}') >= 2:
                    go_on.set()
    assert text_of(chunks(seen)) == "so far"


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_client_that_leaves_cancels_the_run_also_before_anything_came(streamed: bool) -> None:
    model = ScriptedModel([[asyncio.Event()]])
    async with serving(Agent("a", model)) as up:
        request = asyncio.create_task(post(up.url, ask("go", stream=streamed)))
        await model.streaming.wait()
        request.cancel()
        await until(lambda: model.closed == 1)
        await until(lambda: quiet(up))


@tool
async def charge() -> str:
    """Charge the card."""
    CHARGED.append(1)
    return "charged"


CHARGED: list[int] = []


async def test_a_request_with_the_same_key_runs_the_agent_once() -> None:
    CHARGED.clear()
    model = ScriptedModel([calls(("charge", "{}")), says("done")])
    async with serving(Agent("a", model, tools=[charge])) as up:
        key = {"idempotency-key": "k1"}
        first = await post(up.url, ask("pay"), **key)
        again = await post(up.url, ask("pay"), **key)
        streamed = await post(up.url, ask("pay", stream=True), **key)
        other = await post(up.url, ask("something else"), **key)
    assert first.json() == again.json()
    assert streamed.status_code == 422, "another body, since it asks for a stream"
    assert (other.status_code, other.json()["error"]["param"]) == (422, "Idempotency-Key")
    assert len(CHARGED) == 1


async def test_a_client_that_times_out_and_retries_gets_the_answer_of_the_one_run() -> None:
    go_on = asyncio.Event()
    model = ScriptedModel([[go_on, *says("slow but once")]])
    sdk = {"x-stainless-read-timeout": "0.1"}
    async with serving(Agent("a", model)) as up:
        first = asyncio.create_task(post(up.url, ask("go"), **sdk, **{"x-stainless-retry-count": "0"}))
        await model.streaming.wait()
        await asyncio.sleep(0.15)  # the client's own time-out
        first.cancel()
        second = asyncio.create_task(post(up.url, ask("go"), **sdk, **{"x-stainless-retry-count": "1"}))
        await asyncio.sleep(0.05)
        go_on.set()
        answer = (await second).json()
    assert answer["choices"][0]["message"]["content"] == "slow but once"
    assert len(model.requests) == 1


async def test_a_retry_after_a_failure_without_effects_tries_again() -> None:
    model = ScriptedModel([[ModelError("model_unreachable")], says("back")])
    async with serving(Agent("a", model, max_retries=0)) as up:
        first = await post(up.url, ask("go"), **{"x-stainless-retry-count": "0"})
        second = await post(up.url, ask("go"), **{"x-stainless-retry-count": "1"})
    assert first.status_code == 502
    assert second.json()["choices"][0]["message"]["content"] == "back"


async def test_what_cannot_be_honoured_is_refused_by_name() -> None:
    async with serving(Agent("a", ScriptedModel([says("hi")]), tools=[add])) as up:
        mine = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
        for members, param in (
            ({"n": 2}, "n"),
            ({"logprobs": True}, "logprobs"),
            ({"response_format": {"type": "json_object"}}, "response_format"),
            ({"tools": [mine]}, "tools[0]"),
        ):
            response = await post(up.url, ask("hi", **members))
            assert response.status_code == 400, members
            assert str(response.json()["error"]["param"]).startswith(param)


async def test_a_users_converter_holds_here_too() -> None:
    class Masked:
        claims: tuple[type[Event], ...] = (TextDelta,)

        def convert(self, event: Event) -> list[Frame]:
            assert isinstance(event, TextDelta)
            text = event.text.replace("secret", "***")
            return [frame({"type": "TEXT_MESSAGE_CONTENT", "messageId": event.reply_id, "delta": text})]

    async with serving(Agent("a", ScriptedModel([says("a secret")])), converters=[Masked]) as up:
        assert text_of(await stream(up.url, ask("go"))) == "a ***"
        answer = (await post(up.url, ask("go"))).json()
    assert answer["choices"][0]["message"]["content"] == "a ***"


async def test_an_answer_that_is_given_out_again_says_when_it_was_made() -> None:
    async with serving(Agent("a", ScriptedModel([says("once")]))) as up:
        key = {"idempotency-key": "k1"}
        first = (await post(up.url, ask("go"), **key)).json()
        [served] = [known.run for known in up.server.app.state.services.known_runs._known.values()]
        served.created += 100
        again = (await post(up.url, ask("go"), **key)).json()
    assert again == first | {"created": first["created"] + 100}, "the run's time, not the reader's"


async def test_the_reference_runs_come_through_this_endpoint_too() -> None:
    named = {agent.name: agent for agent in demo}
    async with serving(replace(named["clock"], name="a", max_iterations=1), named["vessel"]) as up:
        for streamed in (True, False):
            if streamed:
                found = await stream(up.url, ask("what time is it", x_agent={"events": True}))
                told = [chunk["x_agent"] for chunk in found if "x_agent" in chunk]
                assert [each["event"]["maxIters"] for each in told if each.get("type") == "RAW"] == [1]
                said, finish = text_of(found), found[-1]
            else:
                finish = (await post(up.url, ask("what time is it"))).json()
                said = finish["choices"][0]["message"]["content"]
            assert said.startswith("时间查询完成: ")
            assert finish["x_agent"]["status"] == "max_iterations"
        session = {"x-session-id": "s1"}
        ship = ask("Where is the cargo of MSC AURORA?") | {"model": "vessel"}
        first = (await post(up.url, ship, **session)).json()
        assert first["x_agent"]["status"] == "max_iterations"
        assert "C-001" in first["choices"][0]["message"]["content"]
        more = (await post(up.url, ask("continue") | {"model": "vessel"}, **session)).json()
        assert more["x_agent"]["status"] == "completed"
        assert "hold 3" in more["choices"][0]["message"]["content"]


async def test_a_client_that_counts_retries_but_tells_no_time_out_is_waited_for_a_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on = asyncio.Event()
    model = ScriptedModel([[go_on, *says("once")], [asyncio.Event()]])
    async with serving(Agent("a", model)) as up:
        for again in ("0", "1"):
            request = asyncio.create_task(post(up.url, ask("go"), **{"x-stainless-retry-count": again}))
            await model.streaming.wait()
            if again == "0":
                request.cancel()
                await asyncio.sleep(0.05)
        go_on.set()
        assert (await request).json()["choices"][0]["message"]["content"] == "once"
        assert len(model.requests) == 1
        monkeypatch.setattr(run_module, "DOUBT", 0.05)
        stopped = asyncio.create_task(post(up.url, ask("stop me"), **{"x-stainless-retry-count": "0"}))
        await until(lambda: len(model.requests) == 2)
        stopped.cancel()
        await until(lambda: model.closed == 2)
        await until(lambda: quiet(up))

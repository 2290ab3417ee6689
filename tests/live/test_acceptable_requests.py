"""Whatever a model made up is in the session, and no provider refuses the session's later requests for it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_core import Agent, Engine, tool
from agent_core.messages import Message, ToolCall
from agent_core.models.openai_chat import OpenAIChat
from agent_core.models.openai_messages import legal_id
from agent_core.names import SessionKey
from agent_core.sessions.entries import Entry
from app.settings import Settings
from tests.entries import end_entry, message_entry, run_entry
from tests.live.strict_peer import faults_of, strict
from tests.scripted import ScriptedUpstream, answer, calls, done, error, finish, says, tool_call
from tests.serving import run, run_input, serving, text_of

LONG = "chatcmpl-tool-0123456789abcdef0123456789abcdef"


@tool
def f(a: int = 0) -> str:
    """Does f."""
    return f"f {a}"


def model_of(up: ScriptedUpstream, name: str = "m") -> OpenAIChat:
    return OpenAIChat(name, api_key="k", base_url=up.base_url)


async def over_agui(url: str, question: str) -> str:
    return text_of(await run(url, run_input(question)))


async def over_openai(url: str, question: str, *, streamed: bool = False) -> str:
    body = {"model": "a", "messages": [{"role": "user", "content": question}], "stream": streamed}
    async with httpx.AsyncClient(timeout=20) as http:
        response = await http.post(f"{url}/v1/chat/completions", json=body, headers={"x-session-id": "t1"})
    assert response.status_code == 200, response.text
    return response.text


async def ask(way: str, url: str, question: str) -> str:
    return await (over_agui(url, question) if way == "agui" else over_openai(url, question, streamed=way == "streamed"))


WAYS = ["agui", "streamed", "whole"]
ODD_NAMES = ["functions.f", "foo bar!", "日本", "x" * 100]
ODD_ARGUMENTS = ["null", "", " ", "[1]", '"x"', '{"a": ', "no JSON"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ODD_NAMES)
async def test_a_name_that_the_model_made_up_is_refused_once_and_the_session_lives_on(way: str, name: str) -> None:
    script = strict(calls(name, "{}", id="c1"), says("so"), says("and on"))
    async with ScriptedUpstream(script) as up, serving(Agent("a", model_of(up), tools=[f])) as server:
        assert "so" in await ask(way, server.url, "one")
        assert "and on" in await ask(way, server.url, "two")
        async with httpx.AsyncClient(base_url=server.url) as http:
            shown = (await http.get("/sessions/t1/messages")).json()["messages"]
    [call] = [call for message in shown for call in message.get("toolCalls", ())]
    assert call["function"]["name"] == name, "what happened is told as it was"
    result = next(each for each in up.requests[-1].body["messages"] if each["role"] == "tool")
    assert "There is no tool named" in result["content"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("arguments", ODD_ARGUMENTS)
async def test_arguments_that_are_no_object_are_replayed_as_one(way: str, arguments: str) -> None:
    script = strict(calls("f", arguments, id="c1"), says("so"), says("and on"))
    async with ScriptedUpstream(script) as up, serving(Agent("a", model_of(up), tools=[f])) as server:
        await ask(way, server.url, "one")
        assert "and on" in await ask(way, server.url, "two")


@pytest.mark.parametrize("call_id", [LONG, "functions.f:0", "aB3xK9mP2"])
async def test_a_provider_gets_the_ids_back_that_it_gave(call_id: str) -> None:
    script = strict(calls("f", "{}", id=call_id), says("so"), says("and on"), own=(call_id,))
    async with ScriptedUpstream(script) as up, serving(Agent("a", model_of(up), tools=[f])) as server:
        await over_agui(server.url, "one")
        assert await over_agui(server.url, "two") == "and on"
    for request in up.requests[1:]:
        [result] = [each for each in request.body["messages"] if each["role"] == "tool"]
        assert result["tool_call_id"] == call_id


@pytest.mark.parametrize("way", WAYS)
async def test_a_fallback_that_takes_forty_characters_goes_on_with_the_calls_of_another_model(way: str) -> None:
    failing = [calls("f", "{}", id=LONG), error(500), error(500)]
    async with (
        ScriptedUpstream(failing) as first,
        ScriptedUpstream(strict(says("so"))) as second,
        serving(Agent("a", model_of(first), tools=[f], fallback_model=model_of(second), max_retries=0)) as server,
    ):
        assert "so" in await ask(way, server.url, "one")
        assert "so" in await ask(way, server.url, "two")
    ids = {each["tool_call_id"] for r in second.requests for each in r.body["messages"] if each["role"] == "tool"}
    assert len(second.requests) == 2
    assert len(ids) == 1, "the same id each time"
    [asked, again] = [r.body["messages"][-1] for r in first.requests[1:]]
    assert asked["tool_call_id"] == LONG, "and the model itself gets its own"
    assert again["role"] == "user"


OLD = (
    ToolCall(id=LONG, name="functions.f", arguments="null"),
    ToolCall(id="a b", name="foo bar!", arguments='{"a": '),
)


def old_session() -> list[Entry]:
    """What a server of before this change stored."""
    said = Message(id="u1", role="user", content="one")
    asked = Message(id="a1", role="assistant", tool_calls=OLD)
    results = [Message(id=f"t{n}", role="tool", tool_call_id=call.id, name=call.name) for n, call in enumerate(OLD)]
    messages = (said, asked, *results)
    return [run_entry("r0", "a"), *(message_entry("r0", "a", each) for each in messages), end_entry("r0", "failed")]


@pytest.mark.parametrize("way", WAYS)
async def test_a_stored_session_that_no_provider_took_any_more_is_usable_again_on_every_worker(
    way: str, tmp_path: Path
) -> None:
    settings = Settings(store="sqlite", data_dir=tmp_path / "data")
    sent: list[Sequence[str]] = []
    async with ScriptedUpstream(strict(says("so"))) as up:
        for number in range(2):  # and again after a restart
            async with serving(Agent("a", model_of(up), tools=[f]), settings=settings) as server:
                engine: Engine = server.server.app.state.services.engine
                if number == 0:
                    await engine.sessions.fill(SessionKey(user_id="local", session_id="t1"), old_session())
                assert "so" in await ask(way, server.url, "go on")
            sent.append([each["tool_call_id"] for each in up.requests[-1].body["messages"] if each["role"] == "tool"])
    assert sent[0] == sent[1]
    assert len(set(sent[0])) == 2


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_conversation_that_a_client_brings_is_acceptable_too(streamed: bool) -> None:
    call = {"id": LONG, "type": "function", "function": {"name": "functions.f", "arguments": "null"}}
    body: dict[str, Any] = {
        "model": "a",
        "stream": streamed,
        "messages": [
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": LONG, "content": "r"},
            {"role": "user", "content": "two"},
        ],
    }
    async with ScriptedUpstream(strict(says("so"))) as up, serving(Agent("a", model_of(up))) as server:
        for _ in range(2):
            async with httpx.AsyncClient(base_url=server.url) as http:
                assert "so" in (await http.post("/v1/chat/completions", json=body)).text
    assert up.requests[0].body["messages"] == up.requests[1].body["messages"]


async def test_one_answer_of_several_odd_calls_keeps_each_result_with_its_call() -> None:
    odd = answer(
        tool_call("f", '{"a": 1}', id=LONG, index=0),
        tool_call("f", '{"a": 2}', id=LONG.replace("0", "1"), index=1),
        finish("tool_calls"),
        done(),
    )
    async with (
        ScriptedUpstream([odd, error(500)]) as first,
        ScriptedUpstream(says("so")) as second,
        serving(Agent("a", model_of(first), tools=[f], fallback_model=model_of(second), max_retries=0)) as server,
    ):
        assert await over_agui(server.url, "one") == "so"
    messages = second.requests[0].body["messages"]
    assert faults_of(second.requests[0].body) == []
    asked = next(each for each in messages if each.get("tool_calls"))["tool_calls"]
    results = {each["tool_call_id"]: each["content"] for each in messages if each["role"] == "tool"}
    assert [results[call["id"]] for call in asked] == ["f 1", "f 2"]


F = {"type": "function", "function": {"name": "g", "parameters": {"type": "object", "properties": {}}}}


async def test_in_a_conversation_that_only_the_client_has_the_provider_gets_its_own_ids_back() -> None:
    nine = "aB3xK9mP2"
    script = strict(*[calls("f", "{}", id="zY8wV7uT6"), calls("g", "{}", id=nine)] * 2, says("so"))
    said: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    seen: list[str] = []
    async with ScriptedUpstream(script) as up, serving(Agent("a", model_of(up), tools=[f])) as server:
        for _ in range(3):
            body = {"model": "a", "messages": said, "tools": [F], "stream": False}
            async with httpx.AsyncClient(base_url=server.url, timeout=20) as http:
                answered = (await http.post("/v1/chat/completions", json=body)).json()["choices"][0]["message"]
            for call in answered.get("tool_calls", ()):
                seen.append(call["id"])
                said += [answered, {"role": "tool", "tool_call_id": call["id"], "content": "r"}]
    assert answered["content"] == "so"
    assert len(set(seen)) == 2, "to the client each call has an id of its own"
    assert faults_of(up.requests[-1].body) == []
    ids = [call["id"] for message in up.requests[2].body["messages"] for call in message.get("tool_calls") or ()]
    assert ids == ["zY8wV7uT6", nine]
    last = [call["id"] for message in up.requests[-1].body["messages"] for call in message.get("tool_calls") or ()]
    assert last[:2] == ["zY8wV7uT6", nine]
    assert len(set(last)) == 4


OWN = "call_0__own_0123456789ab"
COLLIDING = [
    [[LONG, legal_id(LONG)]],
    [[legal_id(LONG)], [LONG]],
    [[OWN], [OWN.replace("ab", "cd")], ["call_0"]],
    [[OWN, OWN.replace("ab", "cd"), "call_0"]],
]


@pytest.mark.parametrize("turns", COLLIDING)
async def test_calls_that_would_get_the_same_id_get_two(turns: list[list[str]]) -> None:
    said: list[dict[str, Any]] = []
    for ids in turns:
        asked = [{"id": each, "type": "function", "function": {"name": "g", "arguments": "{}"}} for each in ids]
        said += [{"role": "user", "content": "go"}, {"role": "assistant", "content": None, "tool_calls": asked}]
        said += [{"role": "tool", "tool_call_id": each, "content": each} for each in ids]
    async with ScriptedUpstream(strict(says("so"))) as up, serving(Agent("a", model_of(up))) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=20) as http:
            for _ in range(2):
                await http.post("/v1/chat/completions", json={"model": "a", "messages": said})
    [first, again] = [request.body["messages"] for request in up.requests]
    assert first == again
    calls = [call["id"] for message in first for call in message.get("tool_calls") or ()]
    results = {each["tool_call_id"]: each["content"] for each in first if each["role"] == "tool"}
    assert [results[each] for each in calls] == [each for ids in turns for each in ids]

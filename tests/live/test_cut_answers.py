"""An answer that the provider cut is told as one, by every way that an answer takes."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_core import Agent, Engine, Guards
from agent_core.models.base import CutPiece, Piece, TextPiece, ThinkingPiece
from agent_core.models.openai_chat import OpenAIChat
from app.settings import Settings
from tests.agent_core.react.agents import add
from tests.doubles import ScriptedModel, calls, says
from tests.scripted import ScriptedUpstream, answer, done, finish, text
from tests.serving import Frame, frames_of, run, run_input, serving, types_of

CUTS: list[tuple[Any, str]] = [("length", "length"), ("filter", "content_filter")]


def half(why: Any) -> list[Piece]:
    return [TextPiece("Half an"), CutPiece(why)]


def told(frames: list[Frame]) -> list[Any]:
    return [each["value"] for each in frames if each["type"] == "CUSTOM" and each["name"] == "answer_cut"]


@pytest.mark.parametrize(("why", "reason"), CUTS)
@pytest.mark.parametrize("version", ["1.0", None])
async def test_a_cut_answer_is_told_on_agui_to_clients_of_all_versions(why: Any, reason: str, version: Any) -> None:
    body = run_input("go")
    if version is None:
        del body["protocolVersion"]
    async with serving(Agent("a", ScriptedModel([half(why)]))) as up:
        frames = await run(up.url, body)
    [message_id] = {each["messageId"] for each in frames if each["type"] == "TEXT_MESSAGE_CONTENT"}
    assert told(frames) == [{"messageId": message_id, "reason": reason}]
    assert frames[-1]["result"] == {"status": "completed", "finishReason": reason}
    assert types_of(frames).index("CUSTOM") > types_of(frames).index("TEXT_MESSAGE_END")


async def test_an_answer_that_is_whole_says_nothing_of_it() -> None:
    async with serving(Agent("a", ScriptedModel([says("whole")]))) as up:
        frames = await run(up.url, run_input("go"))
    assert told(frames) == []
    assert frames[-1]["result"] == {"status": "completed"}


@pytest.mark.parametrize(("word", "reason"), [("length", "length"), ("content_filter", "content_filter")])
async def test_it_comes_from_the_provider_s_own_word(word: str, reason: str) -> None:
    async with ScriptedUpstream(answer(text("Half"), finish(word), done())) as up:
        agent = Agent("a", OpenAIChat("m", api_key="k", base_url=up.base_url))
        async with serving(agent) as server:
            frames = await run(server.url, run_input("go"))
    assert frames[-1]["result"]["finishReason"] == reason


async def test_a_call_that_was_cut_is_told_and_the_answer_behind_it_is_whole() -> None:
    cut = [*calls(("add", '{"a": 1, "b"')), CutPiece("length")]
    async with serving(Agent("a", ScriptedModel([cut, says("so")]), tools=[add])) as up:
        frames = await run(up.url, run_input("go"))
    [call] = [each for each in frames if each["type"] == "TOOL_CALL_START"]
    assert told(frames) == [{"messageId": call["parentMessageId"], "reason": "length"}]
    assert frames[-1]["result"] == {"status": "completed"}


async def test_a_closing_answer_that_was_cut_is_told_beside_its_status() -> None:
    agent = Agent("a", ScriptedModel([calls(("add", '{"a":1,"b":2}')), half("length")]), tools=[add], max_iterations=1)
    async with serving(agent) as up:
        frames = await run(up.url, run_input("go"))
    result = {"status": "max_iterations", "continuationRequired": True, "finishReason": "length"}
    assert frames[-1]["result"] == result


async def test_thinking_alone_that_was_cut_ends_with_its_reason_and_names_no_message() -> None:
    thinks: list[Piece] = [ThinkingPiece("hm"), CutPiece("length")]
    async with serving(Agent("a", ScriptedModel([thinks]))) as up:
        frames = await run(up.url, run_input("go"))
    assert told(frames) == []
    assert frames[-1]["result"]["finishReason"] == "length"


async def post(url: str, **headers: str) -> Any:
    body = {"model": "a", "messages": [{"role": "user", "content": "go"}], "x_agent": {"events": True}}
    async with httpx.AsyncClient(timeout=20) as http:
        return (await http.post(f"{url}/v1/chat/completions", json=body, headers=headers)).json()


@pytest.mark.parametrize(("why", "reason"), CUTS)
async def test_a_question_about_the_answer_does_not_hide_that_it_was_cut(why: Any, reason: str) -> None:
    def script(*scores: Piece) -> ScriptedModel:
        return ScriptedModel([half(why), [TextPiece("90"), *scores]])

    for scored in (script(), script(CutPiece("length"))):
        async with serving(Agent("a", scored, guards=Guards(confidence=0.5))) as up:
            assert (await post(up.url))["choices"][0]["finish_reason"] == reason
    whole = ScriptedModel([says("whole"), [TextPiece("90"), CutPiece("length")]])
    async with serving(Agent("a", whole, guards=Guards(confidence=0.5))) as up:
        answered = await post(up.url)
    assert answered["choices"][0]["finish_reason"] == "stop"
    assert "answer_cut" not in json.dumps(answered)


async def test_the_openai_endpoint_names_the_message_among_the_events() -> None:
    async with serving(Agent("a", ScriptedModel([half("length")]))) as up:
        events = (await post(up.url))["x_agent"]["events"]
    [cut] = [each for each in events if each.get("name") == "answer_cut"]
    assert cut["value"]["reason"] == "length"


async def test_an_answer_that_is_given_out_again_is_still_cut(tmp_path: Path) -> None:
    settings = Settings(store="sqlite", data_dir=tmp_path)
    agent = Agent("a", ScriptedModel([half("length")]))
    key = {"x-session-id": "s1", "idempotency-key": "k1"}
    async with serving(agent, settings=settings) as up:
        first = await post(up.url, **key)
        run_id = first["x_agent"]["run_id"]
    async with serving(agent, settings=settings) as up:  # after a restart, from the store
        again = await post(up.url, **key)
        async with (
            httpx.AsyncClient(base_url=up.url, timeout=20) as http,
            http.stream("GET", f"/sessions/s1/runs/{run_id}/events") as response,
        ):
            frames = [frame async for frame in frames_of(response)]
    assert again["choices"][0] == first["choices"][0]
    assert again["choices"][0]["finish_reason"] == "length"
    assert frames[-1]["result"] == {"status": "completed", "finishReason": "length"}


async def test_a_question_that_comes_again_is_told_that_its_answer_was_cut() -> None:
    async with serving(Agent("a", ScriptedModel([half("length"), says("never")]))) as up:
        asked = run_input("go")
        await run(up.url, asked)
        for _ in range(2):
            frames = await run(up.url, asked)
            assert types_of(frames) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
            assert frames[-1]["result"] == {"status": "completed", "finishReason": "length"}


@pytest.mark.parametrize(("given", "cut"), [(half("length"), "length"), (half("filter"), "filter"), (says("a"), None)])
async def test_the_library_says_it_too(given: list[Piece], cut: str | None) -> None:
    async with Engine() as engine:
        result = await engine.call(Agent("a", ScriptedModel([given])), "go", user_id="u", session_id="s")
    assert result.cut == cut

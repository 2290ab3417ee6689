"""AG-UI's own client on sessions that last: it edits and regenerates, sends only what is new, and shares state."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.settings import Settings
from tests.clients.panel import Panel, panel, rewinds, said, shape
from tests.clients.session_agents import agents
from tests.clients.test_agui_node import PICK
from tests.serving import serving


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(store="sqlite", data_dir=tmp_path / "data")


@asynccontextmanager
async def at_a_panel(settings: Settings) -> AsyncIterator[Panel]:
    """A panel for a server with the agents of the tests."""
    async with serving(*agents, settings=settings) as up, panel(up.url) as client:
        yield client


async def agrees(client: Panel, run: dict[str, Any], thread: str, agent: str = "echo") -> None:
    """The server's messages are the client's own, with the same ids."""
    stored = await client.messages(thread, agent=agent)
    assert shape(stored) == shape(run["messages"])
    assert said(stored) == said(run["messages"])


async def three_turns(client: Panel, thread: str) -> Any:
    await client.tell("open", name="page", thread=thread, agent="echo")
    await client.run("page", say="one", **{"as": "u1"})
    await client.run("page", say="two", **{"as": "u2"})
    return await client.run("page", say="three", **{"as": "u3"})


async def test_a_message_that_is_edited_takes_the_conversation_back_to_it(settings: Settings) -> None:
    async with at_a_panel(settings) as client:
        before = await three_turns(client, "t")
        assert before["messages"][-1]["content"] == "5 messages: u a u a u; three"
        edited = await client.run("page", upTo="u2", edit={"id": "u2", "content": "TWO"})
        assert edited["messages"][-1]["content"] == "3 messages: u a u; TWO"
        assert rewinds(edited) == [before["messages"][1]["id"]]
        await agrees(client, edited, "t")
        went_on = await client.run("page", say="four")
        assert went_on["messages"][-1]["content"] == "5 messages: u a u a u; four"
        assert rewinds(went_on) == []
        await agrees(client, went_on, "t")


async def test_the_first_message_can_be_edited_too(settings: Settings) -> None:
    async with at_a_panel(settings) as client:
        await three_turns(client, "t")
        edited = await client.run("page", upTo="u1", edit={"id": "u1", "content": "ONE"})
        assert edited["messages"][-1]["content"] == "1 messages: u; ONE"
        assert rewinds(edited) == [""]
        await agrees(client, edited, "t")


async def test_an_answer_can_be_asked_for_again_and_again(settings: Settings) -> None:
    async with at_a_panel(settings) as client:
        last = await three_turns(client, "t")
        answers = {last["messages"][-1]["id"]}
        for _ in range(3):
            again = await client.run("page", upTo="u3")
            assert rewinds(again) == ["u3"]
            assert again["messages"][-1]["content"] == "5 messages: u a u a u; three"
            answers.add(again["messages"][-1]["id"])
            await agrees(client, again, "t")
        assert len(answers) == 4, "each is a message of its own"
        earlier = await client.run("page", upTo="u1")
        assert earlier["messages"][-1]["content"] == "1 messages: u; one"
        await agrees(client, earlier, "t")


async def test_an_answer_that_used_tools_can_be_asked_for_again(settings: Settings) -> None:
    async with at_a_panel(settings) as client:
        await client.tell("open", name="page", thread="t", agent="demo")
        first = await client.run("page", say="weather in Paris and Rome", **{"as": "u1"})
        again = await client.run("page", upTo="u1")
        assert [each["role"] for each in again["messages"]] == ["user", "assistant", "tool", "tool", "assistant"]
        calls = [[call["id"] for call in run["messages"][1]["toolCalls"]] for run in (first, again)]
        assert not set(calls[0]) & set(calls[1]), "a call's id is never used twice in a session"
        await agrees(client, again, "t", "demo")


async def test_an_answer_that_was_stopped_can_be_asked_for_again(settings: Settings) -> None:
    async with at_a_panel(settings) as client:
        await client.tell("open", name="page", thread="t", agent="demo")
        stopped = await client.tell(
            "run", name="page", say="slow", abortAt={"type": "TEXT_MESSAGE_CONTENT", "count": 3}, **{"as": "u1"}
        )
        assert stopped["runError"] == "abort"
        again = await client.run("page", upTo="u1")
        assert again["messages"][-1]["content"].endswith(" 40")
        await agrees(client, again, "t", "demo")


async def test_a_conversation_with_thinking_and_client_tools_can_be_taken_back(settings: Settings) -> None:
    async with at_a_panel(settings) as client:
        await client.tell("open", name="page", thread="t", agent="demo")
        await client.run("page", say="hello", **{"as": "u1"})
        for question in ("u2", "u3"):
            asked = await client.run("page", say="use frontend tool pick_colour", tools=[PICK], **{"as": question})
            again = await client.run("page", upTo=question, tools=[PICK])
            assert rewinds(again) == [], "a question that is repeated ends no wait"
            assert again["messages"] == asked["messages"]
            await client.run("page", answer="teal", tools=[PICK])
            anew = await client.run("page", upTo=question, tools=[PICK])
            assert rewinds(anew) == [question]
            calls = [run["messages"][-1]["toolCalls"][0]["id"] for run in (asked, anew)]
            assert calls[0] != calls[1]
            answered = await client.run("page", answer="teal", tools=[PICK])
            assert "teal" in answered["messages"][-1]["content"]
            await agrees(client, answered, "t", "demo")
            hello = await client.run("page", upTo="u1")
            assert [each["role"] for each in hello["messages"]] == ["user", "reasoning", "assistant"]
            await agrees(client, hello, "t", "demo")


async def test_a_client_that_sends_only_what_is_new_is_answered_from_the_whole_session(settings: Settings) -> None:
    async with at_a_panel(settings) as client:
        await three_turns(client, "t")
        await client.tell("open", name="other", thread="t", agent="echo")
        new = await client.run("other", say="four")
        assert new["messages"][-1]["content"] == "7 messages: u a u a u a u; four"
        assert rewinds(new) == []
        message = {"id": "u5", "role": "user", "content": "five"}
        posted = await client.tell(
            "post", agent="echo", body={"threadId": "t", "runId": "r5", "messages": [message], "protocolVersion": "1.0"}
        )
        deltas = [frame["data"].get("delta", "") for frame in posted["frames"]]
        assert "".join(deltas) == "9 messages: u a u a u a u a u; five"
        assert len(await client.messages("t", agent="echo")) == 10


async def test_a_client_that_missed_a_turn_goes_on_from_what_it_shows(settings: Settings) -> None:
    async with at_a_panel(settings) as client:
        await client.tell("open", name="one", thread="t", agent="echo")
        await client.tell("open", name="two", thread="t", agent="echo")
        first = await client.run("one", say="one")
        await client.run("two", say="two")
        third = await client.run("one", say="three")
        assert third["messages"][-1]["content"] == "3 messages: u a u; three"
        assert rewinds(third) == [first["messages"][-1]["id"]]
        await agrees(client, third, "t", "echo")


async def test_a_fork_goes_on_by_itself(settings: Settings) -> None:
    async with serving(*agents, settings=settings) as up, panel(up.url) as client:
        whole = await three_turns(client, "t")
        async with httpx.AsyncClient(base_url=up.url) as http:
            at = {"messageId": whole["messages"][1]["id"], "sessionId": "f", "agent": "echo"}
            assert (await http.post("/sessions/t/fork", json=at)).status_code == 201
        await client.tell(
            "open", name="fork", thread="f", agent="echo", messages=await client.messages("f", agent="echo")
        )
        forked = await client.run("fork", say="TWO")
        assert forked["messages"][-1]["content"] == "3 messages: u a u; TWO"
        await agrees(client, forked, "f")
        await agrees(client, whole, "t")


async def state_of(client: Panel, thread: str) -> Any:
    """The session's state as the server has it."""
    answer = await client.tell("get", path=f"/sessions/{thread}")
    return answer["body"]["state"]


async def test_a_state_that_tools_change_is_the_clients_too(settings: Settings) -> None:
    async with at_a_panel(settings) as client:
        await client.tell("open", name="page", thread="t", agent="worker")
        first = await client.run("page", say="note a b c")
        assert first["state"] == {"words": ["a", "b", "c"], "count": 3} == await state_of(client, "t")
        told = [each for each in first["events"] if each.startswith("STATE_")]
        assert told == ["STATE_SNAPSHOT", "STATE_DELTA", "STATE_DELTA"]
        second = await client.run("page", say="nothing")
        assert second["state"] == first["state"], "sent back, it stays"
        assert not [each for each in second["events"] if each.startswith("STATE_")]
        third = await client.run("page", say="note d")
        assert third["state"] == {"words": ["a", "b", "c", "d"], "count": 4} == await state_of(client, "t")


async def test_a_fresh_client_is_given_the_sessions_state(settings: Settings) -> None:
    async with at_a_panel(settings) as client:
        await client.tell("open", name="page", thread="t", agent="worker")
        first = await client.run("page", say="note a")
        for name, given in (("fresh", {}), ("null", None)):
            await client.tell("open", name=name, thread="t", agent="worker", state=given)
            fresh = await client.run(name, say="nothing")
            assert fresh["state"] == first["state"]
            assert fresh["events"][1] == "STATE_SNAPSHOT"


async def test_a_state_that_the_client_changes_is_what_the_tools_see(settings: Settings) -> None:
    async with at_a_panel(settings) as client:
        await client.tell("open", name="page", thread="t", agent="worker", state={"words": ["mine"], "count": 7})
        first = await client.run("page", say="note a")
        assert first["state"] == {"words": ["mine", "a"], "count": 8} == await state_of(client, "t")
        second = await client.run("page", say="note b", state={"words": [], "count": 0})
        assert second["state"] == {"words": ["b"], "count": 1} == await state_of(client, "t")


async def test_a_tool_writes_into_the_empty_state_of_a_fresh_client(settings: Settings) -> None:
    async with at_a_panel(settings) as client:
        await client.tell("open", name="page", thread="t", agent="worker")
        run = await client.run("page", say="tally a a")
        assert run["messages"][-1]["content"] == "ok: 1\nok: 2\n"
        assert run["state"] == {"a": 2} == await state_of(client, "t")


async def test_a_tool_that_fails_changes_no_state(settings: Settings) -> None:
    async with at_a_panel(settings) as client:
        await client.tell("open", name="page", thread="t", agent="worker", state={"a": 1})
        run = await client.run("page", say="spoil it")
        assert run["messages"][-1]["content"] == "error: Error: spoilt\n"
        assert run["state"] == {"a": 1} == await state_of(client, "t")


@pytest.mark.parametrize(
    "values",
    [
        ['{"a":1}', '{"a":true}', '{"a":1.5}', '{"a":"1"}', '{"a":null}', "{}"],
        ['{"a":0}', '{"a":false}', '{"a":""}', '{"a":[]}', '{"a":{}}'],
        ["[1,2]", "[2]", '{"list":[1,2,3,4]}', '{"list":[4,1,3]}', '"text"', "0", "false", "null", '{"b":1}'],
        ['{"a/b":{"c~d":1}}', '{"a/b":{"c~d":2,"":3}}', '{"":{"":1}}', '{"船":"在哪里"}'],
    ],
    ids=["number", "falsy", "kinds", "names"],
)
async def test_every_change_of_state_arrives_as_it_is(settings: Settings, values: list[str]) -> None:
    async with at_a_panel(settings) as client:
        await client.tell("open", name="page", thread="t", agent="worker")
        run = await client.run("page", say=" ".join(["put", *values]))
        states = [json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in run["states"]]
        assert states == values
        stored = await state_of(client, "t")
        assert json.dumps(stored) == json.dumps(run["state"])

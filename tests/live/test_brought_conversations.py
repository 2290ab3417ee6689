"""What a client brings of a conversation reaches the model as the client has it: late results, and who is speaking."""

from typing import Any

import httpx
import pytest

from agent_core import Agent
from agent_core.models.openai_chat import OpenAIChat
from tests.agent_core.react.agents import add
from tests.live.strict_peer import strict
from tests.live.test_openai import PICK, ask
from tests.scripted import ScriptedUpstream, answer, done, finish, says, tool_call
from tests.serving import run, run_input, serving

PATH = "/v1/chat/completions"


def agent_on(up: ScriptedUpstream) -> Agent:
    return Agent("a", OpenAIChat("m", api_key="k", base_url=up.base_url), tools=[add])


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("hidden", [False, True], ids=["all of it is the client's", "half of it is the server's"])
@pytest.mark.parametrize("session", [False, True], ids=["unnamed", "named"])
async def test_a_result_behind_a_message_of_the_user_is_used(session: bool, hidden: bool, streamed: bool) -> None:
    ours = tool_call("add", '{"a": 1, "b": 2}', id="c0", index=1) if hidden else b""
    asked = answer(tool_call("pick_colour", "{}", id="c1"), ours, finish("tool_calls"), done())
    headers = {"x-session-id": "s1"} if session else {}
    async with (
        ScriptedUpstream(strict(asked, says("so"))) as up,
        serving(agent_on(up)) as server,
        httpx.AsyncClient(base_url=server.url, headers=headers, timeout=20) as http,
    ):
        message = (await http.post(PATH, json=ask("go", tools=[PICK]))).json()["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "blue"}
        body = ask("go", message, "hurry", result, tools=[PICK], stream=streamed)
        assert "so" in (await http.post(PATH, json=body)).text
    sent = [(each["role"], each["content"]) for each in up.requests[1].body["messages"]]
    assert ("tool", "blue") in sent
    assert sent[-1] == ("user", "hurry")
    assert "Not run" not in str(sent)


async def test_ids_that_come_again_are_the_same_in_every_request() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "pick_colour", "arguments": "{}"}}
    said: list[Any] = ["go"]
    for colour in ("blue", "red"):
        said += [{"role": "assistant", "content": None, "tool_calls": [call]}]
        said += [{"role": "tool", "tool_call_id": "c1", "content": colour}]
    async with (
        ScriptedUpstream(strict(says("so"))) as up,
        serving(agent_on(up)) as server,
        httpx.AsyncClient(base_url=server.url) as http,
    ):
        for _ in range(2):
            assert (await http.post(PATH, json=ask(*said, tools=[PICK]))).status_code == 200
    first, second = (request.body["messages"] for request in up.requests)
    assert first == second


NAMES = [("ann", {"content": "hi", "name": "ann"}), ("Ann Bell", {"content": "[from Ann Bell]\nhi"})]


@pytest.mark.parametrize(("name", "sent"), NAMES)
@pytest.mark.parametrize("way", ["agui", "unnamed", "named"])
async def test_the_name_of_who_is_speaking_reaches_the_model(way: str, name: str, sent: dict[str, str]) -> None:
    async with ScriptedUpstream(strict(says("so"))) as up, serving(agent_on(up)) as server:
        message = {"role": "user", "content": "hi", "name": name}
        if way == "agui":
            await run(server.url, run_input(messages=[message | {"id": "u1"}]))
        else:
            headers = {"x-session-id": "s1"} if way == "named" else {}
            async with httpx.AsyncClient(base_url=server.url, headers=headers) as http:
                assert (await http.post(PATH, json=ask(message))).status_code == 200
    assert up.requests[0].body["messages"] == [{"role": "user", **sent}]

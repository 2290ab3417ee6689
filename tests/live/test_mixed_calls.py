"""A call that a person must approve and one that is the client's, in one answer, on the OpenAI endpoint."""

from typing import Any

import httpx
import pytest

from agent_core import Agent, Guards, tool
from tests.doubles import ScriptedModel, calls, says
from tests.serving import serving


@tool(approval=True)
def send(to: str) -> str:
    """Sends."""
    return f"sent to {to}"


async def test_the_client_is_told_of_its_own_call_and_when_it_is_its_turn() -> None:
    pick = {"type": "function", "function": {"name": "pick", "parameters": {"type": "object", "properties": {}}}}
    said = {"role": "user", "content": "go"}
    asked = {"model": "a", "messages": [said], "tools": [pick]}
    model = ScriptedModel(
        [*[calls(("send", '{"to":"ann"}'), ("pick", "{}"))] * 2, says("done")],
    )
    async with (
        serving(Agent("a", model, tools=[send])) as up,
        httpx.AsyncClient(base_url=up.url, headers={"x-session-id": "s1"}) as http,
    ):
        first = (await http.post("/v1/chat/completions", json=asked)).json()
        about = first["x_agent"]
        assert (about["status"], about["waiting"]) == ("approval", ["call_pick_1"])
        assert "tool_calls" not in first["choices"][0]["message"]
        streamed = await http.post(
            "/v1/chat/completions", json=asked | {"stream": True}, headers={"x-session-id": "other"}
        )
        assert "tool_calls" not in streamed.text, "it is not its turn yet"
        assert '"waiting":["call_pick_1"]' in streamed.text
        answer = {"interruptId": about["interrupts"][0]["id"], "status": "resolved", "payload": {"approved": True}}
        resumed = (await http.post("/sessions/s1/resume", json={"answers": [answer]})).json()
        assert (resumed["status"], resumed["waiting"]) == ("client_tools", ["call_pick_1"])
        result = {"role": "tool", "tool_call_id": "call_pick_1", "content": "red"}
        last = await http.post("/v1/chat/completions", json=asked | {"messages": [said, result]})
        assert last.json()["choices"][0]["message"]["content"] == "done"
    assert [m.text for m in model.requests[-1].messages if m.role == "tool"] == ["sent to ann", "red"]


PICK = {
    "type": "function",
    "function": {
        "name": "pick",
        "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    },
}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("headers", [{"x-session-id": "s1"}, {}], ids=["named", "unnamed"])
async def test_a_call_that_a_guard_blocks_is_never_the_client_s(headers: dict[str, str], streamed: bool) -> None:
    messages: list[Any] = [{"role": "user", "content": "go"}]
    asked = {"model": "a", "messages": messages, "tools": [PICK]}
    model = ScriptedModel([*[calls(("pick", '{"n": 1}'))] * 3, says("that is all")])
    async with (
        serving(Agent("a", model, guards=Guards(calls_per_tool=2))) as up,
        httpx.AsyncClient(base_url=up.url, headers=headers, timeout=20) as http,
    ):
        for _ in range(2):
            message = (await http.post("/v1/chat/completions", json=asked)).json()["choices"][0]["message"]
            [call] = message["tool_calls"]
            messages += [message, {"role": "tool", "tool_call_id": call["id"], "content": "red"}]
        last = await http.post("/v1/chat/completions", json=asked | {"stream": streamed})
    assert "tool_calls" not in last.text
    assert "that is all" in last.text
    assert len(model.requests) == 4

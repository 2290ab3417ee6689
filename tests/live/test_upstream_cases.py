"""One table of upstream streams through every endpoint: what is told and done is the same, streamed and whole."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from agent_core import Agent
from agent_core.context import ToolContext
from agent_core.models.openai_chat import OpenAIChat
from agent_core.tools.base import ToolSpec
from tests.live.strict_peer import strict
from tests.live.upstream_cases import CASES, LATER, LONG, SAID_LATER, SCHEMA, Case
from tests.scripted import ScriptedUpstream
from tests.serving import frames_of, opened, run_input, serving

Call = tuple[str, dict[str, Any]]
Told = dict[str, Any]
SPEC = {"name": "f", "description": "", "parameters": SCHEMA}


@dataclass
class Noting:
    """The tool as the server's own: it notes what it is called with."""

    called: list[Call] = field(default_factory=list)
    spec: ToolSpec = ToolSpec(name="f", description="", parameters=SCHEMA)
    timeout: float = 30.0
    approval: bool = False

    async def run(self, arguments: Any, context: ToolContext, threads: Any) -> str:
        self.called.append(("f", dict(arguments)))
        return "done"


async def over_agui(url: str, client: bool) -> Told:
    told: Told = {"content": "", "calls": [], "finish": None, "error": None}
    calls: dict[str, list[str]] = {}
    body = run_input("go", tools=[SPEC] if client else [])
    async with opened(url, body) as response:
        async for frame in frames_of(response):
            match frame["type"]:
                case "TEXT_MESSAGE_START":
                    told["content"] += "\n\n" if told["content"] else ""
                case "TEXT_MESSAGE_CONTENT":
                    told["content"] += frame["delta"]
                case "TOOL_CALL_START":
                    calls[frame["toolCallId"]] = [frame["toolCallName"], ""]
                case "TOOL_CALL_ARGS":
                    calls[frame["toolCallId"]][1] += frame["delta"]
                case "TOOL_CALL_RESULT":
                    del calls[frame["toolCallId"]]
                case "RUN_ERROR":
                    told["error"] = frame["code"]
                case "RUN_FINISHED":
                    told["finish"] = frame["result"].get("finishReason", "tool_calls" if calls else "stop")
    told["calls"] = [(name, json.loads(arguments)) for name, arguments in calls.values()]
    return told


def body_of(client: bool, streamed: bool) -> dict[str, Any]:
    tools = {"tools": [{"type": "function", "function": SPEC}]} if client else {}
    return {"model": "a", "messages": [{"role": "user", "content": "go"}], "stream": streamed, **tools}


async def streamed(url: str, client: bool, **headers: str) -> Told:
    async with httpx.AsyncClient(timeout=20) as http:
        response = await http.post(f"{url}/v1/chat/completions", json=body_of(client, True), headers=headers)
    if response.status_code != 200:
        return failed(response.json())
    told: Told = {"content": "", "calls": [], "finish": None, "error": None}
    calls: list[list[str]] = []
    for block in response.text.split("\n\n")[:-1]:
        if block == "data: [DONE]":
            continue
        chunk = json.loads(block.removeprefix("data: "))
        if "error" in chunk:
            return failed(chunk)
        [choice] = chunk["choices"]
        told["content"] += choice["delta"].get("content", "")
        for delta in choice["delta"].get("tool_calls", ()):
            if "id" in delta:
                calls.append([delta["function"]["name"], ""])
            calls[delta["index"]][1] += delta["function"]["arguments"]
        told["finish"] = choice["finish_reason"] or told["finish"]
    told["calls"] = [(name, json.loads(arguments)) for name, arguments in calls]
    return told


async def whole(url: str, client: bool, **headers: str) -> Told:
    async with httpx.AsyncClient(timeout=20) as http:
        response = await http.post(f"{url}/v1/chat/completions", json=body_of(client, False), headers=headers)
    if response.status_code != 200:
        return failed(response.json())
    [choice] = response.json()["choices"]
    message = choice["message"]
    functions = [call["function"] for call in message.get("tool_calls", ())]
    return {
        "content": message["content"] or "",
        "calls": [(each["name"], json.loads(each["arguments"])) for each in functions],
        "finish": choice["finish_reason"],
        "error": None,
    }


def failed(body: Any) -> Told:
    return {"content": None, "calls": [], "finish": None, "error": body["error"]["code"]}


WAYS: dict[str, Callable[[str, bool], Any]] = {
    "agui": over_agui,
    "streamed": streamed,
    "whole": whole,
    "streamed in a session": lambda url, client: streamed(url, client, **{"x-session-id": "s1"}),
    "whole in a session": lambda url, client: whole(url, client, **{"x-session-id": "s1"}),
}


@asynccontextmanager
async def world(case: Case, client: bool) -> AsyncIterator[tuple[str, Noting, ScriptedUpstream]]:
    tool = Noting()
    async with ScriptedUpstream(strict(case.reply, LATER, own=(LONG,))) as up:
        model = OpenAIChat("m", api_key="k", base_url=up.base_url)
        agent = Agent("a", model, tools=[] if client else [tool], max_retries=0)
        async with serving(agent) as server:
            yield server.url, tool, up


async def told_by(way: str, case: Case, client: bool) -> tuple[Told, list[Call], ScriptedUpstream]:
    async with world(case, client) as (url, tool, up):
        return await WAYS[way](url, client), tool.called, up


KNOWN = [name for name, case in CASES.items() if case.text is not None]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", KNOWN)
async def test_a_client_is_told_of_the_calls_that_were_accepted_and_of_no_others(name: str, way: str) -> None:
    case = CASES[name]
    told, _, up = await told_by(way, case, True)
    goes_on = bool(case.refused) and not case.calls
    assert told["error"] is None
    assert told["content"] == "\n\n".join(filter(None, (case.text, SAID_LATER if goes_on else "")))
    assert told["calls"] == list(case.calls)
    assert told["finish"] == ("tool_calls" if case.calls else "stop" if goes_on else case.finish)
    assert len(up.requests) == 1 + goes_on
    if goes_on:
        results = [each for each in up.requests[1].body["messages"] if each["role"] == "tool"]
        assert len(results) == case.refused


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", KNOWN)
async def test_a_server_s_tool_runs_as_often_as_it_was_asked_for(name: str, way: str) -> None:
    case = CASES[name]
    told, called, up = await told_by(way, case, False)
    goes_on = bool(case.calls or case.refused)
    assert told["error"] is None
    assert called == list(case.calls)
    assert told["content"] == "\n\n".join(filter(None, (case.text, SAID_LATER if goes_on else "")))
    assert (told["calls"], told["finish"]) == ([], "stop" if goes_on else case.finish)
    assert len(up.requests) == 1 + goes_on


@pytest.mark.parametrize("client", [True, False])
@pytest.mark.parametrize("name", CASES)
async def test_the_streamed_and_the_whole_answer_say_the_same(name: str, client: bool) -> None:
    said = [(await told_by(way, CASES[name], client))[:2] for way in WAYS if way != "agui"]
    assert all(each == said[0] for each in said)

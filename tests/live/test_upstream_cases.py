"""One table of upstream streams through every endpoint: what is told and done is the same, streamed and whole."""

import json
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
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


TOOL = ToolSpec(name="f", description="", parameters=SCHEMA)


@dataclass
class Noting:
    """The tool as the server's own: it notes what it is called with."""

    called: list[Call] = field(default_factory=list)
    spec: ToolSpec = TOOL
    timeout: float = 30.0
    approval: bool = False
    idempotent: bool = False
    exclusive: bool = False
    repeatable: bool = False

    async def run(self, arguments: Mapping[str, Any], context: ToolContext, threads: Executor) -> str:
        self.called.append(("f", dict(arguments)))
        return "done"


async def over_agui(url: str, agent: str, client: bool) -> Told:
    told: Told = {"content": "", "calls": [], "finish": None, "error": None}
    calls: dict[str, list[str]] = {}
    body = run_input("go", thread=agent, tools=[SPEC] if client else [])
    async with opened(url, body, f"/agui/{agent}") as response:
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


def body_of(agent: str, client: bool, streamed: bool) -> dict[str, Any]:
    tools = {"tools": [{"type": "function", "function": SPEC}]} if client else {}
    return {"model": agent, "messages": [{"role": "user", "content": "go"}], "stream": streamed, **tools}


async def streamed(url: str, agent: str, client: bool, **headers: str) -> Told:
    async with httpx.AsyncClient(timeout=20) as http:
        response = await http.post(f"{url}/v1/chat/completions", json=body_of(agent, client, True), headers=headers)
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


async def whole(url: str, agent: str, client: bool, **headers: str) -> Told:
    async with httpx.AsyncClient(timeout=20) as http:
        response = await http.post(f"{url}/v1/chat/completions", json=body_of(agent, client, False), headers=headers)
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


async def streamed_in_a_session(url: str, agent: str, client: bool) -> Told:
    return await streamed(url, agent, client, **{"x-session-id": agent})


async def whole_in_a_session(url: str, agent: str, client: bool) -> Told:
    return await whole(url, agent, client, **{"x-session-id": agent})


WAYS: dict[str, Callable[[str, str, bool], Awaitable[Told]]] = {
    "agui": over_agui,
    "streamed": streamed,
    "whole": whole,
    "streamed-session": streamed_in_a_session,
    "whole-session": whole_in_a_session,
}
"""Each has an agent of its name, with a session and an upstream of its own."""


@dataclass(frozen=True)
class Seen:
    """What a client was told, what the server's tool was called with, and what the upstream was asked."""

    told: Told
    called: list[Call]
    asked: list[Any]


async def see(case: Case, *, client: bool) -> dict[str, Seen]:
    """The case by each way."""
    tools = {way: Noting() for way in WAYS}
    scripts = {way: strict(case.reply, LATER, own=(LONG,)) for way in WAYS}
    async with ScriptedUpstream(lambda body: scripts[body["model"]](body)) as up:
        agents = [
            Agent(
                way,
                OpenAIChat(way, api_key="k", base_url=up.base_url),
                tools=[] if client else [tools[way]],
                max_retries=0,
            )
            for way in WAYS
        ]
        async with serving(*agents) as server:
            told = {way: await ask(server.url, way, client) for way, ask in WAYS.items()}
        bodies = [request.body for request in up.requests]
    return {way: Seen(told[way], tools[way].called, [body for body in bodies if body["model"] == way]) for way in WAYS}


def check(case: Case, seen: Seen, *, client: bool) -> None:
    goes_on = bool(case.refused or case.calls) if not client else bool(case.refused and not case.calls)
    waits = case.calls if client else ()
    finish = "tool_calls" if waits else "stop" if goes_on else case.finish
    assert seen.told == {
        "content": "\n\n".join(filter(None, (case.text, SAID_LATER if goes_on else ""))),
        "calls": list(waits),
        "finish": finish,
        "error": None,
    }
    assert seen.called == ([] if client else list(case.calls))
    assert len(seen.asked) == 1 + goes_on
    if goes_on:
        results = [each for each in seen.asked[1]["messages"] if each["role"] == "tool"]
        assert len(results) == case.refused + len(case.calls)


@pytest.mark.parametrize("client", [True, False], ids=["a client's tool", "a server's tool"])
@pytest.mark.parametrize("name", CASES)
async def test_every_endpoint_tells_the_same_of_an_upstream_stream(name: str, client: bool) -> None:
    case = CASES[name]
    seen = await see(case, client=client)
    if case.text is not None:
        for each in seen.values():
            check(case, each, client=client)
    first, *others = [each for way, each in seen.items() if way != "agui"]
    for each in others:
        assert (each.told, each.called) == (first.told, first.called)

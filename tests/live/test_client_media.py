"""What a client's own tool returns beside text: an image is kept in the history and reaches the model."""

import json
from typing import Any

import httpx
import pytest

from agent_core import Agent, Engine
from agent_core.messages import MediaPart, Message, Part, TextPart
from agent_core.models.openai_chat import OpenAIChat
from agent_core.run_input import RunInput
from agent_core.tools.base import ToolSpec
from app.settings import Settings
from tests.scripted import ScriptedUpstream, calls, says
from tests.serving import run, run_input, serving

DATA = "iVBORw0KGgo="
URL = f"data:image/png;base64,{DATA}"
SPEC: dict[str, Any] = {"name": "shoot", "description": "", "parameters": {"type": "object", "properties": {}}}
AGUI = {"type": "image", "source": {"type": "data", "value": DATA, "mimeType": "image/png"}}
OPENAI = {"type": "image_url", "image_url": {"url": URL}}
CONTENT = [{"type": "text", "text": "the page"}]


def upstream() -> ScriptedUpstream:
    return ScriptedUpstream([calls("shoot", "{}", id="c1"), says("seen")])


def model_of(up: ScriptedUpstream, **members: Any) -> OpenAIChat:
    return OpenAIChat("m", api_key="k", base_url=up.base_url, **members)


async def over_agui(url: str, texts: list[dict[str, Any]]) -> None:
    first = run_input("look", tools=[SPEC])
    await run(url, first)
    result = {"id": "t1", "role": "tool", "toolCallId": "c1", "content": [*texts, AGUI]}
    await run(url, run_input(tools=[SPEC], messages=[*first["messages"], result]))


async def over_openai(url: str, texts: list[dict[str, Any]], *, session: bool, streamed: bool) -> None:
    said: list[dict[str, Any]] = [{"role": "user", "content": "look"}]
    body = {"model": "a", "messages": said, "tools": [{"type": "function", "function": SPEC}]}
    async with httpx.AsyncClient(base_url=url, headers={"x-session-id": "t1"} if session else {}) as http:
        asked = (await http.post("/v1/chat/completions", json=body)).json()["choices"][0]["message"]
        call_id = asked["tool_calls"][0]["id"]
        said += [asked, {"role": "tool", "tool_call_id": call_id, "content": [*texts, OPENAI]}]
        answer = await http.post("/v1/chat/completions", json=body | {"stream": streamed})
        assert answer.status_code == 200, answer.text


async def take(way: str, url: str, texts: list[dict[str, Any]]) -> None:
    if way == "agui":
        await over_agui(url, texts)
    else:
        await over_openai(url, texts, session="session" in way, streamed="streamed" in way)


WAYS = ["agui", "openai", "openai streamed", "openai session", "openai session streamed"]


@pytest.mark.parametrize("texts", [[], CONTENT], ids=["alone", "with text"])
@pytest.mark.parametrize("way", WAYS)
async def test_an_image_that_the_clients_tool_returned_reaches_the_model(way: str, texts: list[dict[str, Any]]) -> None:
    async with upstream() as up, serving(Agent("a", model_of(up))) as server:
        await take(way, server.url, texts)
    messages = up.requests[1].body["messages"]
    [result] = [each for each in messages if each["role"] == "tool"]
    assert result["content"] == "\n".join([*(each["text"] for each in texts), "[image 1 follows]"])
    label = {"type": "text", "text": "[image 1, from the tool shoot]"}
    assert messages[-1] == {"role": "user", "content": [label, OPENAI]}


@pytest.mark.parametrize("way", ["agui", "openai session"])
async def test_it_is_kept_shown_and_exported_like_that_of_a_servers_tool(way: str) -> None:
    async with (
        upstream() as up,
        serving(Agent("a", model_of(up)), settings=Settings()) as server,
        httpx.AsyncClient(base_url=server.url) as http,
    ):
        await take(way, server.url, CONTENT)
        shown = (await http.get("/sessions/t1/messages")).json()["messages"]
        lines = (await http.get("/sessions/t1/export")).text.splitlines()
    [result] = [each for each in shown if each["role"] == "tool"]
    assert result["content"] == [*CONTENT, AGUI]
    bodies = [json.loads(line)["body"] for line in lines[1:]]
    [kept] = [each["message"] for each in bodies if each.get("message", {}).get("role") == "tool"]
    assert [part.get("value", part.get("text")) for part in kept["content"]] == ["the page", DATA]


async def test_a_failure_is_told_beside_its_image() -> None:
    async with upstream() as up, serving(Agent("a", model_of(up))) as server:
        first = run_input("look", tools=[SPEC])
        await run(server.url, first)
        result = {"id": "t1", "role": "tool", "toolCallId": "c1", "content": [AGUI], "error": "no focus"}
        await run(server.url, run_input(tools=[SPEC], messages=[*first["messages"], result]))
    [result] = [each for each in up.requests[1].body["messages"] if each["role"] == "tool"]
    assert result["content"] == "Error:\nno focus\n[image 1 follows]"


PICTURE = MediaPart(kind="image", source="data", value=DATA, mime_type="image/png")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ((TextPart(text="a"), PICTURE), "a\n[image 1 follows]"),
        ((TextPart(text=""),), "(the client returned nothing)"),
    ],
)
async def test_parts_count_in_the_library_too(content: tuple[Part, ...], told: str) -> None:
    tools = (ToolSpec(name="shoot", description="", parameters=SPEC["parameters"]),)
    async with upstream() as up, Engine() as engine:
        session, agent = engine.session("u", "s"), Agent("a", model_of(up))
        asked = Message(id="u1", role="user", content="look")
        await session.call(agent, RunInput(messages=(asked,), tools=tools))
        result = Message(id="t1", role="tool", tool_call_id="c1", content=content)
        await session.call(agent, RunInput(messages=(result,), tools=tools))
    [shown] = [each for each in up.requests[1].body["messages"] if each["role"] == "tool"]
    assert shown["content"] == told

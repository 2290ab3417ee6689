"""The routes that tell of the server: its agents, its health, its page."""

from collections.abc import AsyncIterator

import httpx
import pytest

from agent_core import Agent, tool
from app.main import create_app
from app.settings import Settings
from tests.app.doubles import Running, running


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return word


AGENTS = [Agent("one", "fake:fake", tools=[look_up], description="The first."), Agent("two", "openai:x")]


@pytest.fixture
async def up() -> AsyncIterator[Running]:
    settings = Settings()
    async with running(create_app(settings, agents=AGENTS), settings) as server:
        yield server


async def get(up: Running, path: str) -> httpx.Response:
    async with httpx.AsyncClient() as http:
        return await http.get(up.url + path)


async def test_the_agents_are_listed_with_their_tools(up: Running) -> None:
    assert (await get(up, "/agents")).json() == {
        "agents": [
            {
                "name": "one",
                "description": "The first.",
                "model": "fake:fake",
                "default": True,
                "tools": [{"name": "look_up", "description": "Look a word up."}],
            },
            {"name": "two", "description": "", "model": "openai:x", "default": False, "tools": []},
        ]
    }


async def test_a_living_server_is_healthy_and_ready(up: Running) -> None:
    for path, status in (("/healthz", "ok"), ("/readyz", "ready")):
        response = await get(up, path)
        assert (response.status_code, response.json()) == (200, {"status": status})


async def test_a_draining_server_is_healthy_but_not_ready(up: Running) -> None:
    up.server.app.state.services.runs.draining = True
    assert (await get(up, "/healthz")).status_code == 200
    response = await get(up, "/readyz")
    assert (response.status_code, response.json()["error"]["code"]) == (503, "draining")
    assert response.headers["retry-after"] == "5"


async def test_a_draining_server_takes_no_new_runs(up: Running) -> None:
    up.server.app.state.services.runs.draining = True
    body = {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "hi"}]}
    async with httpx.AsyncClient() as http:
        response = await http.post(f"{up.url}/agui", json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "draining")


async def test_probes_may_ask_with_head(up: Running) -> None:
    async with httpx.AsyncClient() as http:
        response = await http.head(f"{up.url}/healthz")
    assert (response.status_code, response.content) == (200, b"")


async def test_the_page_names_its_agents_and_has_a_strict_policy(up: Running) -> None:
    response = await get(up, "/")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["content-security-policy"].startswith("default-src 'none'")
    assert f"{up.url}/agui/two" in response.text

"""OpenAI's SDK and AG-UI's client in a page of another origin, with headers that the browser asks about first."""

from typing import Any

import pytest

from agent_core import Agent
from app.settings import Settings
from tests.clients.browser import Browser
from tests.clients.chat_pages import KEY
from tests.doubles import ScriptedModel, says
from tests.serving import serving

HEADERS = {"X-Tenant": "one", "x-mine": "1"}


async def hello(browser: Browser, client: str, origins: str) -> dict[str, Any]:
    """What a page is told that asks a server which such origins may call."""
    settings = Settings(store="memory", api_keys=f"ann:{KEY}", allowed_origins=origins)  # type: ignore[arg-type]
    async with serving(Agent("a", ScriptedModel([says("hello")])), settings=settings) as up:
        tab = await browser.open("openai", up.url, agent="a", thread="t", key=KEY)
        told: dict[str, Any] = await browser.tell("call", name=tab.name, client=client, headers=HEADERS)
        await browser.tell("close", name=tab.name)
    return told


async def test_openais_sdk_may_send_its_headers_and_read_the_requests_id(browser: Browser) -> None:
    told = await hello(browser, "openai", browser.origin)
    assert told["text"] == "hello"
    assert told["requestId"].startswith("req_")


async def test_aguis_client_may_send_any_header(browser: Browser) -> None:
    assert await hello(browser, "agui", browser.origin) == {"text": "hello"}


@pytest.mark.parametrize("client", ["openai", "agui"])
async def test_a_page_of_another_origin_gets_nothing(browser: Browser, client: str) -> None:
    told = await hello(browser, client, "http://localhost:1")
    assert "text" not in told
    assert told["status"] is None

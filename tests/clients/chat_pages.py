"""A chat in a tab of the browser, and the agent that it talks to, which is part of the test's own server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from app.settings import Settings
from tests.clients.browser import Browser, Tab
from tests.live.clerk import Clerk, Seen
from tests.serving import serving

KEY = "0123456789abcdef0123"

clients = pytest.mark.parametrize("client", ["copilotkit", "assistant_ui"])


@dataclass
class Desk:
    """A tab with a chat, the agent that it talks to, and what its tools have done."""

    tab: Tab
    clerk: Clerk
    url: str
    client: str

    @property
    def done(self) -> list[str]:
        return self.clerk.done

    async def stored(self) -> list[dict[str, Any]]:
        """The session's messages as the server has them."""
        async with httpx.AsyncClient(headers={"authorization": f"Bearer {KEY}"}) as http:
            answer = await http.get(f"{self.url}/sessions/t/messages")
        found: list[dict[str, Any]] = answer.json()["messages"]
        return found

    async def edit(self, old: str, new: str, *, anew: bool = False) -> None:
        """Change what was said; `anew` under another id, as assistant-ui always does."""
        if self.client == "copilotkit":
            await self.tab.act({"press": "edit-anew" if anew else "edit", "of": old}, {"say": new})
        else:
            await self.tab.act({"press": "edit", "of": old}, {"edit": new}, {"press": "save"})

    def said(self) -> Seen:
        """What the page shows of the user's and the agent's words."""
        return [each for each in self.tab.said("user", "assistant") if each[1]]


@asynccontextmanager
async def desk(browser: Browser, client: str) -> AsyncIterator[Desk]:
    """A chat of another origin than the server's, with a key and a header that nobody here knows."""
    clerk = Clerk()
    settings = Settings(store="memory", api_keys=f"ann:{KEY}", allowed_origins=browser.origin)  # type: ignore[arg-type]
    headers = f'{{"authorization":"Bearer {KEY}","x-tenant":"one"}}'
    async with serving(clerk.agent(), settings=settings) as up:
        asked = {"agent": "clerk", "thread": "t", "headers": headers, "arguments": '{"word":"zed"}'}
        tab = await browser.open(client, up.url, **asked)
        try:
            yield Desk(tab, clerk, up.url, client)
        finally:
            await browser.tell("close", name=tab.name)


def user(text: str) -> tuple[str, str]:
    return ("user", text)


def answer(text: str) -> tuple[str, str]:
    return ("assistant", text)


def result(text: str) -> tuple[str, str]:
    return ("tool", text)


CALLED = answer("")

"""A chat in a tab of the browser, and the agent that it talks to, which is part of the test's own server."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from agent_core import Agent, tool
from agent_core.models.base import ArgumentsPiece, CallPiece, ModelRequest, Piece, TextPiece, ThinkingPiece
from agent_core.models.http import HttpClient
from app.settings import Settings
from tests.clients.browser import Browser, Tab
from tests.serving import serving

KEY = "0123456789abcdef0123"
Seen = list[tuple[str, str]]

clients = pytest.mark.parametrize("client", ["copilotkit", "assistant_ui"])


@dataclass
class Clerk:
    """Calls what the last user message asks for, `mail:ann note:x`, then tells the results; else it answers with the
    number of its answer and that message. `slow` is answered in half. `seen` is what it saw each time."""

    seen: list[Seen] = field(default_factory=list)
    provider: str = "test"
    name: str = "clerk"

    async def stream(self, request: ModelRequest, http: HttpClient) -> AsyncGenerator[Piece, None]:
        self.seen.append([(each.role, each.text) for each in request.messages])
        at = max(n for n, message in enumerate(request.messages) if message.role == "user")
        text = request.messages[at].text
        results = [message.text for message in request.messages[at + 1 :] if message.role == "tool"]
        if ":" in text and not results:
            for index, asked in enumerate(text.split()):
                name, _, word = asked.partition(":")
                yield CallPiece(index, f"call_{len(self.seen)}_{index}", name)
                yield ArgumentsPiece(index, f'{{"word":"{word}"}}')
            return
        yield ThinkingPiece("hm")
        yield TextPiece(f"{len(self.seen)}. {' / '.join(results) or text}")
        if text == "slow":
            await asyncio.Event().wait()


@dataclass
class Desk:
    """A tab with a chat, the agent that it talks to, and what its tools have done."""

    tab: Tab
    clerk: Clerk
    done: list[str]
    url: str
    client: str

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
    done: list[str] = []

    @tool(approval=True)
    def mail(word: str) -> str:
        """Write to somebody."""
        done.append(f"mail {word}")
        return f"{word} has mail"

    @tool
    def note(word: str) -> str:
        """Write a word down."""
        done.append(f"note {word}")
        return f"noted {word}"

    clerk = Clerk()
    agent = Agent("clerk", clerk, tools=[mail, note], instructions="")
    settings = Settings(store="memory", api_keys=f"ann:{KEY}", allowed_origins=browser.origin)  # type: ignore[arg-type]
    headers = f'{{"authorization":"Bearer {KEY}","x-tenant":"one"}}'
    async with serving(agent, settings=settings) as up:
        asked = {"agent": "clerk", "thread": "t", "headers": headers, "arguments": '{"word":"zed"}'}
        tab = await browser.open(client, up.url, **asked)
        try:
            yield Desk(tab, clerk, done, up.url, client)
        finally:
            await browser.tell("close", name=tab.name)


def user(text: str) -> tuple[str, str]:
    return ("user", text)


def answer(text: str) -> tuple[str, str]:
    return ("assistant", text)


def result(text: str) -> tuple[str, str]:
    return ("tool", text)


CALLED = answer("")

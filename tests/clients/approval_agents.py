"""An agent whose tools wait for a person or for something outside, and write down in the folder of the server what
they have done: that outlives a server that is killed."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

from agent_core.models.base import ArgumentsPiece, CallPiece, ModelRequest, Piece, TextPiece
from agent_core.models.http import HttpClient
from agent_core.tools.base import Pending
from ostinato import Agent, ToolContext, tool

DONE = "done.txt"


@dataclass(frozen=True, slots=True)
class Clerk:
    """Calls what the last user message asks for, `mail:ann order:tea`; then tells the results."""

    provider: str = "test"
    name: str = "clerk"

    async def stream(self, request: ModelRequest, http: HttpClient) -> AsyncGenerator[Piece, None]:
        at = max(n for n, message in enumerate(request.messages) if message.role == "user")
        results = [message.text for message in request.messages[at + 1 :] if message.role == "tool"]
        for index, asked in enumerate(request.messages[at].text.split() if not results else ()):
            name, _, word = asked.partition(":")
            yield CallPiece(index, f"call_{index}", name)
            yield ArgumentsPiece(index, json.dumps({"word": word}))
        if results:
            yield TextPiece(" / ".join(results))


def write(line: str) -> None:
    with Path(DONE).open("a") as file:
        file.write(f"{line}\n")


@tool(approval=True)
def mail(word: str, text: str = "hello") -> str:
    """Write to somebody."""
    write(f"mail {word} {text}")
    return f"{word} has mail"


@tool
def note(word: str) -> str:
    """Write a word down."""
    write(f"note {word}")
    return f"noted {word}"


@tool(approval=True, timeout=None)
async def dig(word: str) -> str:
    """Dig for something, for ever."""
    write(f"dig {word}")
    await asyncio.Event().wait()
    return word


@tool
def order(word: str, context: ToolContext) -> Pending:
    """Order something that is brought later."""
    write(f"order {word}")
    return Pending(operation_id=f"op-{word}", wait_id=context.call_id, retry_after=5)


agents = [Agent("clerk", Clerk(), tools=[mail, note, dig, order])]

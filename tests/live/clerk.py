"""An agent that does what it is told to: it shows what a conversation is for the model, and what its tools did."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from agent_core import Agent, tool
from agent_core.models.base import ArgumentsPiece, CallPiece, ModelRequest, Piece, TextPiece, ThinkingPiece
from agent_core.models.http import HttpClient

Seen = list[tuple[str, str]]


@dataclass
class Clerk:
    """Makes the calls that the last user message names, such as `mail:ann note:x`, and then tells the results. For any
    other message it answers with the number of its answer and that message. To `slow` it gives only half an answer.
    `seen` has the messages of each request."""

    seen: list[Seen] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
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

    def agent(self) -> Agent:
        """An agent with this model, and with tools that write down in `done` what they do."""

        @tool(approval=True)
        def mail(word: str) -> str:
            """Write to somebody."""
            self.done.append(f"mail {word}")
            return f"{word} has mail"

        @tool
        def note(word: str) -> str:
            """Write a word down."""
            self.done.append(f"note {word}")
            return f"noted {word}"

        return Agent("clerk", self, tools=[mail, note], instructions="")

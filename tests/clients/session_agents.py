"""Agents for the tests of sessions: one that tells what it was sent, one that keeps count in the session's
state and whose digging is never done, and one whose answer never ends. Served beside the demo's own.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from agent_core.models.base import ArgumentsPiece, CallPiece, ModelRequest, Piece, TextPiece
from agent_core.models.http import HttpClient
from app.demo.agents import clock, demo
from ostinato import Agent, ToolContext, ToolError, tool


@dataclass(frozen=True, slots=True)
class Echo:
    """Tells how many messages it was sent, and by whom, and repeats the last."""

    provider: str = "test"
    name: str = "echo"

    async def stream(self, request: ModelRequest, http: HttpClient) -> AsyncGenerator[Piece, None]:
        told = [(message.role[0], message.text) for message in request.messages if message.role != "system"]
        yield TextPiece(f"{len(told)} messages: ")
        yield TextPiece(" ".join(role for role, _ in told))
        yield TextPiece(f"; {told[-1][1]}")


@dataclass(frozen=True, slots=True)
class Worker:
    """Calls the tool that the last user message names, once for each word behind it; then tells the results."""

    provider: str = "test"
    name: str = "worker"

    async def stream(self, request: ModelRequest, http: HttpClient) -> AsyncGenerator[Piece, None]:
        at = max(n for n, message in enumerate(request.messages) if message.role == "user")
        tool, *words = request.messages[at].text.split()
        later = request.messages[at + 1 :]
        if not words:
            yield TextPiece("Nothing to do.")
        elif not later:
            for index, word in enumerate(words):
                yield CallPiece(index, f"call_{request.messages[at].id}_{index}", tool)
                yield ArgumentsPiece(index, json.dumps({"word": word}))
        for message in later:
            if message.role == "tool":
                yield TextPiece(f"{message.status}: {message.text}\n")


@dataclass(frozen=True, slots=True)
class Endless:
    """Begins an answer, and never comes to its end."""

    provider: str = "test"
    name: str = "endless"

    async def stream(self, request: ModelRequest, http: HttpClient) -> AsyncGenerator[Piece, None]:
        for number in range(10):
            yield TextPiece(f"{number} ")
        await asyncio.Event().wait()


@tool
def note(word: str, context: ToolContext) -> str:
    """Write a word down in the session's state."""
    if not context.state:
        context.set_state({"words": [], "count": 0})
    context.state["words"].append(word)
    context.state["count"] += 1
    return f"{context.state['count']} words"


@tool
def tally(word: str, context: ToolContext) -> int:
    """Count a word in the session's state, which is there already."""
    context.state[word] = context.state.get(word, 0) + 1
    return int(context.state[word])


@tool
def put(word: str, context: ToolContext) -> str:
    """Put another value in the place of the session's state."""
    context.set_state(json.loads(word))
    return "put"


@tool
def spoil(word: str, context: ToolContext) -> str:
    """Change the session's state, and fail."""
    context.set_state({"spoilt": word})
    raise ToolError("spoilt")


@tool(timeout=None)
async def dig(word: str) -> str:
    """Dig for something, for ever."""
    await asyncio.Event().wait()
    return word


echo = Agent("echo", Echo(), max_iterations=2)
worker = Agent("worker", Worker(), tools=[note, tally, put, spoil, dig])
endless = Agent("endless", Endless())

agents = [echo, worker, endless, demo, clock]

"""The agents that the fault tests serve: a model that does what it is told, and tools that leave traces.

The last user message is the program, one word a round:

- `say:5` answers in five pieces; `say:5:x` waits at the gate x before the last one (see gatehouse.py)
- `mark` calls the tool of that name, and `2*mark` calls it twice
- `hold:x` calls `hold`, which waits at the gate x

Each tool first writes its idempotency key to the file FAULTS_EFFECTS, so that a call that runs twice is seen.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from random import random

from agent_core.models.base import ArgumentsPiece, CallPiece, ModelRequest, Piece, TextPiece
from agent_core.models.http import HttpClient
from ostinato import Agent, ToolContext, tool

PACE = float(os.environ.get("FAULTS_PACE", "0.002"))
"""Seconds between two pieces of an answer, and in a tool, at most."""


@dataclass(frozen=True, slots=True)
class Obedient:
    """Carries the program out. How far it is, it sees from its own messages behind the program."""

    provider: str = "test"
    name: str = "obedient"

    async def stream(self, request: ModelRequest, http: HttpClient) -> AsyncGenerator[Piece, None]:
        at = max(n for n, message in enumerate(request.messages) if message.role == "user")
        program = request.messages[at]
        words = program.text.split()
        step = sum(message.role == "assistant" for message in request.messages[at + 1 :])
        what, _, argument = (words[step] if step < len(words) else "say:1").partition(":")
        if what == "say":
            number_of_pieces, _, gate = argument.partition(":")
            for number in range(int(number_of_pieces)):
                await asyncio.sleep(PACE * random())
                if gate and number == int(number_of_pieces) - 1:
                    await pass_gate(gate)
                yield TextPiece(f"{number} ")
            return
        yield TextPiece("so ")
        times, _, name = what.rpartition("*")
        for index in range(int(times or 1)):
            yield CallPiece(index, f"call_{program.id}_{step}_{index}_{name}", name)
            # No two calls are alike, because equal calls would look like a model that goes in circles.
            yield ArgumentsPiece(index, json.dumps({"name": argument or f"{program.id}.{step}.{index}"}))


async def pass_gate(name: str) -> None:
    """Return when the test says go."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["FAULTS_GATE"]))
    try:
        writer.write(f"{name}\n".encode())
        await reader.readline()
    finally:
        writer.close()


def leave_trace(context: ToolContext) -> str:
    """Write the call down, in one step that no other process can come between."""
    file = os.open(os.environ["FAULTS_EFFECTS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, f"{context.call_id} {context.idempotency_key}\n".encode())
    finally:
        os.close(file)
    return f"did {context.call_id}"


@tool
async def mark(name: str, context: ToolContext) -> str:
    """Leave a trace."""
    done = leave_trace(context)
    await asyncio.sleep(PACE * random())
    return done


@tool
def stamp(name: str, context: ToolContext) -> str:
    """Leave a trace, in a thread."""
    done = leave_trace(context)
    time.sleep(PACE * random())
    return done


@tool(idempotent=True)
async def remark(name: str, context: ToolContext) -> str:
    """Leave a trace, which may be left again after a crash."""
    done = leave_trace(context)
    await asyncio.sleep(PACE * random())
    return done


@tool(timeout=None)
async def hold(name: str, context: ToolContext) -> str:
    """Leave a trace, and wait at the gate."""
    done = leave_trace(context)
    await pass_gate(name)
    return done


@tool(timeout=None, idempotent=True)
async def rehold(name: str, context: ToolContext) -> str:
    """The same, and may do it again after a crash."""
    done = leave_trace(context)
    await pass_gate(name)
    return done


@tool(timeout=None, approval=True)
async def guarded(name: str, context: ToolContext) -> str:
    """The same, once a person has agreed."""
    done = leave_trace(context)
    await pass_gate(name)
    return done


worker = Agent("worker", Obedient(), tools=[mark, stamp, remark, hold, rehold, guarded], max_iterations=12)
plain = Agent("plain", "fake:fake")

agents = [worker, plain]

"""Test doubles for the engine: a model that follows a script, and a sink that keeps its events."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

from agent_core.agent import Agent
from agent_core.engine import Engine
from agent_core.events import Event
from agent_core.models.base import ArgumentsPiece, CallPiece, ModelRequest, Piece, TextPiece
from agent_core.models.http import HttpClient
from agent_core.run_input import Input


def calls(*asked: tuple[str, str]) -> list[Piece]:
    """An answer that asks for tools: (name, arguments) each."""
    pieces: list[Piece] = []
    for index, (name, arguments) in enumerate(asked):
        pieces.append(CallPiece(index, f"call_{name}_{index}", name))
        if arguments:
            pieces.append(ArgumentsPiece(index, arguments))
    return pieces


def says(*texts: str) -> list[Piece]:
    return [TextPiece(text) for text in texts]


Step = Sequence[Piece | Exception | asyncio.Event] | Callable[[ModelRequest], Sequence[Piece]]


@dataclass
class ScriptedModel:
    """Answers each call with one step of the script; the last step is repeated.

    An exception in a step is raised at its place. For an event in a step, the model waits.
    """

    steps: Sequence[Step]
    provider: str = "scripted"
    name: str = "model"
    requests: list[ModelRequest] = field(default_factory=list)
    streaming: asyncio.Event = field(default_factory=asyncio.Event)
    closed: int = 0

    async def stream(self, request: ModelRequest, http: HttpClient) -> AsyncGenerator[Piece, None]:
        step = self.steps[min(len(self.requests), len(self.steps) - 1)]
        self.requests.append(request)
        try:
            for item in step(request) if callable(step) else step:
                if isinstance(item, Exception):
                    raise item
                if isinstance(item, asyncio.Event):
                    self.streaming.set()
                    await item.wait()
                else:
                    yield item
        finally:
            self.closed += 1


async def events_of(engine: Engine, agent: Agent, given: Input, session_id: str = "s") -> list[Event]:
    return [event async for event in engine.stream_events(agent, given, user_id="u", session_id=session_id)]


def kinds(events: Sequence[Event]) -> list[str]:
    """The events' class names, without the ones that no client sees."""
    quiet = {"StepStart", "StepEnd", "ModelCallStart", "ModelCallEnd", "ToolResultStart", "FinalOutput"}
    return [type(event).__name__ for event in events if type(event).__name__ not in quiet]


class Collected:
    """A sink that keeps the events in a list."""

    full = False
    attended = True
    next_number = 0

    def __init__(self, events: list[Event]) -> None:
        self.emit = events.append

    async def room(self) -> None:
        pass

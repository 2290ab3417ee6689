"""An agent with a scripted model and tools of every temper, for the tests of the loop."""

from collections.abc import Sequence
from typing import Any

from agent_core.agent import Agent
from agent_core.engine import Engine
from agent_core.errors import ToolError
from agent_core.events import Event, ToolResultEnd
from agent_core.messages import Message
from agent_core.names import SessionKey
from agent_core.sessions.history import history_of
from agent_core.tools.function import tool
from tests.doubles import ScriptedModel, Step


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def fail() -> str:
    """Always fails."""
    raise ValueError("secret detail")


@tool
def refuse() -> str:
    """Refuses politely."""
    raise ToolError("out of stock")


@tool(approval=True)
def wipe() -> str:
    """Wipes everything."""
    raise AssertionError("this must never run")


def agent_of(*steps: Step, **limits: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(steps)
    return Agent("a", model, tools=[add, fail, refuse, wipe], **limits), model


async def stored(engine: Engine, session_id: str = "s") -> list[Message]:
    return history_of(await engine.store.load(SessionKey(user_id="u", session_id=session_id)), "a").messages


def results(events: Sequence[Event]) -> list[tuple[str, str]]:
    return [(event.status, event.content) for event in events if isinstance(event, ToolResultEnd)]

"""Agents, their tools and the engine that runs them: a library that knows no server."""

from agent_core.agent import Agent
from agent_core.context import ContextItem, RunContext, ToolContext
from agent_core.engine import Engine, RunResult
from agent_core.errors import CoreError, InvalidRequest, ModelError, QueueFull, RunError, SessionBusy, ToolError
from agent_core.events import (
    AgentEnd,
    AgentStart,
    Custom,
    Event,
    ExceedMaxIters,
    Fallback,
    FinalOutput,
    ModelCallEnd,
    ModelCallStart,
    RequireExternalExecution,
    Retry,
    RunFailed,
    StepEnd,
    StepStart,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolResultEnd,
    ToolResultStart,
)
from agent_core.gate import Gate
from agent_core.messages import MediaPart, Message, TextPart, ToolCall
from agent_core.models.base import Model, ModelRequest, Timeouts
from agent_core.run_input import RunInput
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.store import Store
from agent_core.tools.base import Tool, ToolSpec
from agent_core.tools.function import FunctionTool, tool
from agent_core.usage import Usage

__all__ = [
    "Agent",
    "AgentEnd",
    "AgentStart",
    "ContextItem",
    "CoreError",
    "Custom",
    "Engine",
    "Event",
    "ExceedMaxIters",
    "Fallback",
    "FinalOutput",
    "FunctionTool",
    "Gate",
    "InMemoryStore",
    "InvalidRequest",
    "MediaPart",
    "Message",
    "Model",
    "ModelCallEnd",
    "ModelCallStart",
    "ModelError",
    "ModelRequest",
    "QueueFull",
    "RequireExternalExecution",
    "Retry",
    "RunContext",
    "RunError",
    "RunFailed",
    "RunInput",
    "RunResult",
    "SessionBusy",
    "StepEnd",
    "StepStart",
    "Store",
    "TextDelta",
    "TextEnd",
    "TextPart",
    "TextStart",
    "ThinkingDelta",
    "ThinkingEnd",
    "ThinkingStart",
    "Timeouts",
    "Tool",
    "ToolCall",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolContext",
    "ToolError",
    "ToolResultEnd",
    "ToolResultStart",
    "ToolSpec",
    "Usage",
    "tool",
]

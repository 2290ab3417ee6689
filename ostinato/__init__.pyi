from agent_core import Agent as Agent
from agent_core import Engine as Engine
from agent_core import ToolContext as ToolContext
from agent_core import ToolError as ToolError
from agent_core import tool as tool
from app.main import create_app as create_app

__all__ = ["Agent", "Engine", "ToolContext", "ToolError", "create_app", "tool"]

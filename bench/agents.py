"""The agent that `bench/` measures: `ostinato serve bench/agents.py --store memory`."""

from agent_core import Agent, tool


@tool
def get_time() -> str:
    """Get the time."""
    return "2026-01-01T00:00:00Z"


agents = [Agent("bench", "openai:bench-model", tools=[get_time])]

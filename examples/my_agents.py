"""Agents of your own: `ostinato serve examples/my_agents.py`.

A typed function becomes a tool: the model sees its name, its docstring and a schema made from its signature. The server
serves `agents`; the first one is the default.
"""

from typing import Annotated, Literal

from pydantic import Field

from ostinato import Agent, ToolContext, ToolError, tool

STOCK = {"apple": 12, "pear": 0}


@tool
def check_stock(fruit: str, unit: Literal["pieces", "crates"] = "pieces") -> dict[str, object]:
    """Stock check: how much of a fruit is in stock.

    Args:
        fruit: The fruit's name in the singular, such as apple.
        unit: What to count; a crate holds six pieces.
    """
    if fruit not in STOCK:
        raise ToolError(f"There is no {fruit!r} here. There are: {', '.join(STOCK)}.")
    pieces = STOCK[fruit]
    return {"fruit": fruit, "unit": unit, "count": pieces // 6 if unit == "crates" else pieces}


@tool(timeout=5.0)
async def reserve(fruit: str, count: Annotated[int, Field(ge=1, le=100)], context: ToolContext) -> str:
    """Reserve pieces of a fruit for the person who asks."""
    return f"{count} × {fruit} reserved for {context.user_id}"


@tool(approval=True)
def close_shop() -> str:
    """Close the shop for today. Needs a person's approval, so it is never run without one."""
    return "closed"


agents = [
    Agent(
        "greengrocer",
        "fake:fake",  # or "openai:gpt-5", with OPENAI_API_KEY set
        instructions="You sell fruit. Be brief.",
        tools=[check_stock, reserve, close_shop],
        max_iterations=6,
        description="Knows what is in stock.",
    )
]

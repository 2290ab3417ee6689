"""The engine as a library, without a server: `.venv/bin/python examples/library.py`."""

import asyncio

from agent_core.events import TextDelta, ToolResultEnd
from ostinato import Agent, Engine, tool


@tool
def population(city: str) -> int:
    """Population: how many people live in a city."""
    return {"Paris": 2_100_000, "Rome": 2_700_000}[city]


agent = Agent("geographer", "fake:fake", tools=[population])


async def main() -> None:
    async with Engine() as engine:
        session = engine.session("ann", "geography")

        result = await session.call(agent, "What is the population of Paris?")
        print(result.status, "|", result.message.text if result.message else "")

        async for event in session.stream_events(agent, "And the population of Rome?"):
            if isinstance(event, ToolResultEnd):
                print("tool:", event.name, event.content)
            elif isinstance(event, TextDelta):
                print("text:", event.text)


if __name__ == "__main__":
    asyncio.run(main())

"""A server whose store is filled before it listens; in memory there is no other way to have old sessions.

    BENCH_FILL='{"long1000": 1000}' BENCH_SESSIONS=20000 python -m bench.speed.served

BENCH_FILL has the messages of each session, BENCH_SESSIONS the number of small ones. What a store has already is not
written again.
"""

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI

from agent_core import Agent, tool
from app.main import create_app
from app.server import bind, serve
from app.settings import read_settings
from bench.agents import agents, get_time
from bench.filling import fill

MANY = (1, 10, 50)
"""How many tools the agents `tools1`, … have."""


def main() -> None:
    settings = read_settings()
    app = create_app(settings, agents=[*agents, *(_with_tools(many) for many in MANY)])
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def filled(app: FastAPI) -> AsyncIterator[None]:
        async with inner(app):
            store = app.state.services.engine.store
            for session, messages in json.loads(os.environ.get("BENCH_FILL", "{}")).items():
                await fill(store, [session], turns=messages // 2, agent="bench")
            small = [f"old{number}" for number in range(int(os.environ.get("BENCH_SESSIONS", "0")))]
            await fill(store, small, turns=1, agent="bench")
            yield

    app.router.lifespan_context = filled
    sockets = bind(settings.host, 0)
    serve(app, settings, sockets, lambda: print(f"http://127.0.0.1:{sockets[0].getsockname()[1]}", flush=True))


def _with_tools(many: int) -> Agent:
    others = [tool(_look_up(number)) for number in range(1, many)]
    return Agent(f"tools{many}", "openai:bench-model", tools=[get_time, *others])


def _look_up(number: int) -> Callable[[str, int, bool], str]:
    def look_up(name: str, limit: int = 10, exact: bool = False) -> str:
        """Look a name up in a register.

        Args:
            name: what to look for
            limit: how many are wanted
            exact: whether only equal names count
        """
        return f"{name} {limit} {exact}"

    look_up.__name__ = f"look_up_{number}"
    return look_up


if __name__ == "__main__":
    main()

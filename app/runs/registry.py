"""The runs of this server that are under way."""

import asyncio

from agent_core.agent import Agent
from agent_core.engine import Engine
from agent_core.errors import RunError
from agent_core.run_input import RunInput
from app.runs.run import ServedRun
from app.settings import Settings

LAST = 20.0
"""Seconds that stopped runs get to pair and save; each has limits of its own that are shorter."""


class Runs:
    """Starts runs, gives each its hard deadline, and ends them all when the server does."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.draining = False
        self._engine = engine
        self._seconds = settings.run_seconds
        self._runs: set[ServedRun] = set()

    def __len__(self) -> int:
        return len(self._runs)

    def start(
        self,
        agent: Agent,
        given: RunInput,
        *,
        user_id: str,
        session_id: str,
        run_id: str,
        ephemeral: bool = False,
        keep: bool = False,
    ) -> ServedRun:
        """Start a run, which then waits for its session if it must.

        Raises RunError `draining`, InvalidRequest, SessionBusy or QueueFull, before anything is done.
        """
        if self.draining:
            raise RunError("draining")
        run = self._engine.admit(
            agent, given, user_id=user_id, session_id=session_id, run_id=run_id, ephemeral=ephemeral
        )
        served = ServedRun(self._engine, run, self._seconds, keep=keep)
        self._runs.add(served)
        served.when_done(lambda _: self._runs.discard(served))
        return served

    async def drain(self, seconds: float) -> None:
        """Take no new runs, let those under way end by themselves for `seconds`, and stop the rest.

        When this returns, every run has ended and is saved (or could not be within its own limit).
        """
        self.draining = True
        if self._runs:
            await asyncio.wait({served.task for served in self._runs}, timeout=seconds)
        for served in tuple(self._runs):
            served.drain()
        if self._runs:
            await asyncio.wait({served.task for served in self._runs}, timeout=LAST)

    async def aclose(self) -> None:
        """Stop at once whatever is still under way, and wait until it has ended."""
        await self.drain(0)

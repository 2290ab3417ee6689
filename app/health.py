"""Whether the server can do its work."""

import asyncio
from time import monotonic

from agent_core.engine import Engine
from agent_core.errors import RunError

PATIENCE = 3.0
"""Seconds that the store has to answer a check."""

FRESH = 1.0
"""Seconds for which an answer counts: a check writes, and asking needs no key."""


class Health:
    """Asks the store at most once in FRESH seconds, however many ask."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._asking = asyncio.Lock()
        self._asked = -FRESH
        self._failure: RunError | None = None

    async def check(self) -> None:
        """Raise RunError `store_unavailable` if an append would fail."""
        async with self._asking:
            if monotonic() - self._asked > FRESH:
                self._failure = await self._ask()
                self._asked = monotonic()
        if self._failure is not None:
            raise RunError(self._failure.code, detail=self._failure.detail)

    async def _ask(self) -> RunError | None:
        try:
            await self._engine.sessions.check(PATIENCE)
        except RunError as error:
            return error
        return None

"""Housekeeping: it deletes sessions that are too old or too many, and records that have expired."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from time import time

from agent_core.engine import Engine
from app.settings import Settings

FIRST = 5.0
"""Seconds from the start to the first round, since clients that wait for the server come first."""

EVERY = 600.0
"""Seconds between two rounds."""

DAY_MS = 24 * 3600 * 1000

logger = logging.getLogger(__name__)


class Housekeeping:
    """Deletes the sessions that `session_days` and `max_sessions` do not keep, but never one with a run under way.

    It calls `forget(user_id, session_id)` for each, which drops the kept logs of the session's runs.
    """

    def __init__(self, engine: Engine, settings: Settings, forget: Callable[[str, str], None]) -> None:
        self._engine = engine
        self._forget = forget
        self._days = settings.session_days
        self._keep = settings.max_sessions
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin the rounds."""
        self._task = asyncio.get_running_loop().create_task(self._go_on())

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def round(self) -> int:
        """Delete these sessions and records once. Returns the number of sessions. Raises RunError
        `store_unavailable`."""
        await self._engine.records.expire()
        if self._days is None and self._keep is None:
            return 0
        before = None if self._days is None else int(time() * 1000 - self._days * DAY_MS)
        deleted = 0
        async with aclosing(self._engine.sessions.delete_expired(before=before, keep=self._keep)) as keys:
            async for key in keys:
                self._forget(key.user_id, key.session_id)
                deleted += 1
        return deleted

    async def _go_on(self) -> None:
        await asyncio.sleep(FIRST)
        while True:
            try:
                deleted = await self.round()
                if deleted:
                    logger.info("housekeeping: %d sessions deleted", deleted)
            except Exception as error:
                logger.warning("housekeeping failed (%s) and will be tried again", type(error).__name__)
            await asyncio.sleep(EVERY)

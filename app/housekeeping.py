"""Housekeeping: sessions that are too old, or too many, are deleted, and so are records that are over their time."""

import asyncio
import logging
from collections.abc import Callable

from agent_core.engine import Engine
from agent_core.errors import CoreError, RunError
from agent_core.names import SessionKey
from agent_core.sessions.entries import now_ms
from agent_core.sessions.store import SessionPutBack
from app.settings import Settings

FIRST = 5.0
"""Seconds after the start before the first round: whoever waits for the server comes first."""

EVERY = 600.0
"""Seconds between two rounds."""

BATCH = 100
"""Sessions that are looked up at a time."""

DAY_MS = 24 * 3600 * 1000

logger = logging.getLogger(__name__)


class Housekeeping:
    """Deletes the sessions that `session_days` and `max_sessions` do not keep, never one with a run under way.
    `forget(user_id, session_id)` is called for each, to drop what else is kept of it."""

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
        """Delete what is not kept. Returns how many sessions. Raises RunError `store_unavailable`."""
        await self._engine.store.records.expire()
        if self._days is None and self._keep is None:
            return 0
        began = now_ms()
        before = None if self._days is None else began - int(self._days * DAY_MS)
        deleted, passed_over = 0, set[SessionKey]()
        while True:
            found = await self._engine.store.expired(before=before, keep=self._keep, limit=BATCH + len(passed_over))
            old = [key for key in found if key not in passed_over]
            if not old:
                return deleted
            for key in old:
                if await self._delete(key, began):
                    deleted += 1
                else:
                    passed_over.add(key)

    async def _delete(self, key: SessionKey, began: int) -> bool:
        info = await self._engine.store.find(key)
        if info is None or info.updated_at >= began or self._engine.under_way(key):
            return False
        try:
            # Whoever writes to it in between keeps it.
            deleted = await self._engine.delete(user_id=key.user_id, session_id=key.session_id, head=info.head)
            if deleted:
                self._forget(key.user_id, key.session_id)
            return deleted
        except SessionPutBack:
            return False
        except RunError as error:
            if error.code == "store_unavailable":
                raise
            return False
        except CoreError:
            return False

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

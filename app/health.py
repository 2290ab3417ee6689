"""Whether the server can do its work."""

import asyncio
from time import monotonic

from agent_core.errors import RunError
from agent_core.sessions.store import Store

PATIENCE = 3.0
"""Seconds that the store may take to say that it is well."""

FRESH = 1.0
"""Seconds for which an answer stands: a check is a write, and whoever may ask needs no key."""


class Health:
    """Asks the store at most once in FRESH seconds, whoever asks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asking = asyncio.Lock()
        self._asked = -FRESH
        self._failure: RunError | None = None

    async def check(self) -> None:
        """Raises RunError `store_unavailable`."""
        async with self._asking:
            if monotonic() - self._asked > FRESH:
                self._failure = await self._ask()
                self._asked = monotonic()
        if self._failure is not None:
            raise RunError(self._failure.code, detail=self._failure.detail)

    async def _ask(self) -> RunError | None:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._store.check()
        except RunError as error:
            return error
        except Exception as error:
            return RunError("store_unavailable", detail=type(error).__name__)
        return None

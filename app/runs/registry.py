"""The runs of this server: those under way, and those that have ended and are kept for later readers."""

import asyncio
from functools import partial

from agent_core.agent import Agent
from agent_core.engine import Engine
from agent_core.errors import RunError
from agent_core.names import SessionKey
from agent_core.run import Outside
from agent_core.run_input import RunInput
from app.runs.log import KEPT
from app.runs.retention import Retention
from app.runs.run import UNKEPT, Manner, ServedRun
from app.settings import Settings

LAST = 20.0
"""Seconds that stopped runs have to pair and save; each run's own limits are shorter."""

MOST_READ = 10_000
"""Runs that are remembered as read after their end; the oldest go first."""

Name = tuple[str, str, str]
"""A run's user, session and id. An id that comes again names its latest attempt."""


class Runs:
    """Starts runs, each with its hard deadline, finds them by name, and stops them all when the server ends.

    `most` is how many bytes of one run's events are kept.
    """

    def __init__(self, engine: Engine, settings: Settings, *, most: int = KEPT) -> None:
        self.draining = False
        self.most = most
        self._engine = engine
        self._seconds = settings.run_seconds
        self._runs: set[ServedRun] = set()
        self._known: dict[Name, ServedRun] = {}
        self._read: dict[Name, None] = {}  # runs whose end was stored unread, the oldest first
        self.retention = Retention(settings.log_seconds, settings.log_bytes, self._runs)

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._runs)

    def find(self, user_id: str, session_id: str, run_id: str) -> ServedRun | None:
        """The run that is under way or kept under this name."""
        return self._known.get((user_id, session_id, run_id))

    async def stands(self, served: ServedRun) -> bool:
        """Whether the session of the run's events still exists; if not, they are dropped.

        It may have been deleted through another server, and begun again under the same name. A run under way holds
        its session. Raises RunError `store_unavailable`.
        """
        if served.row is None:
            return True
        key = SessionKey(user_id=served.user_id, session_id=served.session_id)
        info = await self._engine.sessions.find(key)
        if info is not None and info.row == served.row:
            return True
        served.drop()
        return False

    def forget(self, user_id: str, session_id: str) -> None:
        """Drop what is kept of the runs of a deleted session."""
        for (user, session, _), served in list(self._known.items()):
            if (user, session) == (user_id, session_id) and served not in self._runs:
                served.drop()
        for name in [name for name in self._read if name[:2] == (user_id, session_id)]:
            del self._read[name]

    def was_read(self, user_id: str, session_id: str, run_id: str) -> bool:
        """Whether somebody has read this run to its end since it ended."""
        return (user_id, session_id, run_id) in self._read

    def start(
        self,
        agent: Agent,
        given: RunInput,
        *,
        user_id: str,
        session_id: str,
        run_id: str,
        ephemeral: bool = False,
        outside: Outside | None = None,
        manner: Manner = UNKEPT,
    ) -> ServedRun:
        """Start a run, which waits for its session if it must.

        Raises RunError `draining`, InvalidRequest, SessionBusy or QueueFull; then nothing is done.
        """
        if self.draining:
            raise RunError("draining")
        run = self._engine.admit(
            agent,
            given,
            user_id=user_id,
            session_id=session_id,
            run_id=run_id,
            ephemeral=ephemeral,
            seen=partial(self.was_read, user_id, session_id),
            outside=outside,
        )
        served = ServedRun(self._engine, run, self._seconds, manner, most=self.most, grown=self.retention.weigh)
        name = (user_id, session_id, run_id)
        earlier, self._known[name] = self._known.get(name), served
        self._runs.add(served)
        served.when_read(partial(self._was_read, name, served))
        served.when_done(lambda _: self._ended(name, served, earlier))
        served.when_dropped(partial(self._dropped, name, served))
        return served

    def _was_read(self, name: Name, served: ServedRun) -> None:
        if self._known.get(name) is served or served.told:
            self._read[name[0], name[1], served.told or name[2]] = None
            while len(self._read) > MOST_READ:
                del self._read[next(iter(self._read))]

    def _ended(self, name: Name, served: ServedRun, earlier: ServedRun | None) -> None:
        self._runs.discard(served)
        newest = self._known.get(name) is served
        if earlier is not None and earlier not in self._runs:
            if newest and served.told == name[2] and earlier.log.readable:
                self._known[name] = earlier  # its client may come back to it
                newest = False
            else:
                earlier.drop()
        if not served.told:
            self._read.pop(name, None)  # of an earlier attempt under this id
        if served.log.keeps and newest:
            self.retention.put(served)
        else:
            served.drop()
            self._dropped(name, served)  # also if it was dropped while it was under way

    def _dropped(self, name: Name, served: ServedRun) -> None:
        self.retention.take(served)
        if self._known.get(name) is served and served not in self._runs:
            del self._known[name]

    async def drain(self, seconds: float) -> None:
        """Take no new runs, give those under way `seconds` to end by themselves, and stop the rest.

        When this returns, every run has ended, and is saved unless its own limit was too short for that.
        """
        self.draining = True
        if self._runs:
            await asyncio.wait({served.task for served in self._runs}, timeout=seconds)
        for served in tuple(self._runs):
            served.drain()
        if self._runs:
            await asyncio.wait({served.task for served in self._runs}, timeout=LAST)
        self.retention.close()

    async def aclose(self) -> None:
        """Stop all runs at once, and wait until they have ended."""
        await self.drain(0)

"""The life of one run in the server: a task of the server's, not of the connection that asked for it."""

import asyncio
from collections.abc import Callable

from agent_core.engine import Engine
from agent_core.events import AgentEnd, RunFailed
from agent_core.react.run import Run
from app.runs.log import Log


class ServedRun:
    """A run with its log and its hard deadline, `seconds` from now.

    The first reader's place is taken before the run starts, so that nothing is missed.
    """

    def __init__(self, engine: Engine, run: Run, seconds: float) -> None:
        self.run_id = run.run_id
        self.log = Log()
        self.reader = self.log.reader()
        self._engine = engine
        self._run = run
        self.task = engine.start(run, self.log)
        deadline = asyncio.get_running_loop().call_later(seconds, engine.stop, run, "deadline")
        self.task.add_done_callback(lambda _: deadline.cancel())

    def when_done(self, act: Callable[["asyncio.Task[AgentEnd | RunFailed]"], None]) -> None:
        self.task.add_done_callback(act)

    def leave(self) -> None:
        """The client left or has read everything. A run that is still under way is cancelled, with its
        tools and its upstream; what it did so far is saved."""
        self.reader.close()
        if not self.task.done():
            self._engine.stop(self._run, "disconnect")

    def drain(self) -> None:
        """The server ends: stop the run, which ends with the error `draining`."""
        self._engine.stop(self._run, "draining")

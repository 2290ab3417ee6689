"""One run in the server: a task of the server's, not of the connection that asked for it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, time
from typing import Literal

from agent_core.agent import Agent
from agent_core.aside import Aside
from agent_core.engine import Engine
from agent_core.events import AgentEnd, RunFailed
from agent_core.run import Run
from agent_core.run_input import RunInput
from app.runs.log import Log
from app.runs.source import Source
from converters.agui.dialect import Dialect

OnDisconnect = Literal["cancel", "continue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a run is served, beside what it does.

    - keep: whether its events are kept for later readers
    - timed: whether they are kept for a limited time, which begins at its end
    - on_disconnect: whether it is cancelled or goes on when its last reader leaves. A run that goes on is not held up
      by a slow reader either
    - dialect, parent_run_id: how the request that began it is answered in AG-UI
    """

    keep: bool = False
    timed: bool = False
    on_disconnect: OnDisconnect = "cancel"
    dialect: Dialect = Dialect.V1
    parent_run_id: str | None = None


UNKEPT = Manner()


class ServedRun:
    """A run with its log and its hard deadline, `seconds` from now.

    Readers attach; the first must do so before the run's task has a turn. When the last reader leaves a run that is
    under way, the run is cancelled with its tools and its upstream, or goes on, as its manner says; what it did is
    saved. A run that is kept can be read again from its first event on, or from a snapshot on if it was too long.

    `most` and `grown` are the log's. `told` is the earlier run that it only told of; empty for any other, and while it
    is under way.
    """

    def __init__(
        self,
        engine: Engine,
        run: Run,
        seconds: float,
        manner: Manner = UNKEPT,
        *,
        most: int | None = None,
        grown: Callable[[int], None] | None = None,
    ) -> None:
        self.run_id = run.run_id
        self.user_id = run.key.user_id
        self.session_id = run.key.session_id
        self.manner = manner
        self.created = int(time())
        self.log = Log(
            keep=manner.keep,
            holds=manner.on_disconnect == "cancel",
            snapshot=run.snapshot,
            most=most,
            grown=grown,
        )
        self._engine = engine
        self._run: Run | None = run  # None after its end: a kept log must not keep the whole run
        self.told = ""
        self._waiting: tuple[str, ...] = ()
        self._acted = False
        self._row: int | None = None
        self._dropped: Callable[[], None] | None = None
        self._left: Callable[[], None] | None = None
        self._was_read: Callable[[], None] | None = None
        self._readers = 0
        self._linger: asyncio.TimerHandle | None = None
        self.task = engine.start(run, self.log)
        deadline = asyncio.get_running_loop().call_later(seconds, run.stop, "deadline")
        self.task.add_done_callback(lambda _: deadline.cancel())
        self.task.add_done_callback(lambda _: self._let_go())

    @property
    def aside(self) -> Aside:
        return self._engine.aside

    @property
    def end(self) -> AgentEnd | RunFailed | None:
        """How it ended; None while it is under way."""
        return self.task.result() if self.task.done() else None

    @property
    def waiting(self) -> tuple[str, ...]:
        """The ids of the calls that it left to the client."""
        return self._waiting if self._run is None else _waiting_of(self._run)

    @property
    def acted(self) -> bool:
        """Whether a tool has begun to run."""
        return self._acted if self._run is None else self._run.acted

    @property
    def stopping(self) -> bool:
        """Whether it was stopped and is not over yet."""
        return not self.task.done() and self._run is not None and self._run.stopping is not None

    @property
    def row(self) -> int | None:
        """The store's number of its session; None while it is under way, and if the store has nothing of it."""
        return self._row

    def is_asked_by(self, agent: Agent, given: RunInput) -> bool:
        """Whether it is under way, and this request is the one that began it. A run that is being stopped does not
        count: it has no answer for a new reader."""
        run = None if self.stopping else self._run
        same = run is not None and run.agent is agent and run.input.messages == given.messages
        return same and run is not None and run.input.answers == given.answers

    def _let_go(self) -> None:
        assert self._run is not None
        self.told, self._row = self._run.told, self._run.row
        self._waiting, self._acted, self._run = self.waiting, self.acted, None

    def when_done(self, act: Callable[["asyncio.Task[AgentEnd | RunFailed]"], None]) -> None:
        self.task.add_done_callback(act)

    def when_dropped(self, act: Callable[[], None]) -> None:
        self._dropped = act

    def when_read(self, act: Callable[[], None]) -> None:
        """Call this whenever a reader has read a run that is over to its end."""
        self._was_read = act

    def when_left(self, act: Callable[[], None]) -> None:
        """Call this when a reader leaves before the run has ended."""
        self._left = act

    def drop(self) -> None:
        """Let its events go, whoever still holds it: no reader may come back to it."""
        self.log.drop()
        dropped, self._dropped = self._dropped, None
        if dropped is not None:
            dropped()

    def attach(self) -> "Attached":
        """A new reader of the run's events."""
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        self._readers += 1
        return Attached(self, self.log.reader())

    def detach(self, source: Source, linger: float = 0) -> None:
        """A reader left. Another may attach within `linger` seconds before the run is cancelled."""
        at_end = source.at_end
        source.close()
        self._readers -= 1
        if at_end and self.task.done() and self._was_read is not None:
            self._was_read()
        if self._left is not None and not self.task.done():
            self._left()
        if self._readers or self.task.done() or self.manner.on_disconnect == "continue":
            return
        if linger:
            self._linger = asyncio.get_running_loop().call_later(linger, self._cancel)
        else:
            self._cancel()

    def drain(self) -> None:
        """Stop the run because the server ends; its error is `draining`."""
        if self._run is not None:
            self._run.stop("draining")

    def _cancel(self) -> None:
        if self._run is not None:
            self._run.stop("disconnect")


def _waiting_of(run: Run) -> tuple[str, ...]:
    return tuple(call.id for call in run.open_calls)


LINGER = 30.0
"""Seconds that a run waits for the retry of a client whose own time-out has cut the connection."""

DOUBT = 10.0
"""The same if it may have been a time-out or a stop: OpenAI's SDKs wait 8 at most before they retry."""


class Attached:
    """One reader's hold on a run.

    `patience` is after how many seconds of silence the client asks again: if it leaves just then, it has not stopped
    the run, which goes on for a while. None if the client does not ask again, 0 if its time-out is unknown. `since` is
    when something was sent last.
    """

    __slots__ = ("_left", "patience", "run", "since", "source")

    def __init__(self, run: ServedRun, source: Source) -> None:
        self.run = run
        self.source = source
        self.patience: float | None = None
        self.since = monotonic()
        self._left = False

    @property
    def run_id(self) -> str:
        return self.run.run_id

    def leave(self) -> None:
        """The client left, or has read everything. Idempotent."""
        if not self._left:
            self._left = True
            self.run.detach(self.source, self._linger())

    def _linger(self) -> float:
        if self.patience is None:
            return 0
        if not self.patience:
            return DOUBT
        silent = monotonic() - self.since
        # The client's clock started before ours, when it began to connect.
        return LINGER if silent >= min(0.9 * self.patience, self.patience - 0.5) else 0

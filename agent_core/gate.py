"""The execution gate: the runs of one session go one after another, and different sessions go side by side.

A run takes a ticket, waits for its turn, and leaves, however it ends. `enter` does not wait and may refuse. The first
ticket in a session's line holds the right to run. `leave` takes the ticket out of the line, so the next one holds at
once: there is no moment at which nobody holds, and nobody can overtake.

A waiter can be cancelled at the very moment when its turn comes. Its ticket holds then, because its place in the line
says so and not whether it has woken. So its `leave` hands the turn on, as every other does.
"""

import asyncio
import math
from collections import deque
from typing import Literal

from agent_core.errors import QueueFull, RunError, SessionBusy
from agent_core.names import SessionKey


class Gate:
    """The gate of one process.

    - when_busy: `queue` lets a run wait, `reject` refuses it with SessionBusy
    - max_waiting: how many runs may wait for one session
    - wait_seconds: how long a run may wait

    A session has a line only while a run holds or waits, so an idle gate is empty.
    """

    def __init__(
        self,
        *,
        when_busy: Literal["queue", "reject"] = "queue",
        max_waiting: int = 8,
        wait_seconds: float = 30.0,
    ) -> None:
        self.when_busy = when_busy
        self.max_waiting = max_waiting
        self.wait_seconds = wait_seconds
        self._lines: dict[SessionKey, deque[Ticket]] = {}

    def __len__(self) -> int:
        """The number of sessions in which a run holds or waits."""
        return len(self._lines)

    def enter(self, key: SessionKey, run_id: str, *, always: bool = False) -> "Ticket":
        """Take a place in the session's line; the first in the line holds.

        Raises SessionBusy or QueueFull, and then leaves no trace. With `always` it refuses nobody: that is for short
        writes.
        """
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = deque()
        elif always:
            pass
        elif self.when_busy == "reject":
            raise SessionBusy(line[0].run_id)
        elif len(line) > self.max_waiting:
            raise QueueFull(retry_after=max(1, math.ceil(self.wait_seconds / (self.max_waiting + 1))))
        ticket = Ticket(self, key, run_id)
        line.append(ticket)
        return ticket

    def _leave(self, ticket: "Ticket") -> None:
        line = self._lines[ticket.key]
        held = line[0] is ticket
        line.remove(ticket)
        if not line:
            del self._lines[ticket.key]
        elif held:
            line[0]._call()


class Ticket:
    """One run's place in its session's line."""

    __slots__ = ("_gate", "_left", "_turn", "key", "run_id")

    def __init__(self, gate: Gate, key: SessionKey, run_id: str) -> None:
        self._gate = gate
        self._left = False
        self._turn: asyncio.Future[None] | None = None
        self.key = key
        self.run_id = run_id

    @property
    def holds(self) -> bool:
        """Whether it is this run's turn."""
        return not self._left and self._gate._lines[self.key][0] is self

    async def wait(self) -> None:
        """Return when it is this run's turn. Raises RunError `session_busy_timeout`.

        The ticket stays in the line, also after an error or a cancel: only `leave` takes it out.
        """
        if self.holds:
            return
        self._turn = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._gate.wait_seconds):
                await self._turn
        except TimeoutError:
            if not self.holds:  # the turn may have come in the same tick as the time-out
                raise RunError("session_busy_timeout") from None

    def leave(self) -> None:
        """Give the place back and wake the next run. A second call does nothing."""
        if not self._left:
            self._left = True
            self._gate._leave(self)

    def _call(self) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)

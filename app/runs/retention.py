"""The logs of runs that have ended, for later readers: bounded in time and in bytes."""

import asyncio
from collections.abc import Collection

from app.runs.run import ServedRun


class Retention:
    """The kept runs that have ended, the oldest first.

    - seconds: how long a timed run stays; the others stay until somebody drops them
    - most: how many bytes all logs may have, those of `live` runs included. Beyond that the oldest run is dropped;
      if none is left, the largest log of a live run is trimmed

    It drops a run by `ServedRun.drop`.
    """

    def __init__(self, seconds: float, most: int, live: Collection[ServedRun]) -> None:
        self.weight = 0
        self._seconds = seconds
        self._most = most
        self._live = live
        self._runs: dict[ServedRun, None] = {}
        self._until: dict[ServedRun, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._runs)

    def weigh(self, change: int) -> None:
        """A log has grown by so many bytes, or shrunk if negative."""
        self.weight += change
        if change > 0 and self.weight > self._most:
            self._make_room()

    def put(self, run: ServedRun) -> None:
        """The run has ended and is kept."""
        self._runs[run] = None
        if run.manner.timed:
            self._until[run] = asyncio.get_running_loop().time() + self._seconds
            self._wait()
        if self.weight > self._most:
            self._make_room()

    def take(self, run: ServedRun) -> None:
        """The run was dropped."""
        self._runs.pop(run, None)
        self._until.pop(run, None)

    def close(self) -> None:
        """Let no run expire any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _make_room(self) -> None:
        while self._runs and self.weight > self._most:
            next(iter(self._runs)).drop()
        if self._live and self.weight > self._most:
            max(self._live, key=lambda run: run.log.size).log.trim()

    def _wait(self) -> None:
        if self._timer is None and self._until:
            first = next(iter(self._until.values()))
            self._timer = asyncio.get_running_loop().call_at(first, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for run in [run for run, until in self._until.items() if until <= now]:
            run.drop()
        self._wait()

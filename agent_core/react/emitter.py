"""Makes a lane's events and sends them. Only this module fills in run, lane and time."""

from collections.abc import Callable
from time import time_ns
from typing import Any, TypeVar

from agent_core.events import Event, TextDelta

E = TypeVar("E", bound=Event)


def _unheard(event: Event) -> None:
    pass


class Emitter:
    """Makes the events of one lane of one run, and sends them to the run's sink."""

    __slots__ = ("_send", "lane", "run_id")

    def __init__(self, run_id: str, lane: str = "root", send: Callable[[Event], None] = _unheard) -> None:
        self.run_id = run_id
        self.lane = lane
        self._send = send

    def attach(self, send: Callable[[Event], None]) -> None:
        """Send events with `send` from now on."""
        self._send = send

    def make(self, kind: Callable[..., E], /, **members: Any) -> E:
        """An event with these members beside its run, lane and time."""
        return kind(run_id=self.run_id, lane=self.lane, at=time_ns(), **members)

    def emit(self, kind: Callable[..., Event], /, **members: Any) -> None:
        """Make an event and send it."""
        self._send(kind(run_id=self.run_id, lane=self.lane, at=time_ns(), **members))

    def text(self, reply_id: str, text: str) -> None:
        """Emit a TextDelta. Nearly all events are that, and keywords by way of `emit` cost twice as much."""
        self._send(TextDelta(run_id=self.run_id, lane=self.lane, at=time_ns(), reply_id=reply_id, text=text))

    def send(self, event: Event) -> None:
        """Send an event that was made here before."""
        self._send(event)

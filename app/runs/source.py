"""The source that a reader of a run reads from, wherever the run is.

A `Source` is one reader's way through the events of one run. The log of a run of this process gives such sources
(`app/runs/log.py`). Responses, reattaching readers and OpenAI's stream know only the protocol, because the events may
come from another worker's run one day.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent_core.events import Event


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A few events that tell what all events up to `number` have told. They weigh `weight` bytes."""

    number: int
    events: tuple[Event, ...]
    weight: int

    @classmethod
    def of(cls, number: int, events: Sequence[Event]) -> "Snapshot":
        return cls(number, tuple(events), sum(event.weight for event in events))


class Source(Protocol):
    """One reader's events of a run, numbered from 1.

    - count: how many events the run has had so far; also the number of the last one
    - position: the number of the last event that this reader has, 0 before the first
    - weight: the weight of the last batch in bytes, so that nobody needs to weigh its events again
    - behind: whether events are ready
    - at_end: whether no more events will come
    """

    @property
    def count(self) -> int: ...

    @property
    def position(self) -> int: ...

    @property
    def weight(self) -> int: ...

    @property
    def behind(self) -> bool: ...

    @property
    def at_end(self) -> bool: ...

    async def batch(self, enough: Callable[[], bool] | None = None) -> list[Event]:
        """The next events. Waits for at least one. The list is empty at the end of the run, if events were missed, and
        if `enough` says so when the reader is woken."""
        ...

    def missed(self) -> Snapshot | None:
        """The snapshot in place of events that this reader will not get. It is given once, and comes before the events
        of the last batch."""
        ...

    def wake(self) -> None:
        """Let a batch that waits look again. Cancelling it instead could lose events."""
        ...

    def close(self) -> None:
        """End the reader. A second call does nothing."""
        ...

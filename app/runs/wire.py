"""What makes bytes of a run's events: one per reader, with the state of its stream."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from agent_core.aside import SMALL, Aside
from agent_core.events import Event, MessagesSnapshot

Rejoin = Callable[[Sequence[Event], int], bytes]
"""Makes the bytes with which a wire goes on behind the event of that number, from a snapshot of what was before."""


class Wire(Protocol):
    @property
    def finished(self) -> bool:
        """Whether it has made the last bytes of its stream."""
        ...

    def feed(self, events: Sequence[Event]) -> bytes:
        """The bytes of the next events."""
        ...

    def end(self) -> bytes:
        """The bytes that end the stream where no event comes any more, empty where it has ended."""
        ...


async def fed(wire: Wire, events: Sequence[Event], weight: int, aside: Aside) -> bytes:
    """The bytes of the events, which weigh this much, made without holding up everybody else.

    Heavy events are made one by one; a long conversation, which is one event, in a thread.
    """
    if weight <= SMALL:
        return wire.feed(events)
    made: list[bytes] = []
    for event in events:
        if isinstance(event, MessagesSnapshot):
            made.append(await aside(weight, wire.feed, [event]))
        else:
            made.append(wire.feed([event]))
            await asyncio.sleep(0)
    return b"".join(made)

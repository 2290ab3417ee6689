"""A wire makes bytes of a run's events. Each reader has its own, with the state of its stream."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from agent_core.aside import SMALL, Aside
from agent_core.events import Event, MessagesSnapshot


class Wire(Protocol):
    @property
    def finished(self) -> bool:
        """Whether the wire has made the last bytes of its stream."""
        ...

    def feed(self, events: Sequence[Event]) -> bytes:
        """The bytes of the next events."""
        ...

    def finish(self) -> bytes:
        """The bytes that end the stream when no more events come. Empty if it has ended already."""
        ...

    def rejoin(self, snapshot: Sequence[Event], number: int, /) -> bytes:
        """The bytes with which the stream goes on behind the event of this number, for a reader that missed events.
        The snapshot tells what was before."""
        ...


async def fed(wire: Wire, events: Sequence[Event], weight: int, aside: Aside) -> bytes:
    """The bytes of the events. Other tasks can run meanwhile, if the events are heavy.

    Heavy events are encoded one by one. A long conversation is one event, and is encoded in a thread.
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

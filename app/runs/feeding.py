"""What a reader has not read yet, made into bytes without holding up everybody else."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from agent_core.aside import SMALL, Aside
from agent_core.events import Event, MessagesSnapshot


class Feeding(Protocol):
    def feed(self, events: Sequence[Event]) -> bytes: ...


async def fed(wire: Feeding, events: Sequence[Event], weight: int, aside: Aside) -> bytes:
    """The bytes of the events, which weigh this much. Where that is much, they are made one by one; a long
    conversation, which is one event, in a thread."""
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


def weight_of(events: Sequence[Event]) -> int:
    return sum(event.weight for event in events)

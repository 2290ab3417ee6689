"""Bringing a reader to where it was cut off: what it had is made once more and thrown away.

A converter remembers what it saw, and the order of a stream what is open; so the chain of a reader that
comes back is fed all of the run's events, or a snapshot of those that are not there any more.
"""

import asyncio
from collections.abc import Callable

from app.runs.run import Attached
from app.runs.source import Snapshot
from app.runs.wire import fed
from converters.agui.ids import WHOLE, FrameId
from converters.agui.stream import AguiStream


class NeverSent(Exception):
    """The run has sent no frame with this id."""


async def resume(attached: Attached, make: Callable[[], AguiStream], after: FrameId | None) -> tuple[AguiStream, bytes]:
    """A stream that goes on behind the frame `after`, and what comes first in it.

    Where the log does not have what is needed (or all is wanted of one that was trimmed), it begins again
    with a snapshot. Raises NeverSent.
    """
    source, wire = attached.source, make()
    if after is not None and after.event > source.count:
        raise NeverSent
    missed = source.missed()
    if missed is None:
        return (wire, b"") if after is None else await _skip(attached, wire, make, after)
    told = await _rejoined(attached, wire, missed)
    if after is None or after < (missed.number, WHOLE):
        return wire, told
    return await _skip(attached, wire, make, after)


async def _skip(
    attached: Attached, wire: AguiStream, make: Callable[[], AguiStream], after: FrameId
) -> tuple[AguiStream, bytes]:
    source = attached.source
    while source.position < after.event:
        before = source.position
        events = await source.batch()
        missed = source.missed()
        if missed is not None:  # the run was faster, and went on by more than is kept
            wire = make()
            return wire, await _rejoined(attached, wire, missed) + wire.feed(events)
        last = after.event - before - 1
        if last < len(events):
            wire.feed(events[:last])
            rest = wire.rest(events[last], after.frame)
            if rest is None:
                raise NeverSent
            return wire, rest + wire.feed(events[last + 1 :])
        await fed(wire, events, source.weight, attached.run.aside)
        await asyncio.sleep(0)  # everybody else has a turn
    return wire, b""


async def _rejoined(attached: Attached, wire: AguiStream, missed: Snapshot) -> bytes:
    return await attached.run.aside(missed.weight, wire.rejoin, missed.events, missed.number)

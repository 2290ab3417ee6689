"""An answer that was given before, told again as the events of a stream."""

from collections.abc import Iterable, Iterator, Sequence

from agent_core.events import Event, MessagesSnapshot
from agent_core.retold import said


def unfolded(events: Sequence[Event]) -> Iterable[Event]:
    """The events. A snapshot is replaced by the events of the answer that it tells, because a chat completion has no
    history but only an answer."""
    if not any(event.__class__ is MessagesSnapshot for event in events):
        return events
    return _unfolded(events)


def _unfolded(events: Iterable[Event]) -> Iterator[Event]:
    for event in events:
        if isinstance(event, MessagesSnapshot):
            for message in event.told:
                yield from said(event.run_id, message)
        else:
            yield event

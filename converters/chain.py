"""The chain: which converter turns which internal event into frames.

Converters name the event types that they claim. For an event the most specific claim counts (its own
class, then its bases in order), and among equal claims the first converter in the list wins. So a
user's converter that stands in front takes a type over, and one that claims Event at the end takes
the rest. Nothing here waits or does I/O.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from agent_core.events import Event
from converters.wire import Frame


class Converter(Protocol):
    """Turns the events that it claims into frames. Each reader has instances of its own, so one may
    remember what it saw. It may claim a type and return nothing: the type is then never shown.
    """

    @property
    def claims(self) -> tuple[type[Event], ...]: ...

    def convert(self, event: Event) -> Sequence[Frame]: ...


Convert = Callable[[Event], Sequence[Frame]]


class Chain:
    """The converters of one reader behind one table, which is built once and then looked up."""

    def __init__(self, converters: Sequence[Converter]) -> None:
        self._table: dict[type[Event], Convert] = {}
        for converter in converters:
            for claimed in converter.claims:
                self._table.setdefault(claimed, converter.convert)

    def convert(self, event: Event) -> Sequence[Frame]:
        """The event's frames; none where nobody claims it. Raises what a converter raises."""
        return (self._table.get(event.__class__) or self._find(event.__class__))(event)

    def _find(self, wanted: type[Event]) -> Convert:
        found = next((self._table[each] for each in wanted.__mro__ if each in self._table), _nothing)
        self._table[wanted] = found
        return found


def _nothing(_: Event) -> Sequence[Frame]:
    return ()

"""The chain: it finds the converter that makes frames of an event.

Converters name the event types that they claim. The most specific claim counts: the event's own class, then its bases
in order. Among equal claims the first converter in the list wins. So a user's converter at the front takes a type over,
and a converter at the end that claims Event takes the rest. Nothing here waits or does I/O.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from agent_core.events import Event
from converters.wire import Frame

logger = logging.getLogger(__name__)


class Converter(Protocol):
    """Makes frames of the events that it claims.

    Each reader has its own instances, so a converter may keep what it has seen. It may claim a type and return no
    frames: then the type is never shown.
    """

    @property
    def claims(self) -> tuple[type[Event], ...]: ...

    def convert(self, event: Event) -> Sequence[Frame]: ...


Convert = Callable[[Event], Sequence[Frame]]


class Chain:
    """The converters of one reader, behind one table of the event types."""

    def __init__(self, converters: Sequence[Converter]) -> None:
        self._table: dict[type[Event], Convert] = {}
        self._reported = False
        for converter in converters:
            for claimed in converter.claims:
                self._table.setdefault(claimed, converter.convert)

    def convert(self, event: Event) -> Sequence[Frame]:
        """The event's frames, none if no converter claims it. Raises what the converter raises."""
        return (self._table.get(event.__class__) or self._find(event.__class__))(event)

    def report(self, event: Event) -> None:
        """Log the present exception, raised on this event, if it is the reader's first."""
        if not self._reported:
            self._reported = True
            logger.exception("A converter failed on %s of run %s.", type(event).__name__, event.run_id)

    def _find(self, wanted: type[Event]) -> Convert:
        found = next((self._table[each] for each in wanted.__mro__ if each in self._table), _nothing)
        self._table[wanted] = found
        return found


def _nothing(_: Event) -> Sequence[Frame]:
    return ()


class Checked:
    """A user's converter with a check of its frames. Otherwise a wrong frame would break the whole stream, far from the
    place where it was made."""

    def __init__(self, converter: Converter) -> None:
        self.claims = tuple(converter.claims)
        self._convert = converter.convert

    def convert(self, event: Event) -> Sequence[Frame]:
        """The converter's frames, without those that send nothing. Raises TypeError for a wrong frame, and what the
        converter raises, as an Exception."""
        try:
            frames = tuple(self._convert(event))
        except Exception:
            raise
        except BaseException as error:  # sys.exit in a converter ends its event, and not the server
            raise RuntimeError(type(error).__name__) from error
        for frame in frames:
            if not isinstance(frame, Frame) or not _is_sound(frame):
                raise TypeError("a converter returns a list of frames; make them with converters.agui.encode.frame")
        return tuple(frame for frame in frames if frame.data)


def _is_sound(frame: Frame) -> bool:
    def is_event(data: object) -> bool:
        return isinstance(data, bytes) and data.startswith(b"data: ") and data.endswith(b"\n\n") and is_plain(data)

    def is_plain(data: bytes) -> bool:
        return data.count(b"\n") == 2 and b"\r" not in data

    known = isinstance(frame.kind, str) and isinstance(frame.key, str | tuple)
    return known and (frame.data == b"" or is_event(frame.data)) and (frame.old is None or is_event(frame.old))

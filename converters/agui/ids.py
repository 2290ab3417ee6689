"""The ids of a stream's frames. `n.k` is frame k of the run's event n; k counts from 0, n from 1."""

import re
from typing import NamedTuple

WHOLE = 1_000_000
"""The k of an id that stands for the event with all its frames, and for all events before it. A snapshot of a run ends
with such an id, because the frames of the events that it replaces are not known."""

UNKNOWN = 1_000_000_000
"""The n of a terminal event if its number is not known."""

_FORM = re.compile(r"([1-9][0-9]{0,9})\.(0|[1-9][0-9]{0,9})")


class FrameId(NamedTuple):
    """A frame's id. Ids have the order of their frames."""

    event: int
    frame: int


def parse_id(text: str) -> FrameId | None:
    """The text as an id, or None."""
    found = _FORM.fullmatch(text)
    return None if found is None else FrameId(int(found[1]), int(found[2]))


def id_line(event: int, frame: int) -> bytes:
    """The id as the field in front of the frame's data."""
    return b"id: %d.%d\n" % (event, frame)

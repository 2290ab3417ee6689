"""The ids of a stream's frames: `n.k` is frame k, from 0, of the run's event n, from 1."""

import re
from typing import NamedTuple

WHOLE = 1_000_000
"""The k of an id that stands for the event with all its frames, and for everything before it. A snapshot of
a run ends with such an id, because nobody knows which frames the events made that it stands for."""

UNKNOWN = 1_000_000_000
"""The n of a terminal event whose number is not known."""

_FORM = re.compile(r"([1-9][0-9]{0,9})\.(0|[1-9][0-9]{0,9})")


class FrameId(NamedTuple):
    """Ids are ordered as the frames are."""

    event: int
    frame: int


def parse_id(text: str) -> FrameId | None:
    """The id, None where the text is none."""
    found = _FORM.fullmatch(text)
    return None if found is None else FrameId(int(found[1]), int(found[2]))


def id_line(event: int, frame: int) -> bytes:
    """The field that goes in front of the frame's data."""
    return b"id: %d.%d\n" % (event, frame)

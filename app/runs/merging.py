"""Merges the deltas that a reader is behind on: one that comes back, or one that reads slowly.

A replay of thousands of small frames freezes a page for a second; as a few large ones it costs the page nothing. A
reader that keeps up gets each delta as it came.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from agent_core.events import Event, TextDelta, ThinkingDelta, ToolCallDelta

LONGEST = 4_096
"""Bytes of UTF-8 that the text of a merged delta has at most."""

_BLOCKS: Mapping[type[Event], str] = {TextDelta: "reply_id", ThinkingDelta: "block_id", ToolCallDelta: "call_id"}
"""The deltas, and the member that names their block."""


def merged(events: Sequence[Event], last: int) -> tuple[list[Event], list[int]]:
    """The events with neighbouring deltas of one block made one, and the number of each. `last` is the last event's.

    A merged delta has the number and the time of its last one. So a client that is cut off behind it goes on behind all
    of it. A delta that is longer than LONGEST stays as it is.
    """
    made: list[Event] = []
    numbers: list[int] = []
    texts: list[str] = []
    size = 0

    def close() -> None:
        if len(texts) > 1:
            made[-1] = replace(made[-1], text="".join(texts))
        texts.clear()

    for number, event in enumerate(events, last - len(events) + 1):
        member = _BLOCKS.get(event.__class__)
        if member is None:
            close()
        else:
            text: str = event.text  # type: ignore[attr-defined]
            more = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
            if texts and size + more <= LONGEST and _is_one_block(made[-1], event, member):
                texts.append(text)
                size += more
                made[-1], numbers[-1] = event, number
                continue
            close()
            texts.append(text)
            size = more
        made.append(event)
        numbers.append(number)
    close()
    return made, numbers


def _is_one_block(one: Event, other: Event, member: str) -> bool:
    same = one.__class__ is other.__class__ and one.lane == other.lane
    return same and getattr(one, member) == getattr(other, member)

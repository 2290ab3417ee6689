"""Snapshots of a session: the library gives one out, and takes one back as a copy."""

from collections.abc import Sequence

import msgspec

from agent_core.sessions.copies.fork import copy_entries
from agent_core.sessions.entries import Entry


class _Line(msgspec.Struct, array_like=True):
    """An entry in a snapshot. It has no number, since the store gives a new one."""

    run_id: str
    kind: str
    body: msgspec.Raw
    lane: str


def snapshot_of(entries: Sequence[Entry]) -> bytes:
    """The whole session as JSON."""
    return msgspec.json.encode([_Line(each.run_id, each.kind, msgspec.Raw(each.body), each.lane) for each in entries])


def entries_of(snapshot: bytes) -> list[Entry]:
    """The entries of a copy. Raises msgspec.MsgspecError: a body that cannot be read must fail here and not in a later
    run."""
    lines = msgspec.json.decode(snapshot, type=list[_Line])
    return copy_entries(
        [Entry(run_id=each.run_id, kind=each.kind, body=bytes(each.body), lane=each.lane) for each in lines]
    )

"""Entries. A session is an append-only list of them.

History, approvals and state are folds of this one list (`history.py`). There is no second way to write.
"""

from collections.abc import Collection, Iterable
from time import time
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from agent_core.sessions.kinds import KINDS, Body, RewoundBody, TitledBody
from agent_core.sessions.standing import ROOT


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of a session. `kind` names a class of `kinds.py`, and `body` is its JSON. The store gives `seq`, counted
    from 1."""

    run_id: str
    kind: str
    body: bytes
    lane: str = ROOT
    seq: int = 0


class Addition(NamedTuple):
    """An entry that is about to be stored, and the body that it was made of, if that is at hand."""

    entry: Entry
    body: Body | None = None


_encoder = msgspec.json.Encoder()
_decoders = {kind: msgspec.json.Decoder(body) for kind, body in KINDS.items()}
_UNKNOWN = Body()


def body_of(entry: Entry) -> Body:
    """The entry's body. It is empty for a kind that only a later version knows. Raises msgspec.MsgspecError if it does
    not fit its kind."""
    decoder = _decoders.get(entry.kind)
    return _UNKNOWN if decoder is None else decoder.decode(entry.body)


def entry_of(run_id: str, body: Body, lane: str = ROOT) -> Entry:
    """The entry with this body."""
    return Entry(run_id=run_id, kind=body.kind, body=_encoder.encode(body), lane=lane)


def addition_of(run_id: str, body: Body, lane: str = ROOT) -> Addition:
    """The entry with this body, and the body."""
    return Addition(entry_of(run_id, body, lane), body)


def copied(entry: Entry, body: Body) -> Entry:
    """The entry with its body, as it goes into another session: encoded again, and marked as copied if its kind has a
    mark."""
    if "origin" in body.__struct_fields__:
        body = replace(body, origin="copied")
    return replace(entry, body=_encoder.encode(body))


def title_in(entries: Iterable[Entry]) -> str | None:
    """The last title that the entries give their session, or None."""
    title = None
    for entry in entries:
        if entry.kind == TitledBody.kind and isinstance(body := body_of(entry), TitledBody):
            title = body.title
    return title


ENTRY, REWOUND = 250, 50
"""The work to read an entry without its body, counted in bytes; and for a rewind, the work that each entry adds."""


def weight_of(entries: Collection[Entry], behind: int = 0) -> int:
    """The work to read the entries behind so many others, as a weight for `Aside`."""
    weight, rewound = ENTRY * len(entries), 0
    for entry in entries:
        weight += len(entry.body)
        rewound += entry.kind == RewoundBody.kind  # each rewind may go back over all entries
    return weight + rewound * REWOUND * (behind + len(entries))


def now_ms() -> int:
    """The time now, in milliseconds since the epoch."""
    return int(time() * 1000)

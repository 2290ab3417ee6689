"""What a session is made of: an append-only list of entries.

History, approvals and state are read from this one list (`history.py`); there is no second write path.
"""

from collections.abc import Collection, Iterable
from time import time

import msgspec
from msgspec.structs import replace

from agent_core.sessions.kinds import KINDS, Body, RewoundBody, TitledBody
from agent_core.sessions.standing import ROOT


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of a session. `kind` and `body` (JSON) are one of `kinds.py`; `seq` counts from 1 and is given by
    the store."""

    run_id: str
    kind: str
    body: bytes
    lane: str = ROOT
    seq: int = 0


_encoder = msgspec.json.Encoder()
_decoders = {kind: msgspec.json.Decoder(body) for kind, body in KINDS.items()}
_UNKNOWN = Body()


def body_of(entry: Entry) -> Body:
    """The entry's body; an empty one for a kind that only a later version knows. Raises msgspec.MsgspecError if it is
    not what its kind says."""
    decoder = _decoders.get(entry.kind)
    return _UNKNOWN if decoder is None else decoder.decode(entry.body)


def entry_of(run_id: str, body: Body, lane: str = ROOT) -> Entry:
    """The entry with this body."""
    return Entry(run_id=run_id, kind=body.kind, body=_encoder.encode(body), lane=lane)


def copied(entry: Entry, body: Body) -> Entry:
    """The entry, whose body this is, as it goes into another session: written anew, and marked if its kind has a
    mark."""
    if "origin" in body.__struct_fields__:
        body = replace(body, origin="copied")
    return replace(entry, body=_encoder.encode(body))


def title_in(entries: Iterable[Entry]) -> str | None:
    """The title that the entries give their session; None if they give none."""
    title = None
    for entry in entries:
        if entry.kind == TitledBody.kind and isinstance(body := body_of(entry), TitledBody):
            title = body.title
    return title


ENTRY, REWOUND = 250, 50
"""What an entry weighs beside its body, in bytes, if that is about the work to read it; and what each other entry
adds to one that rewinds."""


def weight_of(entries: Collection[Entry]) -> int:
    """How much work it is to read the entries (`Aside`)."""
    weight, rewound = ENTRY * len(entries), 0
    for entry in entries:
        weight += len(entry.body)
        rewound += entry.kind == RewoundBody.kind  # each may go back over all that there is
    return weight + rewound * REWOUND * len(entries)


def now_ms() -> int:
    """The time in milliseconds since the epoch."""
    return int(time() * 1000)

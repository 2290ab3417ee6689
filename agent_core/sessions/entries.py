"""What a session is made of: an append-only list of entries.

History, approvals and state are folds of the one list (`history.py`); there is no second write path.
"""

from collections.abc import Collection
from time import time
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from agent_core.events import Cut
from agent_core.interrupts import Decision, Interrupt
from agent_core.messages import Message

EntryKind = Literal["run", "message", "started", "end", "rewound", "state", "titled", "forked", "asked", "answered"]
"""`run`: a run began (its agent). `message`: something was said. `started`: a call was cleared to run, and
may have had an effect from here on. `end`: the run ended (its status). `rewound`: an agent's history goes on
from an earlier message. `state`: the session's state changed. `titled`: the session got a title. `forked`:
the entries before this one are a copy. `asked`: a call waits for something outside. `answered`: it has it."""


Origin = Literal["", "adopted", "copied"]
"""Where an entry comes from: empty for what happened in this session. `adopted`: from a conversation that a client
brought whole; the client may still answer the calls that it left open. `copied`: from another session (an import, a
restored snapshot, a fork). What comes from outside is history and never work: no call of it is carried out here,
and no approval in it counts."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of a session. `body` is JSON; `seq` counts from 1 and is given by the store."""

    run_id: str
    kind: EntryKind
    body: bytes
    lane: str = "root"
    seq: int = 0


class RunBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`client` is the protocol that the client speaks; `at` the time in milliseconds since the epoch. `opens` says
    that a new turn begins with this run; None in entries of earlier versions, which did not say."""

    agent: str
    client: str = ""
    at: int = 0
    opens: bool | None = None


class MessageBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`agent` is whose history the message belongs to."""

    agent: str
    message: Message
    origin: Origin = ""


class StartedBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`key` is the call's idempotency key, which stays the same when it is run again."""

    call_id: str
    key: str = ""
    origin: Origin = ""


class EndBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`status` is the run's status, or `failed` with the error's code. `last` is the number of the run's
    last event, 0 where it is not known; `unread` says that nobody was there to read it; `at` as in RunBody. `tokens`
    and `seconds` are what the run has used, 0 where that is not known; `cut` as in AgentEnd."""

    status: str
    code: str | None = None
    at: int = 0
    last: int = 0
    unread: bool = False
    tokens: int = 0
    seconds: float = 0.0
    cut: Cut | None = None


class RewoundBody(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's history goes on behind the message `after`; from its beginning where that is empty."""

    agent: str
    after: str = ""


class StateBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The session's state: the whole `value`, or a `patch` of RFC 6902 to what it was before."""

    value: Any = None
    patch: list[dict[str, Any]] | None = None


class TitledBody(msgspec.Struct, frozen=True, kw_only=True):
    title: str


class ForkedBody(msgspec.Struct, frozen=True, kw_only=True):
    """Which session this one was copied from, up to which message."""

    session_id: str
    message_id: str


class AskedBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    agent: str
    interrupt: Interrupt
    origin: Origin = ""


class AnsweredBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    interrupt_id: str
    decision: Decision
    origin: Origin = ""


Body = (
    RunBody
    | MessageBody
    | StartedBody
    | EndBody
    | RewoundBody
    | StateBody
    | TitledBody
    | ForkedBody
    | AskedBody
    | AnsweredBody
)

BODIES: dict[EntryKind, type[Body]] = {
    "run": RunBody,
    "message": MessageBody,
    "started": StartedBody,
    "end": EndBody,
    "rewound": RewoundBody,
    "state": StateBody,
    "titled": TitledBody,
    "forked": ForkedBody,
    "asked": AskedBody,
    "answered": AnsweredBody,
}

_encoder = msgspec.json.Encoder()
_kinds = {body: kind for kind, body in BODIES.items()}
_decoders = {kind: msgspec.json.Decoder(body) for kind, body in BODIES.items()}


def body_of(entry: Entry) -> Body:
    """The entry's body. Raises msgspec.MsgspecError where it is not what its kind says."""
    return _decoders[entry.kind].decode(entry.body)


ENTRY, REWOUND = 250, 50
"""What an entry weighs beside its body, in bytes, where it is about the work to read it; and what each other entry
adds to one that rewinds."""


def weight_of(entries: Collection[Entry]) -> int:
    """How much work it is to read the entries (`Aside`)."""
    weight, rewound = ENTRY * len(entries), 0
    for entry in entries:
        weight += len(entry.body)
        rewound += entry.kind == "rewound"  # each may go back over all that there is
    return weight + rewound * REWOUND * len(entries)


def now_ms() -> int:
    """The time in milliseconds since the epoch."""
    return int(time() * 1000)


def copied(entry: Entry, body: Body) -> Entry:
    """The entry, whose body this is, as it goes into another session: written anew, and marked where a fold needs
    to know."""
    if isinstance(body, MessageBody | StartedBody | AskedBody | AnsweredBody):
        body = replace(body, origin="copied")
    return replace(entry, body=_encoder.encode(body))


def entry_of(run_id: str, body: Body, lane: str = "root") -> Entry:
    """The entry with this body."""
    return Entry(run_id=run_id, kind=_kinds[body.__class__], body=_encoder.encode(body), lane=lane)


def message_entry(run_id: str, agent: str, message: Message, origin: Origin = "") -> Entry:
    return _entry(run_id, "message", MessageBody(agent=agent, message=message, origin=origin))


def run_entry(run_id: str, agent: str, client: str = "", *, opens: bool | None = None) -> Entry:
    return _entry(run_id, "run", RunBody(agent=agent, client=client, at=now_ms(), opens=opens))


def started_entry(run_id: str, call_id: str, key: str = "") -> Entry:
    return _entry(run_id, "started", StartedBody(call_id=call_id, key=key))


def end_entry(
    run_id: str,
    status: str,
    code: str | None = None,
    *,
    last: int = 0,
    unread: bool = False,
    tokens: int = 0,
    seconds: float = 0.0,
    cut: Cut | None = None,
) -> Entry:
    body = EndBody(
        status=status,
        code=code,
        at=now_ms(),
        last=last,
        unread=unread,
        tokens=tokens,
        seconds=round(seconds, 6),
        cut=cut,
    )
    return _entry(run_id, "end", body)


def rewound_entry(run_id: str, agent: str, after: str) -> Entry:
    return _entry(run_id, "rewound", RewoundBody(agent=agent, after=after))


def state_entry(run_id: str, *, value: Any = None, patch: list[dict[str, Any]] | None = None) -> Entry:
    return _entry(run_id, "state", StateBody(value=value, patch=patch))


def titled_entry(run_id: str, title: str) -> Entry:
    return _entry(run_id, "titled", TitledBody(title=title))


def forked_entry(run_id: str, session_id: str, message_id: str) -> Entry:
    return _entry(run_id, "forked", ForkedBody(session_id=session_id, message_id=message_id))


def asked_entry(run_id: str, agent: str, interrupt: Interrupt) -> Entry:
    return _entry(run_id, "asked", AskedBody(agent=agent, interrupt=interrupt))


def answered_entry(run_id: str, interrupt_id: str, decision: Decision) -> Entry:
    return _entry(run_id, "answered", AnsweredBody(interrupt_id=interrupt_id, decision=decision))


def _entry(run_id: str, kind: EntryKind, body: Body) -> Entry:
    return Entry(run_id=run_id, kind=kind, body=_encoder.encode(body))

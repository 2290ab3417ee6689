"""What a session is made of: an append-only list of entries, and the folds that read it.

History, later also approvals and state, are folds of the one list; there is no second write path.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from agent_core.messages import Message

EntryKind = Literal["run", "message", "started", "end"]
"""`run`: a run began (its agent). `message`: something was said. `started`: a call was cleared to run, and
may have had an effect from here on. `end`: the run ended (its status)."""


class SessionKey(msgspec.Struct, frozen=True, kw_only=True, gc=False, cache_hash=True):
    """Whose session, and which. The user is the credential's, never the client's word."""

    user_id: str
    session_id: str


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of a session. `body` is JSON; `seq` counts from 1 and is given by the store."""

    run_id: str
    kind: EntryKind
    body: bytes
    lane: str = "root"
    seq: int = 0


class MessageBody(msgspec.Struct, frozen=True, kw_only=True):
    """`agent` is whose history the message belongs to."""

    agent: str
    message: Message


class StartedBody(msgspec.Struct, frozen=True, kw_only=True):
    call_id: str


class RunBody(msgspec.Struct, frozen=True, kw_only=True):
    agent: str


class EndBody(msgspec.Struct, frozen=True, kw_only=True):
    """`status` is the run's status, or `failed` with the error's code."""

    status: str
    code: str | None = None


_encoder = msgspec.json.Encoder()
_message = msgspec.json.Decoder(MessageBody)
_started = msgspec.json.Decoder(StartedBody)


def message_entry(run_id: str, agent: str, message: Message) -> Entry:
    return Entry(run_id=run_id, kind="message", body=_encoder.encode(MessageBody(agent=agent, message=message)))


def run_entry(run_id: str, agent: str) -> Entry:
    return Entry(run_id=run_id, kind="run", body=_encoder.encode(RunBody(agent=agent)))


def started_entry(run_id: str, call_id: str) -> Entry:
    return Entry(run_id=run_id, kind="started", body=_encoder.encode(StartedBody(call_id=call_id)))


def end_entry(run_id: str, status: str, code: str | None = None) -> Entry:
    return Entry(run_id=run_id, kind="end", body=_encoder.encode(EndBody(status=status, code=code)))


@dataclass(slots=True)
class History:
    """The conversation of one agent in one session.

    `message_ids` are those of this agent's messages; `call_ids` and `started` are those of the whole
    session, in which a call's id is unique whichever agent made it.
    """

    messages: list[Message] = field(default_factory=list)
    message_ids: set[str] = field(default_factory=set)
    call_ids: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)

    def add(self, message: Message) -> None:
        self.messages.append(message)
        self.message_ids.add(message.id)
        self.call_ids.update(call.id for call in message.tool_calls)


def history_of(entries: Iterable[Entry], agent: str) -> History:
    """Fold the entries to the agent's history."""
    history = History()
    for entry in entries:
        if entry.kind == "message":
            body = _message.decode(entry.body)
            if body.agent == agent:
                history.add(body.message)
            else:
                history.call_ids.update(call.id for call in body.message.tool_calls)
        elif entry.kind == "started":
            history.started.add(_started.decode(entry.body).call_id)
    return history

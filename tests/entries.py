"""Short names for the entries that tests write by hand."""

from typing import Any

from agent_core.events import Cut
from agent_core.interrupts import Decision, Interrupt
from agent_core.messages import Message
from agent_core.sessions.entries import Entry, entry_of, now_ms
from agent_core.sessions.kinds import (
    AnsweredBody,
    AskedBody,
    EndBody,
    ForkedBody,
    MessageBody,
    RewoundBody,
    RunBody,
    StartedBody,
    StateBody,
    TitledBody,
)
from agent_core.sessions.standing import Origin


def message_entry(run_id: str, agent: str, message: Message, origin: Origin = "") -> Entry:
    return entry_of(run_id, MessageBody(agent=agent, message=message, origin=origin))


def run_entry(run_id: str, agent: str, client: str = "", *, opens: bool | None = None) -> Entry:
    return entry_of(run_id, RunBody(agent=agent, client=client, at=now_ms(), opens=opens))


def started_entry(run_id: str, call_id: str, key: str = "") -> Entry:
    return entry_of(run_id, StartedBody(call_id=call_id, key=key))


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
    return entry_of(run_id, body)


def rewound_entry(run_id: str, agent: str, after: str) -> Entry:
    return entry_of(run_id, RewoundBody(agent=agent, after=after))


def state_entry(run_id: str, *, value: Any = None, patch: list[dict[str, Any]] | None = None) -> Entry:
    return entry_of(run_id, StateBody(value=value, patch=patch))


def titled_entry(run_id: str, title: str) -> Entry:
    return entry_of(run_id, TitledBody(title=title))


def forked_entry(run_id: str, session_id: str, message_id: str) -> Entry:
    return entry_of(run_id, ForkedBody(session_id=session_id, message_id=message_id))


def asked_entry(run_id: str, agent: str, interrupt: Interrupt) -> Entry:
    return entry_of(run_id, AskedBody(agent=agent, interrupt=interrupt))


def answered_entry(run_id: str, interrupt_id: str, decision: Decision) -> Entry:
    return entry_of(run_id, AnsweredBody(interrupt_id=interrupt_id, decision=decision))

"""What a session waits for, for all of its agents, as its entries tell it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from agent_core.interrupts import Interrupt
from agent_core.sessions.entries import Entry, body_of
from agent_core.sessions.history import history_of
from agent_core.sessions.kinds import AnsweredBody, AskedBody


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An interrupt, answered or not, and the name of the agent whose call it is about."""

    agent: str
    interrupt: Interrupt


def asked_in(entries: Iterable[Entry]) -> Iterator[Asked]:
    """All that was ever asked in the session, in order."""
    for entry in entries:
        body = body_of(entry) if entry.kind == "asked" else None
        if isinstance(body, AskedBody):
            yield Asked(agent=body.agent, interrupt=body.interrupt)


def owners_in(entries: Iterable[Entry]) -> dict[str, str]:
    """The agent of every interrupt of the session, answered or not, by the interrupt's id."""
    return {each.interrupt.id: each.agent for each in asked_in(entries)}


def pending_in(entries: Sequence[Entry], agents: Iterable[str]) -> dict[str, tuple[Interrupt, ...]]:
    """What waits for an answer now, of each of these agents that has ever asked for something."""
    names = {each.agent for each in asked_in(entries)}
    return {agent: history_of(entries, agent).pending for agent in agents if agent in names}


def taken_by(entries: Iterable[Entry], operation_id: str) -> str | None:
    """The run that took the result of this operation; None if none has."""
    entries = list(entries)
    ids = {each.interrupt.id for each in asked_in(entries) if each.interrupt.operation_id == operation_id}
    for entry in entries:
        body = body_of(entry) if entry.kind == "answered" else None
        if isinstance(body, AnsweredBody) and body.interrupt_id in ids and body.decision.kind in ("result", "failed"):
            return entry.run_id
    return None

"""The fold of a session's entries."""

from collections.abc import Iterable
from typing import Any

from agent_core.sessions.entries import Entry, body_of
from agent_core.sessions.kinds import Body, RunBody, StateBody
from agent_core.sessions.standing import ROOT, History, Standing


def take(standing: Standing, entry: Entry, body: Body, seq: int = 0) -> None:
    """Fold one more entry into the standing. `seq` is its number, if the entry does not have it yet."""
    standing.run_id, standing.lane, standing.seq = entry.run_id, entry.lane, seq or entry.seq
    body.fold(standing)


def take_all(standing: Standing, entries: Iterable[Entry]) -> Standing:
    """Fold these entries into the standing, and its state. Returns the standing. Raises msgspec.MsgspecError for a body
    that does not fit its kind."""
    for entry in entries:
        take(standing, entry, body_of(entry))
    standing.session.changes.apply()
    return standing


def standing_of(entries: Iterable[Entry], *wanted: tuple[str, str]) -> Standing:
    """How the session stands, with the histories of these agents and lanes. Raises as `take_all`."""
    return take_all(Standing(set(wanted)), entries)


def history_of(entries: Iterable[Entry], agent: str, lane: str = ROOT) -> History:
    """The agent's history in the lane. Raises msgspec.MsgspecError for a body that does not fit its kind."""
    return standing_of(entries, (agent, lane)).of(agent, lane)


def state_since(entries: Iterable[Entry], agent: str, seq: int) -> tuple[Any] | None:
    """The session's state before the entry `seq`. None if nobody has changed it since, or if another agent has."""
    agents: dict[str, str] = {}
    earlier: list[Entry] = []
    changed = False
    for entry in entries:
        if entry.kind == StateBody.kind:
            if entry.seq < seq:
                earlier.append(entry)
            elif agents.get(entry.run_id) == agent:
                changed = True
            else:
                return None
        elif entry.kind == RunBody.kind and entry.lane == ROOT and isinstance(body := body_of(entry), RunBody):
            agents[entry.run_id] = body.agent
    return (standing_of(earlier).session.state,) if changed else None

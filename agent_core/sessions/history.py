"""The fold of a session's entries."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from agent_core.sessions.entries import Entry, body_of
from agent_core.sessions.kinds import Body, RunBody, StateBody
from agent_core.sessions.standing import ROOT, History, Standing
from agent_core.sessions.state import StateChanges


def take(standing: Standing, entry: Entry, body: Body) -> None:
    """Fold one more entry into the standing."""
    standing.run_id, standing.lane, standing.seq = entry.run_id, entry.lane, entry.seq
    body.fold(standing)


def standing_of(entries: Sequence[Entry], *wanted: tuple[str, str]) -> Standing:
    """How the session stands, with the histories of these agents and lanes. Raises msgspec.MsgspecError for a body that
    does not fit its kind."""
    standing = Standing(wanted)
    for entry in entries:
        take(standing, entry, body_of(entry))
    changes = standing.changes
    standing.state = changes.value
    if changes.patches:
        standing.state_patches = changes.weight
        try:
            standing.state = changes.apply()
        except msgspec.ValidationError:
            # Read again: the patches that fit have changed the value, and one another.
            standing.state, misfits = changes_in(entries).apply_fitting()
            standing.misfits = len(misfits)
    return standing


def changes_in(entries: Iterable[Entry]) -> StateChanges:
    """The changes of the state since its last whole value."""
    changes = StateChanges()
    for entry in entries:
        if entry.kind == StateBody.kind and isinstance(body := body_of(entry), StateBody):
            changes.take(body.value, body.patch, entry.seq)
    return changes


def history_of(entries: Sequence[Entry], agent: str, lane: str = ROOT) -> History:
    """The agent's history in the lane. Raises msgspec.MsgspecError for a body that does not fit its kind."""
    return standing_of(entries, (agent, lane)).history(agent, lane)


def state_since(entries: Sequence[Entry], agent: str, seq: int) -> tuple[Any] | None:
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
    return (standing_of(earlier).state,) if changed else None

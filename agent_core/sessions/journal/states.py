"""Checks what a session's entries make of its state: a change may be as it was written, and yet not fit."""

from typing import Any

from msgspec import MsgspecError

from agent_core.sessions.entries import Entry, body_of
from agent_core.sessions.journal.check import UNLIKE, Fault
from agent_core.sessions.kinds import StateBody
from agent_core.sessions.state import StateChanges


class StateCheck:
    """Takes a session's entries in the order of their numbers, as ChainCheck does, and says in the end which change
    of the state does not fit what was before it. Only what is behind the last whole value counts, as in a history."""

    def __init__(self) -> None:
        self._changes = StateChanges()

    def take(self, raw: Any) -> None:
        if raw[4] != StateBody.kind:
            return
        try:
            body = body_of(Entry(run_id="", kind=StateBody.kind, body=raw[5]))
        except (MsgspecError, *UNLIKE):
            return  # it was altered: the chain says so
        if isinstance(body, StateBody):
            self._changes.take(body.value, body.patch, raw[1])

    def end(self) -> Fault | None:
        _, misfits = self._changes.apply_fitting()
        if not misfits:
            return None
        return misfits[0], "is a change of the state that does not fit what was before it, and is passed over"

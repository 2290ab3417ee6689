"""Checks the changes of a session's state: a change may be unaltered, and still not fit the state before it."""

from typing import Any

from msgspec import MsgspecError

from agent_core.sessions.entries import Entry, body_of
from agent_core.sessions.journal.check import UNLIKE, Fault
from agent_core.sessions.kinds import StateBody
from agent_core.sessions.state import StateChanges


class StateCheck:
    """Takes a session's entries as ChainCheck does, and tells at the end the first change that does not fit the state
    before it. Only changes after the last whole value count, as in a history."""

    def __init__(self) -> None:
        self._changes = StateChanges()

    def take(self, raw: Any) -> None:
        if raw[4] != StateBody.kind:
            return
        try:
            body = body_of(Entry(run_id="", kind=StateBody.kind, body=raw[5]))
        except (MsgspecError, *UNLIKE):
            return  # it was altered: ChainCheck tells so
        if isinstance(body, StateBody):
            self._changes.take(body.value, body.patch, raw[1])

    def end(self) -> Fault | None:
        misfits = self._changes.apply()
        if not misfits:
            return None
        return misfits[0], "is a change of the state that does not fit what was before it, and is passed over"

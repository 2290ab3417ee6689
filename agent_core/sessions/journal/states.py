"""Checks what a session's entries make of its state: a change may be as it was written, and yet not fit."""

from typing import Any

from msgspec import MsgspecError

from agent_core.sessions.entries import Entry, StateBody, body_of
from agent_core.sessions.journal.check import UNLIKE, Fault
from agent_core.sessions.patches import Patch
from agent_core.sessions.state import apply_fitting


class StateCheck:
    """Takes a session's entries in the order of their numbers, as ChainCheck does, and says in the end which change
    of the state does not fit what was before it. Only what is behind the last whole value counts, as in a history."""

    def __init__(self) -> None:
        self._value: Any = None
        self._patches: list[tuple[Any, Patch]] = []

    def take(self, raw: Any) -> None:
        if raw[4] != "state":
            return
        try:
            body = body_of(Entry(run_id="", kind="state", body=raw[5]))
        except (MsgspecError, *UNLIKE):
            return  # it was altered: the chain says so
        assert isinstance(body, StateBody)
        if body.patch is None:
            self._value = body.value
            self._patches.clear()
        else:
            self._patches.append((raw[1], body.patch))

    def end(self) -> Fault | None:
        _, misfits = apply_fitting(self._value, [patch for _, patch in self._patches])
        if not misfits:
            return None
        return self._patches[misfits[0]][
            0
        ], "is a change of the state that does not fit what was before it, and is passed over"

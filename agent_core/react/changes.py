"""Changes of the session's state. A call edits its copy, and a change of the state is made of that."""

from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from agent_core.sessions.kinds import StateBody
from agent_core.sessions.merging import merged
from agent_core.sessions.patches import Patch
from agent_core.sessions.standing import History
from agent_core.sessions.state import MOST_PATCHES, as_json, patch_between, same_json, weight_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEdit:
    """A call's edit of its copy of the state: the copy `before` and `after` the call."""

    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """The new state, and the patch that leads to it. `whole` says that the value is stored and not the patch. `weight`
    is the weight of all patches since the last whole value."""

    value: Any
    patch: Patch
    whole: bool
    weight: int

    @property
    def body(self) -> StateBody:
        return StateBody(value=self.value) if self.whole else StateBody(patch=self.patch)


def change_to(value: Any, history: History) -> StateChange | None:
    """The change that makes this JSON value the history's state, or None if it is so already. Leaves the history as it
    is.

    If stored changes of the state did not fit, the state is stored whole, even if it stays the same.
    """
    changes = history.session.changes
    return _change(history.state, value, changes.weight, anew=changes.misfits > 0)


def change_behind(first: StateChange | None, value: Any, history: History) -> StateChange | None:
    """As `change_to`, but after another change that the history does not have yet."""
    return change_to(value, history) if first is None else _change(first.value, value, first.weight, anew=False)


def _change(old: Any, value: Any, patches: int, *, anew: bool) -> StateChange | None:
    if same_json(old, value) and not anew:
        return None
    patch = patch_between(old, value)
    weight = patches + weight_of(patch)
    whole = anew or weight > MOST_PATCHES or len(to_json(patch)) >= len(to_json(value))
    return StateChange(value=value, patch=patch, whole=whole, weight=0 if whole else weight)


def change_by(edit: StateEdit, history: History) -> StateChange | None:
    """The change that an edit makes in the history's state. Other edits made meanwhile are kept. Raises ValueError if
    the state would be too large."""
    return change_to(as_json(merged(edit.before, edit.after, history.state)), history)

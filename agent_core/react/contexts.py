"""What tools and instructions see of the session's state: a copy that is made when they first look at it.

Most never do, and a state may be large. The value that is copied is never changed in place: a change puts another one
in its place (`StateChanges`). So a copy that is made late shows the state as it stood when the context was made.
"""

from typing import Any

from agent_core.context import RunContext, ToolContext
from agent_core.sessions.state import copy_of


class _Copy:
    """A copy of a JSON value, made when it is first asked for. `value` is what it is a copy of."""

    __slots__ = ("_copy", "touched", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.touched = False
        self._copy: Any = None

    def get(self) -> Any:
        if not self.touched:
            self.put(copy_of(self.value))
        return self._copy

    def put(self, value: Any) -> None:
        self.touched, self._copy = True, value


class _LooksLate:
    """The part that both contexts share."""

    __slots__ = ()

    _held: _Copy

    def __init__(self, before: Any, **members: Any) -> None:
        object.__setattr__(self, "_held", _Copy(before))
        super().__init__(**members)
        object.__setattr__(self, "_held", _Copy(before))  # the class behind this one has just set the state

    @property
    def state(self) -> Any:
        return self._held.get()

    @state.setter
    def state(self, value: Any) -> None:
        self._held.put(value)


class CallContext(_LooksLate, ToolContext):
    """A tool's context. `before` is the state as it stood when the call began. The call has not looked at it, let alone
    changed it, where it is not `touched`."""

    __slots__ = ("_held",)

    @property
    def before(self) -> Any:
        return self._held.value

    @property
    def touched(self) -> bool:
        return self._held.touched


class SeenContext(_LooksLate, RunContext):
    """The context of an agent's instructions."""

    __slots__ = ("_held",)

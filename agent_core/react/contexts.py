"""What tools and instructions see of the session: copies that are made when they first look at them.

Most never do, and a state or a history may be large. The value that is copied is never changed in place: a change puts
another one in its place (`StateChanges`), and a list of messages only grows (`Tree.messages`). So a copy that is made
late shows the session as it stood when the context was made.
"""

import threading
from collections.abc import Callable
from typing import Any

from agent_core.context import RunContext, ToolContext
from agent_core.messages import Message
from agent_core.sessions.state import copy_of


class _LooksLate:
    """The part that both contexts share. `_makers` make the members that nobody has looked at yet, by their names.

    Such a member is not set, so that only the first look comes to `__getattr__`. A tool may share its context between
    threads: all of them get the same copy.
    """

    __slots__ = ()

    _makers: dict[str, Callable[[], Any]]
    _lock: threading.Lock

    def _hold(self, **makers: Callable[[], Any]) -> None:
        object.__setattr__(self, "_makers", makers)
        object.__setattr__(self, "_lock", threading.Lock())
        for name in makers:
            object.__delattr__(self, name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # a copy of a context holds nothing back
            raise AttributeError(name)
        with self._lock:
            if name in self._makers:
                object.__setattr__(self, name, self._makers[name]())
                del self._makers[name]
        return object.__getattribute__(self, name)


class CallContext(_LooksLate, ToolContext):
    """A tool's context, made by `call_context`. `before` is the state as it stood when the call began. The call has not
    looked at it, let alone changed it, where it is not `touched`."""

    __slots__ = ("_lock", "_makers", "before")

    before: Any

    @property
    def touched(self) -> bool:
        return "state" not in self._makers

    def set_state(self, value: Any) -> None:
        """Replace the session's state with another value."""
        with self._lock:
            self._makers.pop("state", None)
            object.__setattr__(self, "state", value)


class SeenContext(_LooksLate, RunContext):
    """The context of an agent's instructions, made by `seen_context`."""

    __slots__ = ("_lock", "_makers")


def call_context(before: Any, **members: Any) -> CallContext:
    """The context of a call that begins where the session's state is `before`."""
    context = CallContext(**members)
    object.__setattr__(context, "before", before)
    context._hold(state=lambda: copy_of(before))
    return context


def seen_context(state: Any, messages: list[Message], **members: Any) -> SeenContext:
    """The context of instructions, with the state and the messages as they stand."""
    context, length = SeenContext(**members), len(messages)
    context._hold(state=lambda: copy_of(state), messages=lambda: tuple(messages[:length]))
    return context

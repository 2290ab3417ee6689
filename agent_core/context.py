"""What a tool, and an agent's instructions, may know of their run."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agent_core.messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextItem:
    """A piece of knowledge from the client for the model: an entry of AG-UI's `context`."""

    description: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The run, as an agent's `instructions` function sees it.

    `state` is a copy of the session's state. `forwarded_props` is the client's own JSON value, unchecked: do not trust
    it.
    """

    agent: str
    user_id: str
    session_id: str
    run_id: str
    context: tuple[ContextItem, ...] = ()
    state: Any = None
    forwarded_props: Any = None
    messages: tuple[Message, ...] = ()


_logger = logging.getLogger("ostinato.tools")


def _drop(name: str, value: Any = None) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """The call, as a tool sees it. The engine fills in a parameter with this annotation and hides it from the model.

    - state: a copy of the session's state for this call, a JSON value, `{}` if there is none yet. The client shares
      the state and may have written it. The tool may change the copy, or replace it with `set_state`. If the tool
      succeeds, the new state is stored with the call's result and sent to the client; at most 256 kB as JSON
    - idempotency_key: names the action; it is the same if an idempotent tool runs again after a crash
    - cancelled: set when the call is no longer wanted (stop, time-out, deadline). A tool that runs long in a thread
      should look at it
    - emit(name, value): send a custom event to the client, at most 64 kB as JSON. The event is dropped if the client
      lags so far that the run waits for it
    - progress(message, fraction): tell how far the call has come. `fraction` is from 0 to 1, if it is known
    - queued: set by the tool while the call waits for a thread and has done nothing yet. A time-out then means that
      the call did not run

    `emit` and `progress` may be called from a thread.
    """

    agent: str
    user_id: str
    session_id: str
    run_id: str
    call_id: str
    idempotency_key: str = ""
    context: tuple[ContextItem, ...] = ()
    state: Any = None
    forwarded_props: Any = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    queued: threading.Event = field(default_factory=threading.Event)
    emit: Callable[[str, Any], None] = _drop
    progress: Callable[..., None] = _drop

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records have the run's and the call's id (`run_id`, `call_id`)."""
        return logging.LoggerAdapter(_logger, {"run_id": self.run_id, "call_id": self.call_id})

    def set_state(self, value: Any) -> None:
        """Replace the session's state with another value."""
        object.__setattr__(self, "state", value)

"""What a tool and an agent's instructions may know of the run that they are part of."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agent_core.messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextItem:
    """Something the client wants the model to know: AG-UI's `context` entry."""

    description: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The run, as an agent's `instructions` callable sees it.

    `state` is a copy of the session's state; `forwarded_props` is the client's own JSON value, untouched and
    untrusted.
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
    """The call, as a tool sees it. A parameter annotated with this type is filled in by the engine
    and hidden from the model.

    `state` is the session's state, a JSON value that the client shares and may have written (`{}` where there
    is none yet): a copy for this call. What the tool changes in it, or puts in its place with `set_state`, is
    stored with the call's result and sent to the client, if the tool succeeds; at most 256 kB as JSON.

    `idempotency_key` names the action: it is the same when an idempotent tool is run again after a crash.

    `cancelled` is set when the call is no longer wanted (interrupt, time-out, deadline): a tool that
    runs long in a thread looks at it. `emit(name, value)` sends a custom event to the client: at most
    64 kB as JSON, and dropped where the client lags so far that the run waits for it. `progress(message, fraction)`
    tells how far the call has come, in words and, where it is known, from 0 to 1. Both can be called from a thread.

    `queued` is the tool's word to the engine: set while the call waits for a thread and nothing has been done yet.
    A time-out then means that it was not run.
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
        """A logger whose records know the run and the call (`run_id`, `call_id`)."""
        return logging.LoggerAdapter(_logger, {"run_id": self.run_id, "call_id": self.call_id})

    def set_state(self, value: Any) -> None:
        """Put another value in the place of the session's state."""
        object.__setattr__(self, "state", value)

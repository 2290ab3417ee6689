"""Checks of entries that come from outside, beyond the types of their fields. Each check raises Wrong."""

from typing import Any, get_args

import orjson

from agent_core.agent import AGENT_NAME
from agent_core.errors import SENTENCES
from agent_core.events import RunStatus
from agent_core.interrupts import Interrupt
from agent_core.messages import Message
from agent_core.sessions.patches import Misfit, Patch, Patched
from agent_core.sessions.standing import Standing
from agent_core.sessions.state import LARGEST_STATE, MOST_PATCHES, weight_of

LONGEST_MESSAGE_ID = 256
LONGEST_CALL_ID = 1_024
"""Characters of an id at most. Providers choose the ids of calls, so these may be longer."""

LONGEST_TOOL_NAME = 128
"""Characters at most. A tool's name may have fewer (tools.base), but a model may have asked for a tool that never
was."""

LATEST = 2**53
"""The largest time and number. Every reader of JSON can hold it exactly."""

OPERATIONS = frozenset({"add", "remove", "replace", "move"})
"""The operations that a patch may have. `copy` is none of them: a few copies make a huge state."""

MOST_WORK = 500_000
"""Cost at most of the patches between two whole values of the state, in operations (`Patched.work`)."""


class Wrong(Exception):
    """The entry is wrong. The text says why."""


class SoFar:
    """The fold of the entries before this one: how the session stands, and its state."""

    def __init__(self) -> None:
        self.standing = Standing()
        self._state = Patched(None)
        self._patches = self._weight = 0

    def change_state(self, value: Any, patch: Patch | None) -> bool:
        """Take a whole value of the state, or a patch. Raises Wrong.

        True if it would cost too much to apply the patches at each load. Then the caller must store `state` whole.
        """
        if patch is None:
            self._state, self._patches, self._weight = Patched(value), 0, 0
        else:
            self._patches += 1
            if self._patches > MOST_PATCHES:
                raise Wrong(f"there are more than {MOST_PATCHES} patches of the state in a row.")
            self._apply(patch)
        try:
            size = len(orjson.dumps(self.state))
        except TypeError:
            raise Wrong("the state is nested too deep.") from None
        if size > LARGEST_STATE:
            raise Wrong(f"the state has {size} bytes, but at most {LARGEST_STATE} are kept.")
        if self._weight <= MOST_PATCHES:
            return False
        self._weight = 0
        return True

    @property
    def state(self) -> Any:
        return self._state.value

    def _apply(self, patch: Patch) -> None:
        if any(each.get("op") not in OPERATIONS for each in patch if isinstance(each.get("op"), str)):
            raise Wrong(f"body.patch may only {', '.join(sorted(OPERATIONS))}.")
        self._weight += weight_of(patch)
        try:
            self._state.apply(patch, most=MOST_WORK)
        except Misfit:
            raise Wrong("body.patch does not fit the state.") from None
        if self._state.work > MOST_WORK:
            raise Wrong("body.patch moves too many items of lists: with it, the state takes too long to be read.")


def check_agent(name: str) -> None:
    if not AGENT_NAME.fullmatch(name):
        raise Wrong("body.agent must be 1 to 64 of A-Z a-z 0-9 _ -.")


def check_id(value: str, name: str, most: int = LONGEST_MESSAGE_ID) -> None:
    if not 0 < len(value) <= most:
        raise Wrong(f"body.{name} must have 1 to {most} characters.")


def check_number(value: float, name: str) -> None:
    if not 0 <= value <= LATEST:
        raise Wrong(f"body.{name} is out of range.")


def check_status(status: str, code: str | None) -> None:
    if status == "failed":
        if code not in SENTENCES:
            raise Wrong("body.code is not one that a failed run can have.")
    elif status not in get_args(RunStatus):
        raise Wrong(f"body.status must be one of {', '.join(get_args(RunStatus))}, failed.")


def check_message(message: Message) -> None:
    check_id(message.id, "message.id")
    if message.role == "tool":
        check_id(message.tool_call_id or "", "message.tool_call_id", LONGEST_CALL_ID)
    if message.role != "assistant" and (message.tool_calls or message.thoughts):
        raise Wrong("body.message: only an assistant message has tool calls and thoughts.")
    if message.role != "tool" and message.edited_arguments is not None:
        raise Wrong("body.message: only a tool message has editedArguments.")
    check_number(message.noted, "message.noted")
    if len(message.error) > LONGEST_TOOL_NAME:
        raise Wrong(f"body.message.error must have at most {LONGEST_TOOL_NAME} characters.")
    ids = [call.id for call in message.tool_calls]
    for call in message.tool_calls:
        check_id(call.id, "message.tool_calls[].id", LONGEST_CALL_ID)
        _check_name(call.name, "message.tool_calls[].name")
    if len(ids) != len(set(ids)):
        raise Wrong("body.message.tool_calls has an id twice.")


def check_interrupt(interrupt: Interrupt) -> None:
    check_id(interrupt.id, "interrupt.id")
    check_id(interrupt.call_id, "interrupt.call_id", LONGEST_CALL_ID)
    _check_name(interrupt.name, "interrupt.name")
    for member in ("expires_at", "created_at", "retry_after"):
        check_number(getattr(interrupt, member) or 0, f"interrupt.{member}")


def _check_name(name: str, member: str) -> None:
    if not 0 < len(name) <= LONGEST_TOOL_NAME or not name.isprintable():
        raise Wrong(f"body.{member} must have 1 to {LONGEST_TOOL_NAME} printable characters.")

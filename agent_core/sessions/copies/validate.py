"""What an entry's body must be beyond its type, where it comes from outside."""

from typing import get_args

import orjson

from agent_core.agent import AGENT_NAME
from agent_core.errors import SENTENCES
from agent_core.events import RunStatus
from agent_core.interrupts import Interrupt
from agent_core.messages import Message
from agent_core.names import is_title
from agent_core.sessions.copies.fork import Standing
from agent_core.sessions.entries import (
    AnsweredBody,
    AskedBody,
    Body,
    EndBody,
    ForkedBody,
    MessageBody,
    RewoundBody,
    RunBody,
    StartedBody,
    StateBody,
    TitledBody,
)
from agent_core.sessions.patches import Misfit, Patch, Patched
from agent_core.sessions.state import LARGEST_STATE, MOST_PATCHES, weight_of

LONGEST_MESSAGE_ID = 256
LONGEST_CALL_ID = 1_024
"""Characters. Providers choose the ids of calls."""

LONGEST_TOOL_NAME = 128
"""Characters. More than a tool's name may have here (tools.base): a model may have asked for one that never was."""

LATEST = 2**53
"""The largest time and number: the largest that every reader of JSON has exactly."""

OPERATIONS = frozenset({"add", "remove", "replace", "move"})
"""What a patch may do. Not `copy`: a short line of copies makes a huge state."""

MOST_WORK = 500_000
"""What the patches between two whole values of the state may cost, in operations (`Patched.work`)."""


class Wrong(Exception):
    """What is wrong with a line."""


class Scrutiny:
    """Looks at one body after another, in the order of the entries; `standing` is what came before."""

    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        self._state = Patched(None)
        self._patches = self._weight = 0
        self._asked: set[str] = set()

    def examine(self, body: Body) -> Body:
        """The body, or another that says the same and is read again at less cost. Raises Wrong."""
        match body:
            case RunBody():
                _check_agent(body.agent)
                _check_number(body.at, "at")
            case MessageBody():
                _check_agent(body.agent)
                _check_message(body.message)
                if body.message.id in self.standing.of(body.agent).message_ids:
                    raise Wrong("body.message.id is that of an earlier message.")
            case StartedBody():
                _check_id(body.call_id, "call_id", LONGEST_CALL_ID)
            case EndBody():
                _check_end(body)
            case RewoundBody():
                _check_agent(body.agent)
                if body.after and self.standing.of(body.agent).tree.find(body.after) is None:
                    raise Wrong("body.after is no message of the agent's.")
            case StateBody():
                return self._state_after(body)
            case TitledBody() if not is_title(body.title):
                raise Wrong("body.title must be one line of 1 to 200 characters, without blanks at its ends.")
            case ForkedBody():
                _check_id(body.session_id, "session_id")
                _check_id(body.message_id, "message_id")
            case AskedBody():
                self._check_asked(body)
            case AnsweredBody() if body.interrupt_id not in self._asked:
                raise Wrong("body.interrupt_id is that of no interrupt before it.")
        return body

    def _check_asked(self, body: AskedBody) -> None:
        _check_agent(body.agent)
        _check_interrupt(body.interrupt)
        # Else the answer to it would count for a call that somebody makes later, under the same id.
        if body.interrupt.call_id not in self.standing.of(body.agent).call_ids:
            raise Wrong("body.interrupt.call_id is that of no call of the agent's before it.")
        self._asked.add(body.interrupt.id)

    def _state_after(self, body: StateBody) -> StateBody:
        if body.patch is None:
            self._state, self._patches, self._weight = Patched(body.value), 0, 0
        else:
            self._patches += 1
            if self._patches > MOST_PATCHES:
                raise Wrong(f"there are more than {MOST_PATCHES} patches of the state in a row.")
            self._apply(body.patch)
        try:
            size = len(orjson.dumps(self._state.value))
        except TypeError:
            raise Wrong("the state is nested too deep.") from None
        if size > LARGEST_STATE:
            raise Wrong(f"the state has {size} bytes, but at most {LARGEST_STATE} are kept.")
        if self._weight <= MOST_PATCHES:
            return body
        self._weight = 0  # many operations: they would be applied again at each reading
        return StateBody(value=self._state.value)

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


def _check_agent(name: str) -> None:
    if not AGENT_NAME.fullmatch(name):
        raise Wrong("body.agent must be 1 to 64 of A-Z a-z 0-9 _ -.")


def _check_id(value: str, name: str, most: int = LONGEST_MESSAGE_ID) -> None:
    if not 0 < len(value) <= most:
        raise Wrong(f"body.{name} must have 1 to {most} characters.")


def _check_number(value: float, name: str) -> None:
    if not 0 <= value <= LATEST:
        raise Wrong(f"body.{name} is out of range.")


def _check_message(message: Message) -> None:
    _check_id(message.id, "message.id")
    if message.role == "tool":
        _check_id(message.tool_call_id or "", "message.tool_call_id", LONGEST_CALL_ID)
    if message.role != "assistant" and (message.tool_calls or message.thoughts):
        raise Wrong("body.message: only an assistant message has tool calls and thoughts.")
    if message.role != "tool" and message.edited_arguments is not None:
        raise Wrong("body.message: only a tool message has editedArguments.")
    _check_number(message.noted, "message.noted")
    if len(message.error) > LONGEST_TOOL_NAME:
        raise Wrong(f"body.message.error must have at most {LONGEST_TOOL_NAME} characters.")
    ids = [call.id for call in message.tool_calls]
    for call in message.tool_calls:
        _check_id(call.id, "message.tool_calls[].id", LONGEST_CALL_ID)
        _check_name(call.name, "message.tool_calls[].name")
    if len(ids) != len(set(ids)):
        raise Wrong("body.message.tool_calls has an id twice.")


def _check_name(name: str, member: str) -> None:
    if not 0 < len(name) <= LONGEST_TOOL_NAME or not name.isprintable():
        raise Wrong(f"body.{member} must have 1 to {LONGEST_TOOL_NAME} printable characters.")


def _check_interrupt(interrupt: Interrupt) -> None:
    _check_id(interrupt.id, "interrupt.id")
    _check_id(interrupt.call_id, "interrupt.call_id", LONGEST_CALL_ID)
    _check_name(interrupt.name, "interrupt.name")
    for member in ("expires_at", "created_at", "retry_after"):
        _check_number(getattr(interrupt, member) or 0, f"interrupt.{member}")


def _check_end(body: EndBody) -> None:
    if body.status == "failed":
        if body.code not in SENTENCES:
            raise Wrong("body.code is not one that a failed run can have.")
    elif body.status not in get_args(RunStatus):
        raise Wrong(f"body.status must be one of {', '.join(get_args(RunStatus))}, failed.")
    _check_number(body.at, "at")
    _check_number(body.last, "last")
    _check_number(body.tokens, "tokens")
    _check_number(body.seconds, "seconds")

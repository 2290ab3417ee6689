"""Interrupts for clients that have no event for them: a text for people, and a list for programs.

The rules are those of `converters.interrupts`.
"""

from collections.abc import Sequence
from typing import Any

from agent_core.interrupts import Interrupt
from converters.interrupts import arguments_of, as_many_as_fit, expiry_of, words
from converters.parsing import shorten
from converters.wire import to_json

SHOWN_ARGUMENTS = 500
"""Bytes of a call's arguments that the text shows."""

MOST_SHOWN = 10
"""Calls that the text names at most."""


def words_for(waiting: Sequence[Interrupt], session_id: str, agent: str) -> str:
    """A text in place of an answer: the calls that wait, and how to answer them. Empty if none waits.

    A client may send the text back, and then a model reads it. So it says only what is true for both.
    """
    lines = [_line(each) for each in waiting[:MOST_SHOWN]]
    if len(waiting) > MOST_SHOWN:
        lines.append(f"- and {len(waiting) - MOST_SHOWN} more")
    if not lines:
        return ""
    ways: list[str] = []
    path = f"/sessions/{session_id}"
    approval = next((each for each in waiting if each.kind == "approval"), None)
    if approval is not None:
        yes = {"interruptId": approval.id, "status": "resolved", "payload": {"approved": True}}
        ways.append(f"To answer: POST {path}/resume {to_json({'agent': agent, 'answers': [yes]}).decode()}")
    operation = next((each for each in waiting if each.kind == "waiting"), None)
    if operation is not None:
        ways.append(f'To bring a result: POST {path}/operations/{operation.operation_id} {{"result": …}}')
    return "\n".join(["Nothing more is done until this is answered:", *lines, *ways])


def listed(waiting: Sequence[Interrupt]) -> list[dict[str, Any]]:
    """The interrupts for `x_agent.interrupts`, as many as fit one frame."""
    return as_many_as_fit(waiting, _members)


def _line(interrupt: Interrupt) -> str:
    what = "an approval" if interrupt.kind == "approval" else f"the operation {interrupt.operation_id}"
    arguments = shorten(interrupt.arguments or "{}", SHOWN_ARGUMENTS)
    return f"- {interrupt.name}({arguments}) waits for {what} (interrupt {interrupt.id})"


def _members(interrupt: Interrupt) -> dict[str, Any]:
    members: dict[str, Any] = {
        "id": interrupt.id,
        "kind": interrupt.kind,
        "callId": interrupt.call_id,
        "name": interrupt.name,
        "message": words(interrupt.message),
    }
    optional = {
        "arguments": arguments_of(interrupt),
        "expiresAt": expiry_of(interrupt),
        "operationId": interrupt.operation_id or None,
        "waitId": interrupt.wait_id,
        "retryAfter": interrupt.retry_after,
    }
    return members | {name: value for name, value in optional.items() if value is not None}

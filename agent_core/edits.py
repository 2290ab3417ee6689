"""Edited arguments: those that a person has put in place of the model's.

The model and every reader are told of an edit with the call's result. An edit comes with the decision on an approval.
If the call then begins an operation elsewhere, the interrupt that waits for it carries the edited arguments.
"""

from collections.abc import Mapping
from typing import Any

import orjson
from msgspec.structs import replace

from agent_core.interrupts import Decision, Interrupt
from agent_core.messages import Message, TextPart, ToolCall
from agent_core.sizes import size_of

LONGEST_TOLD = 4_000
"""The model is told this many characters of the edited arguments."""


def same_arguments(one: str, other: str) -> bool:
    """Whether two JSON texts are the same arguments. The order of members does not matter."""
    return _sorted(one) == _sorted(other)


def _sorted(arguments: str) -> bytes:
    try:
        return orjson.dumps(orjson.loads(arguments.strip() or "{}") or {}, option=orjson.OPT_SORT_KEYS)
    except (ValueError, TypeError):  # no JSON, or nested too deep to be written
        return arguments.encode(errors="replace")


def edit_of(call: ToolCall, asked: Mapping[str, Interrupt], decisions: Mapping[str, Decision]) -> str:
    """The edited arguments of the call as JSON text, empty if nobody has edited them.

    `asked` has the interrupts under their calls' ids, `decisions` has the answers under the interrupts' ids.
    """
    interrupt = asked.get(call.id)
    if interrupt is None or interrupt.name != call.name:
        return ""
    if interrupt.kind == "waiting":
        return "" if interrupt.arguments == call.arguments else interrupt.arguments
    decision = decisions.get(interrupt.id)
    if decision is None or decision.kind != "approved" or interrupt.arguments != call.arguments:
        return ""
    return decision.arguments


def with_edit(result: Message, edit: str) -> Message:
    """The result with the edit told at the head of its text. Without an edit, the result as it is."""
    if not edit:
        return result
    shown = edit if len(edit) <= LONGEST_TOLD else f"{edit[:LONGEST_TOLD]}… [cut: {len(edit)} characters]"
    told = f"A person changed the arguments to {shown}.\n"
    content = result.content
    return replace(
        result,
        content=told + content if isinstance(content, str) else (TextPart(text=told), *content),
        edited_arguments=orjson.loads(edit),
    )


def told_edit(result: Message) -> dict[str, Any] | None:
    """The fields of the Custom event that tells readers of the edit; None without one. It goes in front of the
    result's event."""
    if result.edited_arguments is None:
        return None
    value = {"toolCallId": result.tool_call_id or "", "arguments": result.edited_arguments}
    return {"name": "arguments_edited", "value": value, "size": size_of(value)}

"""The arguments that a person has put in the place of the model's, told to the model and to every reader with the
call's result.

An edit belongs to the decision on an approval. Where the call has begun something that goes on elsewhere, it is in
the arguments of the interrupt that waits for that.
"""

from collections.abc import Mapping
from typing import Any

import orjson
from msgspec.structs import replace

from agent_core.interrupts import Decision, Interrupt
from agent_core.messages import Message, TextPart, ToolCall
from agent_core.sizes import size_of

LONGEST_TOLD = 4_000
"""Characters of the edited arguments that the model is told."""


def same_arguments(one: str, other: str) -> bool:
    """Whether two JSON texts are the same arguments, whatever the order of their members."""
    return _sorted(one) == _sorted(other)


def _sorted(arguments: str) -> bytes:
    try:
        return orjson.dumps(orjson.loads(arguments.strip() or "{}") or {}, option=orjson.OPT_SORT_KEYS)
    except (ValueError, TypeError):  # nested deeper than a person's can be
        return arguments.encode(errors="replace")


def edit_of(call: ToolCall, asked: Mapping[str, Interrupt], decisions: Mapping[str, Decision]) -> str:
    """The arguments as a person has edited them, as JSON text; empty where nobody has. `asked` are the interrupts
    under their calls' ids, `decisions` the answers to them under their own."""
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
    """The result of a call whose arguments a person has edited, if one has: its text begins with that."""
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
    """The members of the Custom event that tells of the edit, in front of the event that tells the result. None where
    nobody has edited anything."""
    if result.edited_arguments is None:
        return None
    value = {"toolCallId": result.tool_call_id or "", "arguments": result.edited_arguments}
    return {"name": "arguments_edited", "value": value, "size": size_of(value)}

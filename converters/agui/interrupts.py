"""Interrupts as AG-UI has them, by the rules of `converters.interrupts`."""

from collections.abc import Iterable, Sequence
from typing import Any

from agent_core.events import Event, RequireExternalExecution, RequireUserConfirm
from agent_core.interrupts import Interrupt
from converters.interrupts import arguments_of, as_many_as_fit, expiry_of, words
from converters.wire import Frame

APPROVAL = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}
"""The schema of an approval's answer. It has only what clients can render, because they fail on anything else."""

RESULT = {"type": "object", "properties": {"result": {}}, "required": ["result"]}
"""The schema of an answer to a call that waits for an operation."""


class Interrupts:
    """Shows nothing before the run ends. The run's end lists the interrupts. Clients find the calls that wait for them
    by the missing results."""

    claims = (RequireExternalExecution, RequireUserConfirm)

    def convert(self, event: Event) -> Sequence[Frame]:  # noqa: ARG002  # the protocol's signature
        return ()


def interrupts_of(waiting: Iterable[Interrupt]) -> list[dict[str, Any]]:
    """The interrupts, as many as fit one frame."""
    return as_many_as_fit(waiting, interrupt_of)


def interrupt_of(interrupt: Interrupt) -> dict[str, Any]:
    """One interrupt in AG-UI's shape."""
    approval = interrupt.kind == "approval"
    members: dict[str, Any] = {
        "id": interrupt.id,
        "reason": "tool_call" if approval else "waiting",
        "toolCallId": interrupt.call_id,
        "responseSchema": APPROVAL if approval else RESULT,
    }
    if interrupt.message:
        members["message"] = words(interrupt.message)
    if (expiry := expiry_of(interrupt)) is not None:
        members["expiresAt"] = expiry
    return members | {"metadata": _about_call(interrupt) if approval else _about_operation(interrupt)}


def _about_call(interrupt: Interrupt) -> dict[str, Any]:
    arguments = arguments_of(interrupt)
    about = {"toolName": interrupt.name}
    return about if arguments is None else about | {"arguments": arguments}


def _about_operation(interrupt: Interrupt) -> dict[str, Any]:
    about: dict[str, Any] = {"toolName": interrupt.name, "operationId": interrupt.operation_id}
    if interrupt.wait_id is not None:
        about["waitId"] = words(interrupt.wait_id)
    if interrupt.retry_after is not None:
        about["retryAfter"] = interrupt.retry_after
    return about

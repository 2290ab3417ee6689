"""What a run waits for outside."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from agent_core.events import Event, RequireExternalExecution, RequireUserConfirm
from agent_core.interrupts import Interrupt
from converters.wire import TEXT_LIMIT, Frame, cut, to_json

LARGEST_ARGUMENTS = 64 * 1024
"""Bytes of the JSON of one call's arguments that are told again; the client was streamed all of them."""

LONGEST_WORDS = 4_000
"""Bytes of the JSON of a message, and of what a tool says about an operation."""

LARGEST_LIST = TEXT_LIMIT - 64 * 1024
"""Bytes of the JSON of all interrupts of a run. The others are told when these are answered."""

FAR = 253_402_300_800_000
"""The year 10000, which ISO 8601 and clients have no date for: what expires then does not expire."""

APPROVAL = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}
"""What answers an approval: the shape that clients render. No more, since they fail on what they do not know."""

RESULT = {"type": "object", "properties": {"result": {}}, "required": ["result"]}
"""What answers a call that waits."""


class Interrupts:
    """Nothing is told of what a run waits for until it ends: its end lists what a person or an operation must
    answer, and clients derive the calls that wait for themselves from those that have no result.
    """

    claims = (RequireExternalExecution, RequireUserConfirm)

    def convert(self, event: Event) -> Sequence[Frame]:  # noqa: ARG002  # the protocol's signature
        return ()


def interrupts_of(waiting: Iterable[Interrupt]) -> list[dict[str, Any]]:
    """The interrupts as AG-UI has them, as many as fit a frame."""
    told: list[dict[str, Any]] = []
    room = LARGEST_LIST
    for interrupt in waiting:
        members = interrupt_of(interrupt)
        room -= len(to_json(members)) + 1
        if room < 0:
            break
        told.append(members)
    return told


def interrupt_of(interrupt: Interrupt) -> dict[str, Any]:
    """One interrupt as AG-UI has it."""
    approval = interrupt.kind == "approval"
    members: dict[str, Any] = {
        "id": interrupt.id,
        "reason": "tool_call" if approval else "waiting",
        "toolCallId": interrupt.call_id,
        "responseSchema": APPROVAL if approval else RESULT,
    }
    if interrupt.message:
        members["message"] = cut(interrupt.message, LONGEST_WORDS)
    if 0 < interrupt.expires_at < FAR:
        members["expiresAt"] = iso(interrupt.expires_at)
    return members | {"metadata": _about_call(interrupt) if approval else _about_operation(interrupt)}


def arguments_of(interrupt: Interrupt) -> Any:
    """The arguments that a person is asked about, None where they are too large to be told again."""
    try:
        orjson.loads(interrupt.arguments or "{}")  # stricter about what is JSON at all
        value = json.loads(interrupt.arguments or "{}")  # exact, also for integers over 64 bits
        value = {} if value is None else value
    except ValueError:
        value = interrupt.arguments
    return value if len(to_json(value)) <= LARGEST_ARGUMENTS else None


def iso(at: int) -> str:
    """Milliseconds since the epoch as ISO 8601 in UTC with Z."""
    text = datetime.fromtimestamp(at // 1000, UTC).replace(microsecond=at % 1000 * 1000)
    return text.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _about_call(interrupt: Interrupt) -> dict[str, Any]:
    arguments = arguments_of(interrupt)
    about = {"toolName": interrupt.name}
    return about if arguments is None else about | {"arguments": arguments}


def _about_operation(interrupt: Interrupt) -> dict[str, Any]:
    about: dict[str, Any] = {"toolName": interrupt.name, "operationId": interrupt.operation_id}
    if interrupt.wait_id is not None:
        about["waitId"] = cut(interrupt.wait_id, LONGEST_WORDS)
    if interrupt.retry_after is not None:
        about["retryAfter"] = interrupt.retry_after
    return about

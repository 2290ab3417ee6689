"""Interrupts: questions that wait for a person's approval, or for the result of an operation elsewhere.

An interrupt belongs to one call. It is stored with the session, so any worker can go on with its answer. `decide`
makes a decision of an answer or refuses it, before anything is stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson
from msgspec import Struct

from agent_core.errors import InvalidRequest
from agent_core.messages import well_formed

LONGEST_REASON = 2_000
"""The model is told this many characters of a person's reason."""

EDITED = ("arguments", "editedArguments", "args")
"""The names under which clients send edited arguments. The first that is there counts."""

ANSWER_IGNORED = "answer_ignored"
"""The custom event about an answer whose interrupt waits no more: `{interruptId}`."""

Kind = Literal["approval", "waiting"]


class Interrupt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The question of one call.

    - approval: a person must agree to exactly these `arguments` (JSON text)
    - waiting: the tool has begun the operation `operation_id` elsewhere, and its result must come; the tool gives
      `wait_id` and `retry_after` (seconds) for whoever waits

    `expires_at` and `created_at` are milliseconds since the epoch. An interrupt with `expires_at` 0 never expires.
    """

    id: str
    kind: Kind
    call_id: str
    name: str
    arguments: str = "{}"
    message: str = ""
    expires_at: int = 0
    created_at: int = 0
    operation_id: str = ""
    wait_id: str | None = None
    retry_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A client's answer to an interrupt, as it came. `cancelled` abandons the interrupt. `param` is the answer's place
    in the request, for errors."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"] = "resolved"
    payload: Any = None
    param: str = "resume[0]"


class Decision(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The meaning of an answer. `arguments` is JSON text if a person has edited them, else empty. `text` is the reason
    of a denial, or the result of an operation."""

    kind: Literal["approved", "denied", "abandoned", "result", "failed"]
    arguments: str = ""
    text: str = ""


def decide(interrupt: Interrupt, answer: Answer, now: int) -> Decision:
    """Judge an answer at the time `now`, in milliseconds. Raises InvalidRequest that names the wrong field."""
    if answer.status == "cancelled":
        return Decision(kind="abandoned")
    if interrupt.expires_at and now >= interrupt.expires_at:
        raise InvalidRequest(f"{answer.param}: this interrupt has expired; it can only be cancelled.", answer.param)
    if interrupt.kind == "waiting":
        return _result(answer)
    return _approval(answer)


def _approval(answer: Answer) -> Decision:
    where = f"{answer.param}.payload"
    payload = answer.payload
    if not isinstance(payload, dict):
        raise InvalidRequest(f"{where}: an object with `approved` is needed.", where)
    approved, reason = payload.get("approved"), payload.get("reason")
    if not isinstance(approved, bool):
        raise InvalidRequest(f"{where}.approved: true or false is needed.", f"{where}.approved")
    if reason is not None and not isinstance(reason, str):
        raise InvalidRequest(f"{where}.reason: a text is needed.", f"{where}.reason")
    if not approved:
        return Decision(kind="denied", text=well_formed(reason or "")[:LONGEST_REASON])
    name = edited_member(payload)
    if name is None:
        return Decision(kind="approved")
    if not isinstance(payload[name], dict):
        raise InvalidRequest(f"{where}.{name}: an object is needed.", f"{where}.{name}")
    return Decision(kind="approved", arguments=_json(payload[name], f"{where}.{name}"))


def edited_member(payload: Mapping[str, Any]) -> str | None:
    """The member of an approval's payload that holds edited arguments, or None."""
    return next((name for name in EDITED if payload.get(name) is not None), None)


def _result(answer: Answer) -> Decision:
    where = f"{answer.param}.payload"
    payload = answer.payload
    if isinstance(payload, dict) and set(payload) == {"error"}:
        return Decision(kind="failed", text=_text(payload["error"], where))
    if isinstance(payload, dict) and set(payload) == {"result"}:
        payload = payload["result"]
    return Decision(kind="result", text=_text(payload, where))


def _text(value: Any, where: str) -> str:
    return well_formed(value) if isinstance(value, str) else _json(value, where)


def _json(value: Any, where: str) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError as error:  # only an answer made in code can hold this: one from the wire was JSON
        raise InvalidRequest(f"{where}: this is no JSON.", where) from error

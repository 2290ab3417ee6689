"""How a run's answers decide about the calls that wait for something outside."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from agent_core.checking.arguments import misfits_of
from agent_core.edits import same_arguments, with_edit
from agent_core.errors import InvalidRequest
from agent_core.interrupts import Answer, Decision, Interrupt, decide, edited_member
from agent_core.messages import Message, ToolCall
from agent_core.pairing import result_of
from agent_core.react.calls.tool_call import capped
from agent_core.react.lane import Lane
from agent_core.react.opening.client_calls import waiting_for_client
from agent_core.sessions.entries import Addition, now_ms
from agent_core.sessions.kinds import AnsweredBody
from agent_core.tools.complaints import DOES_NOT_FIT, Misfits

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Decided:
    """The decisions of this run's answers, each under its interrupt's id. `unknown` are ids that nobody knows. `late`
    are those of interrupts that had no answer and wait no more: the user has moved on."""

    decisions: dict[str, Decision] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)

    def entries(self, lane: Lane) -> list[Addition]:
        return [lane.entry(AnsweredBody(interrupt_id=each, decision=made)) for each, made in self.decisions.items()]


def decided(lane: Lane, waiting: Sequence[Interrupt]) -> Decided:
    """Judge the answers to what waits. An interrupt that was answered before stays as it was.

    Raises InvalidRequest for an answer that cannot be used; then none of them counts.
    """
    found = Decided()
    pending = {each.id: each for each in waiting}
    asked = {each.id for each in lane.history.asked.values()}
    now = now_ms()
    for answer in lane.input.answers:
        interrupt = pending.get(answer.interrupt_id)
        if interrupt is not None:
            decision = decide(interrupt, answer, now)
            if decision.arguments and same_arguments(decision.arguments, interrupt.arguments):
                decision = Decision(kind="approved")  # they were sent back as they were
            _check_edit(lane, interrupt, answer, decision)
            found.decisions.setdefault(interrupt.id, decision)
        elif answer.interrupt_id in asked and answer.interrupt_id not in lane.history.decisions:
            found.late.append(answer.interrupt_id)
        elif answer.interrupt_id not in lane.history.decisions:
            found.unknown.append(answer.interrupt_id)
    return found


def _check_edit(lane: Lane, interrupt: Interrupt, answer: Answer, decision: Decision) -> None:
    """Raise InvalidRequest with the member's name, if edited arguments do not fit the tool's schema or its own types.
    The types may demand more than a schema can say. A missing tool is told when it is called."""
    spec = next((spec for spec in lane.offered if spec.name == interrupt.name), None)
    if not decision.arguments or spec is None:
        return
    arguments: dict[str, Any] = orjson.loads(decision.arguments)
    validators = lane.scope.validators
    misfits = misfits_of(arguments, decision.arguments, spec, validators) or _own_misfits(lane, spec.name, arguments)
    if misfits is not None:
        raise _refusal(misfits, f"{answer.param}.payload.{edited_member(answer.payload)}")


def _own_misfits(lane: Lane, name: str, arguments: dict[str, Any]) -> Misfits | None:
    find = getattr(lane.tools.get(name), "misfits", None)  # a user's own Tool need not have it
    try:
        found = None if find is None else find(arguments)
    except Exception as error:  # from a user's own validator; it fails again when the tool is called
        logger.debug("the arguments of tool %s could not be checked (%s)", name, type(error).__name__)
        return None
    return found if isinstance(found, Misfits) else None


def _refusal(misfits: Misfits, path: str) -> InvalidRequest:
    if not misfits.complaints:
        return InvalidRequest(f"{path}: {DOES_NOT_FIT}", path)
    first, *others = misfits.complaints
    param = f"{path}.{first.where}" if first.path else path
    also = "".join(f" {each.where}: {each.expected}." for each in others)
    return InvalidRequest(f"{param}: {first.expected}.{also}", param)


def settled(lane: Lane, calls: Sequence[ToolCall], answers: Decided, *, said: bool) -> list[Message]:
    """Results for those of the open calls that are the server's and will not run.

    With `said`, the person has said something new, so interrupts without an answer are settled. If they approve nothing
    with it, no call runs, not even one that was approved before.
    """
    moved_on = said and not any(each.kind in ("approved", "result") for each in answers.decisions.values())
    results: list[Message] = []
    clients = {call.id for call in waiting_for_client(calls, lane.tools, lane.history.not_the_clients)}
    for call in calls:
        if call.id not in clients:
            result = _result(lane, call, answers, said=said, moved_on=moved_on)
            if result is not None:
                results.append(with_edit(result, lane.history.edit_of(call, answers.decisions)))
    return results


def _result(lane: Lane, call: ToolCall, answers: Decided, *, said: bool, moved_on: bool) -> Message | None:
    history = lane.history
    interrupt = history.asked.get(call.id)
    decision = None
    if interrupt is not None:
        decision = answers.decisions.get(interrupt.id) or history.decisions.get(interrupt.id)
    if interrupt is not None and interrupt.kind == "waiting":
        return _waited(call, decision, said)
    started = call.id in history.started
    if started and not getattr(lane.tools.get(call.name), "idempotent", False):  # a user's own Tool may not have it
        return history.unrun(call)
    if interrupt is not None and decision is None:
        return history.unrun(call, "The user went on without answering.", began=False) if said else None
    if moved_on and (decision is None or decision.kind == "approved"):
        return history.unrun(call)
    return None


def _waited(call: ToolCall, decision: Decision | None, said: bool) -> Message | None:
    if decision is None:
        return result_of(call, "interrupted") if said else None
    if decision.kind == "result":
        return result_of(call, "ok", capped(decision.text) or "(the operation returned nothing)")
    if decision.kind == "failed":
        return result_of(call, "error", capped(decision.text))
    return result_of(call, "interrupted", "Nobody waits for its result any more.")

"""What to do with a call: run it here, ask a person first, leave it to the client, deny it, or answer that it is wrong,
came from outside, or had begun before. Nothing here has an effect; `acting` has."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec.structs import replace

from agent_core.checking.arguments import checked, weight_of
from agent_core.interrupts import Decision
from agent_core.messages import ToolCall
from agent_core.react.lane import Lane
from agent_core.tools.base import ToolSpec

MUCH = 20_000
"""Work (`Aside`) after which other runs get a turn: an answer may have many calls."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do. `reason` is for the model if the call is not run, and for a person who is asked. `by_person`: a
    person has decided it."""

    kind: Literal["run", "ask", "client", "deny", "wrong", "abandoned", "foreign", "begun"]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    by_person: bool = False

    @property
    def may_be_blocked(self) -> bool:
        """Whether a guard may still block the call when its turn comes. Not if a person has decided about it, nor if
        the model did not ask for it in this run."""
        return not self.by_person and self.kind not in ("client", "foreign", "begun")


async def judge(lane: Lane, call: ToolCall) -> Verdict:
    """Judge one call of the model; in a thread if its arguments or its schema are large.

    A call that had begun before never begins again, whatever a person has approved, unless its tool is idempotent.
    A call from outside never runs. Only tools that were offered to the model in this run can run, with arguments that
    fit their schemas. A person's answer counts only for the call that it was given to.
    """
    earlier = _earlier(lane, call)
    if earlier is not None:
        return earlier
    spec = next((spec for spec in lane.offered if spec.name == call.name), None)
    if spec is None:
        names = ", ".join(sorted(spec.name for spec in lane.offered)) or "none"
        return Verdict("wrong", {}, f"There is no tool named {call.name!r}. The tools that can be called are: {names}.")
    decision = _decision(lane, call)
    if decision is not None and decision.kind == "abandoned":
        return Verdict("abandoned", {}, "The person who was asked has abandoned it.", by_person=True)
    if decision is not None and decision.kind == "denied":
        said = f" The person says: {decision.text}" if decision.text else ""
        return Verdict("deny", {}, f"The person who was asked has denied it.{said}", by_person=True)
    edited = decision is not None and bool(decision.arguments)
    if decision is not None and edited:
        call = replace(call, arguments=decision.arguments)
    weight = weight_of(call, spec, lane.scope.validators)
    arguments, wrong = await lane.scope.aside(weight, checked, call, spec, lane.scope.validators)
    if weight > MUCH:
        await asyncio.sleep(0)
    if arguments is None:
        return Verdict("wrong", {}, wrong, by_person=edited)
    verdict = _permitted(lane, spec, arguments)
    # A person's approval takes the place of the asking, and of nothing else. What a rule denies stays denied, also
    # if the person has edited the arguments so that the rule applies.
    if decision is not None and verdict.kind == "ask":
        return Verdict("run", arguments, by_person=True)
    return Verdict(verdict.kind, arguments, verdict.reason, by_person=edited)


def _earlier(lane: Lane, call: ToolCall) -> Verdict | None:
    """The verdict on a call that follows from before this run; None if there is none."""
    foreign = call.id in lane.history.foreign
    # A user's own Tool may not say whether it is idempotent.
    again = not foreign and bool(getattr(lane.tools.get(call.name), "idempotent", False))
    if call.id in lane.history.started and not again:
        return Verdict("begun")
    return Verdict("foreign", {}, "It came with a conversation from outside.") if foreign else None


def _decision(lane: Lane, call: ToolCall) -> Decision | None:
    """What a person has decided about exactly this call."""
    interrupt = lane.history.asked.get(call.id)
    if interrupt is None or (interrupt.name, interrupt.arguments) != (call.name, call.arguments):
        return None
    return lane.history.decisions.get(interrupt.id)


def _permitted(lane: Lane, spec: ToolSpec, arguments: Mapping[str, Any]) -> Verdict:
    tool = lane.tools.get(spec.name)
    decided, reason = lane.agent.permissions.judge(
        spec.name,
        {**spec.defaults, **arguments},  # the tool runs with the defaults, whether the model writes them out or not
        approval=tool is not None and tool.approval,
        context=lane.context,
    )
    if decided == "deny":
        return Verdict("deny", arguments, reason)
    if tool is None:
        return Verdict("client", arguments)  # the client asks its own person
    return Verdict(decided, arguments, reason)

"""What came of calls: stored first, and then told."""

from msgspec.structs import replace

from agent_core.edits import told_edit, with_edit
from agent_core.events import Custom, ToolResultEnd
from agent_core.guards.digests import noted
from agent_core.guards.watch import BLOCKED, Trip
from agent_core.interrupts import Interrupt
from agent_core.messages import Message, ToolCall, new_id
from agent_core.pairing import result_of
from agent_core.react.calls.tool_call import Outcome, not_kept
from agent_core.react.changes import StateChange, StateEdit, change_by
from agent_core.react.lane import Lane
from agent_core.sessions.entries import Addition, now_ms
from agent_core.sessions.kinds import AskedBody
from agent_core.tools.base import Pending

LONGEST_ERROR = 100
"""Characters of the name of an error's class that are kept."""


async def store_outcome(lane: Lane, reply_id: str, call: ToolCall, outcome: Outcome) -> None:
    """Store the result together with its change of the state. Then tell both."""
    composed: list[tuple[StateChange | None, Message]] = []

    def compose() -> list[Addition]:
        change, kept = _change(lane, outcome)
        result = make_result(lane, reply_id, call, kept)
        composed.append((change, result))
        return [*_state_entries(lane, change), *lane.results_of(result)]

    def stored() -> None:
        [(change, result)] = composed
        if change is not None:
            lane.changed(change)
        tell(lane, result, reply_id)

    await lane.write(compose, stored)


def _change(lane: Lane, outcome: Outcome) -> tuple[StateChange | None, Outcome]:
    """What the call changes in the state as it stands now, and its outcome with that."""
    if outcome.edit is None:
        return None, outcome
    try:
        return change_by(outcome.edit, lane.history), outcome
    except ValueError as error:  # too large, with what calls beside it have put there
        return None, not_kept(error)


def _state_entries(lane: Lane, change: StateChange | None) -> list[Addition]:
    return [] if change is None else [lane.entry(change.body)]


def make_result(lane: Lane, reply_id: str, call: ToolCall, outcome: Outcome) -> Message:
    """The result, followed by what the guards tell the model."""
    assert not isinstance(outcome.content, Pending)
    result = with_edit(result_of(call, outcome.status, outcome.content), lane.history.edit_of(call))
    return watched(lane, replace(result, error=outcome.error[:LONGEST_ERROR]), reply_id)


def watched(lane: Lane, result: Message, reply_id: str = "") -> Message:
    """Show a result to the guards before it is stored. Returns it, followed by what they tell the model."""
    trip = lane.watch.result(result)
    if trip is None:
        return result
    lane.tripped(trip, reply_id)
    return noted(result, trip.told)


def make_blocked(lane: Lane, reply_id: str, call: ToolCall, trip: Trip) -> Message:
    """The result of a call that a guard blocks."""
    lane.tripped(trip, reply_id)
    return replace(result_of(call, "error", trip.told), error=BLOCKED)


async def store_wait(lane: Lane, call: ToolCall, pending: Pending, edit: StateEdit | None) -> None:
    """Store that the tool has begun something that goes on elsewhere. Its result comes in a later run. A change of the
    state that cannot be stored is left out: the wait matters more."""
    interrupt = Interrupt(
        id=new_id("interrupt"),
        kind="waiting",
        call_id=call.id,
        name=call.name,
        arguments=lane.history.edit_of(call) or call.arguments,
        message=f"{call.name} waits for a result from outside.",
        created_at=now_ms(),
        operation_id=pending.operation_id,
        wait_id=pending.wait_id,
        retry_after=pending.retry_after,
    )
    changes: list[StateChange] = []

    def compose() -> list[Addition]:
        change, _ = _change(lane, Outcome("ok", pending, edit))
        if change is not None:
            changes.append(change)
        return [*_state_entries(lane, change), lane.entry(AskedBody(agent=lane.agent.name, interrupt=interrupt))]

    def stored() -> None:
        for change in changes:
            lane.changed(change)

    await lane.write(compose, stored)


async def answer(lane: Lane, result: Message, *, reply_id: str = "") -> None:
    """Store a result, then tell it: so a result that a client has seen is never lost."""
    told: list[Message] = []

    def compose() -> list[Addition]:
        told.append(watched(lane, result, reply_id))
        return lane.results_of(*told)

    await lane.write(compose, lambda: tell(lane, told[0], reply_id))


def tell(lane: Lane, result: Message, reply_id: str = "") -> None:
    """Tell a stored result, and in front of it how a person has edited the call's arguments."""
    edit = told_edit(result)
    if edit is not None:
        lane.emit(Custom, reply_id=reply_id, **edit)
    lane.untold.discard(result.id)
    lane.emit(
        ToolResultEnd,
        reply_id=reply_id,
        call_id=result.tool_call_id or "",
        name=result.name or "",
        message_id=result.id,
        status=result.status,
        content=result.text,
        parts=() if isinstance(result.content, str) else result.content,
    )

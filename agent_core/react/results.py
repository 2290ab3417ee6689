"""What came of calls: stored first, and then told."""

from collections.abc import Callable

from msgspec.structs import replace

from agent_core.events import ToolResultEnd
from agent_core.guards.digests import noted
from agent_core.guards.watch import BLOCKED, Trip
from agent_core.interrupts import Interrupt
from agent_core.messages import Message, ToolCall, new_id
from agent_core.pairing import result_of
from agent_core.react.changes import StateChange, StateEdit, change_by
from agent_core.react.edits import edit_event, edit_of, with_edit
from agent_core.react.run import Run
from agent_core.react.tool_call import Outcome, not_kept
from agent_core.sessions.entries import Entry, asked_entry, now_ms
from agent_core.tools.base import Pending

LONGEST_ERROR = 100
"""Characters of the name of an error's class that are kept."""


async def store_outcome(run: Run, reply_id: str, call: ToolCall, outcome: Outcome) -> None:
    """Store the result with the change of the state that came with it, and then tell both."""
    composed: list[tuple[StateChange | None, Message]] = []

    def compose() -> list[Entry]:
        change, kept = _change(run, outcome)
        result = make_result(run, reply_id, call, kept)
        composed.append((change, result))
        return [*_state_entries(run, change), *run.entries_of(result)]

    def stored() -> None:
        [(change, result)] = composed
        if change is not None:
            run.changed(change)
        tell(run, result, reply_id)

    await run.write(compose, stored)


def _change(run: Run, outcome: Outcome) -> tuple[StateChange | None, Outcome]:
    """What the call changes in the state as it stands now, and what came of it with that."""
    if outcome.edit is None:
        return None, outcome
    try:
        return change_by(outcome.edit, run.history), outcome
    except ValueError as error:  # too large, with what calls beside it have put there
        return None, not_kept(error)


def _state_entries(run: Run, change: StateChange | None) -> list[Entry]:
    return [] if change is None else [change.entry(run.run_id)]


def make_result(run: Run, reply_id: str, call: ToolCall, outcome: Outcome) -> Message:
    """The result, with what the guards say to the model behind it."""
    assert not isinstance(outcome.content, Pending)
    result = with_edit(result_of(call, outcome.status, outcome.content), edit_for(run, call))
    return watched(run, replace(result, error=outcome.error[:LONGEST_ERROR]), reply_id)


def edit_for(run: Run, call: ToolCall) -> str:
    return edit_of(call, run.history.asked, run.history.decisions)


def watched(run: Run, result: Message, reply_id: str = "") -> Message:
    """Show a result to the guards before it is stored: the result with what they say to the model behind it."""
    trip = run.watch.result(result)
    if trip is None:
        return result
    run.tripped(trip, reply_id)
    return noted(result, trip.told)


def make_blocked(run: Run, reply_id: str, call: ToolCall, trip: Trip) -> Message:
    """The result of a call that a guard does not let run."""
    run.tripped(trip, reply_id)
    return replace(result_of(call, "error", trip.told), error=BLOCKED)


async def store_wait(run: Run, call: ToolCall, pending: Pending, edit: StateEdit | None) -> None:
    """The tool has begun something that goes on elsewhere: its result comes in a later run. A change of the state
    that cannot be is left out, rather than what it waits for."""
    interrupt = Interrupt(
        id=new_id("interrupt"),
        kind="waiting",
        call_id=call.id,
        name=call.name,
        arguments=edit_for(run, call) or call.arguments,
        message=f"{call.name} waits for a result from outside.",
        created_at=now_ms(),
        operation_id=pending.operation_id,
        wait_id=pending.wait_id,
        retry_after=pending.retry_after,
    )
    changes: list[StateChange] = []

    def compose() -> list[Entry]:
        change, _ = _change(run, Outcome("ok", pending, edit))
        if change is not None:
            changes.append(change)
        return [*_state_entries(run, change), asked_entry(run.run_id, run.agent.name, interrupt)]

    def stored() -> None:
        run.history.asked[call.id] = interrupt
        for change in changes:
            run.changed(change)

    await run.write(compose, stored)


async def answer(run: Run, result: Message, *, reply_id: str = "") -> None:
    """Store a result and then tell it: a result that a client has seen is never lost."""
    told: list[Message] = []

    def compose() -> list[Entry]:
        told.append(watched(run, result, reply_id))
        return run.entries_of(*told)

    await run.write(compose, lambda: tell(run, told[0], reply_id))


def tell(run: Run, result: Message, reply_id: str = "", *, add: Callable[[Message], None] | None = None) -> None:
    """Tell a result that is stored, and in front of it what a person has made of the call's arguments.

    The history gets it (by `add`, or else by the run's own) with its own event and not before: what a reader is shown
    in the place of earlier events must not have what it is told next.
    """
    edit = edit_event(run.run_id, result, reply_id)
    if edit is not None:
        run.emit(edit)
    (add or run.add)(result)
    run.emit(
        ToolResultEnd(
            run_id=run.run_id,
            reply_id=reply_id,
            call_id=result.tool_call_id or "",
            name=result.name or "",
            message_id=result.id,
            status=result.status,
            content=result.text,
            parts=() if isinstance(result.content, str) else result.content,
        )
    )

"""Acting: the calls of one answer, each with exactly one result, or with a reason to wait for one."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from agent_core.events import RequireExternalExecution, RequireUserConfirm, RunStatus, ToolResultEnd
from agent_core.interrupts import Interrupt
from agent_core.messages import Message, ResultStatus, ToolCall, new_id
from agent_core.react.batch import Job, run_batch
from agent_core.react.calling import Outcome, call_tool
from agent_core.react.edits import edit_event, edit_of, with_edit
from agent_core.react.guards import BLOCKED, Trip
from agent_core.react.opening.calls import waiting_for_client
from agent_core.react.pairing import open_calls, result_of
from agent_core.react.permissions import Verdict, judge
from agent_core.react.run import Run
from agent_core.react.sameness import noted
from agent_core.sessions.entries import Entry, asked_entry, now_ms, started_entry
from agent_core.tools.base import Pending

Judged = Sequence[tuple[ToolCall, Verdict]]

LONGEST_ERROR = 100
"""Characters of the name of an error's class that are kept."""


async def act(run: Run, message: Message) -> RunStatus | None:
    """Store the message and answer its calls. Returns how the run ends where calls are left that wait for
    something outside, else None.

    The guards see each call here and once, whoever is to run it, and before anybody is asked about it. The calls
    that are cleared to run are stored as started together with the message: after a crash, nobody runs one of them
    again. Where one call must be asked about, those beside it wait with it. A failing tool is a result; what comes up
    from here is Stopped, or the store's failure, and then `settle` answers what is open.
    """
    blocks = run.watch.asked(message.tool_calls)
    judged: list[tuple[ToolCall, Verdict]] = []
    refused: list[Message] = []
    for call in message.tool_calls:
        if call.id in blocks:
            refused.append(_blocked(run, message.id, call, blocks[call.id]))
            continue
        verdict = judge(run, call)
        # What is refused and not ours is answered in the same step: a later run would take it for its client's.
        if call.name not in run.tools and verdict.kind in ("deny", "wrong"):
            refused.append(_result(run, message.id, call, _refusal(verdict)))
        else:
            judged.append((call, verdict))
    asked = _ask(run, judged)
    to_do = [] if asked else judged
    await run.commit(message, *refused, after=asked or _clear(run, to_do))
    for result in refused:
        tell(run, result, message.id)
    await _carry_out(run, message.id, to_do)
    return left_waiting(run)


async def act_again(run: Run) -> RunStatus | None:
    """Go on with the calls that an earlier run left open, as `act` does: those that a person has agreed to,
    those that waited beside them, those that had not started, and those of idempotent tools, under the keys that
    they had. Any other that had begun was interrupted. As long as one waits for its answer, none is run."""
    history = run.history
    ours = history.not_the_clients
    calls = [call for call in open_calls(history.messages) if call.name in run.tools or call.id in ours]
    if calls and not run.history.pending:
        judged = [(call, judge(run, call)) for call in calls]
        asked = _ask(run, judged)
        if asked:
            await run.append(*asked)
        else:
            reply_id = next(each.id for each in reversed(run.history.messages) if each.tool_calls)
            await run.append(*_clear(run, judged))
            await _carry_out(run, reply_id, judged)
    return left_waiting(run)


def left_waiting(run: Run) -> RunStatus | None:
    """How the run ends where calls at the history's tail wait for somebody, and say so; None where none does."""
    history = run.history
    calls, pending = waiting_for_client(history.messages, run.tools, history.not_the_clients), history.pending
    if calls:
        run.emit(RequireExternalExecution(run_id=run.run_id, call_ids=tuple(call.id for call in calls)))
    if pending:
        run.emit(RequireUserConfirm(run_id=run.run_id, interrupts=pending))
        return "approval" if any(each.kind == "approval" for each in pending) else "waiting"
    return "client_tools" if calls else None


def _ask(run: Run, judged: Judged) -> list[Entry]:
    """Note what a person must be asked; the entries that say so."""
    entries: list[Entry] = []
    now, seconds = now_ms(), run.agent.approval_seconds
    for call, verdict in judged:
        if verdict.kind == "ask":
            interrupt = Interrupt(
                id=new_id("interrupt"),
                kind="approval",
                call_id=call.id,
                name=call.name,
                arguments=call.arguments,
                message=verdict.reason or f"The agent wants to call {call.name}.",
                created_at=now,
                expires_at=0 if seconds is None else now + int(seconds * 1000),
            )
            run.history.asked[call.id] = interrupt
            entries.append(asked_entry(run.run_id, run.agent.name, interrupt))
    return entries


def _says(run: Run, call: ToolCall, name: str) -> bool:
    return bool(getattr(run.tools.get(call.name), name, False))  # a user's own Tool may not say


def _clear(run: Run, judged: Judged) -> list[Entry]:
    """Mark the calls that are going to be run as started; the entries that say so."""
    entries: list[Entry] = []
    for call, verdict in judged:
        if verdict.kind == "run":
            key = run.history.started[call.id] = run.key_of(call)
            run.cleared.add(call.id)
            entries.append(started_entry(run.run_id, call.id, key))
    return entries


async def _carry_out(run: Run, reply_id: str, judged: Judged) -> None:
    """Run the calls, or say why not; those of the client stay open."""
    most = run.agent.max_parallel_tool_calls if run.agent.parallel_tool_calls else 1
    jobs = [
        Job(exclusive=_says(run, call, "exclusive"), work=partial(_answer_call, run, reply_id, call, verdict))
        for call, verdict in judged
        if verdict.kind != "client"
    ]
    await run_batch(jobs, most=most)


async def _answer_call(run: Run, reply_id: str, call: ToolCall, verdict: Verdict) -> None:
    if run.sink.full:
        await run.stop.guard(run.sink.room())
    block = run.watch.due(call.id) if verdict.may_be_blocked else None
    if block is not None:
        await answer(run, _blocked(run, reply_id, call, block), reply_id=reply_id)
        return
    if verdict.kind != "run":
        await _tell(run, reply_id, call, _refusal(verdict))
        return
    outcome = await call_tool(run, reply_id, call, verdict.arguments)
    if isinstance(outcome.content, Pending):
        await _wait(run, call, outcome.content, outcome.state)
    else:
        await _tell(run, reply_id, call, outcome)


STATUSES: Mapping[str, ResultStatus] = {
    "deny": "denied",
    "abandoned": "not_run",
    "foreign": "not_run",
    "begun": "interrupted",
}
"""How the result of a call is marked that is not run; the others are errors."""


def _refusal(verdict: Verdict) -> Outcome:
    return Outcome(STATUSES.get(verdict.kind, "error"), verdict.reason, error=verdict.kind)


async def _tell(run: Run, reply_id: str, call: ToolCall, outcome: Outcome) -> None:
    """Store the result with the change of the state that came with it, and then tell both."""
    result = _result(run, reply_id, call, outcome)
    change = run.change_state(outcome.state) if outcome.status == "ok" else None
    await run.commit(result, before=[] if change is None else [change[0]])
    if change is not None:
        run.emit(change[1])
    tell(run, result, reply_id)


def _result(run: Run, reply_id: str, call: ToolCall, outcome: Outcome) -> Message:
    """The result, with what the guards say to the model behind it."""
    assert not isinstance(outcome.content, Pending)
    result = with_edit(result_of(call, outcome.status, outcome.content), _edit_of(run, call))
    return watched(run, replace(result, error=outcome.error[:LONGEST_ERROR]), reply_id)


def _edit_of(run: Run, call: ToolCall) -> str:
    return edit_of(call, run.history.asked, run.history.decisions)


def watched(run: Run, result: Message, reply_id: str = "") -> Message:
    """Show a result to the guards before it is stored: the result with what they say to the model behind it."""
    trip = run.watch.result(result)
    if trip is None:
        return result
    run.tripped(trip, reply_id)
    return noted(result, trip.told)


def _blocked(run: Run, reply_id: str, call: ToolCall, trip: Trip) -> Message:
    """The result of a call that a guard does not let run."""
    run.tripped(trip, reply_id)
    return replace(result_of(call, "error", trip.told), error=BLOCKED)


async def _wait(run: Run, call: ToolCall, pending: Pending, state: Any) -> None:
    """The tool has begun something that goes on elsewhere: its result comes in a later run."""
    interrupt = Interrupt(
        id=new_id("interrupt"),
        kind="waiting",
        call_id=call.id,
        name=call.name,
        arguments=_edit_of(run, call) or call.arguments,
        message=f"{call.name} waits for a result from outside.",
        created_at=now_ms(),
        operation_id=pending.operation_id,
        wait_id=pending.wait_id,
        retry_after=pending.retry_after,
    )
    change = run.change_state(state)
    asked = asked_entry(run.run_id, run.agent.name, interrupt)
    await run.append(*([] if change is None else [change[0]]), asked)
    run.history.asked[call.id] = interrupt
    if change is not None:
        run.emit(change[1])


async def answer(run: Run, result: Message, *, reply_id: str = "") -> None:
    """Store a result and then tell it: a result that a client has seen is never lost."""
    result = watched(run, result, reply_id)
    await run.commit(result)
    tell(run, result, reply_id)


def tell(run: Run, result: Message, reply_id: str = "") -> None:
    """Tell a result that is stored, and in front of it what a person has made of the call's arguments."""
    edit = edit_event(run.run_id, result, reply_id)
    if edit is not None:
        run.emit(edit)
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


async def settle(run: Run, reason: str = "", *, keep_asked: bool = False) -> None:
    """Answer every call that this run leaves open, so that the session stays valid: one that had started
    was interrupted, the others were not run.

    With `keep_asked`, calls that a person was asked about, and those beside them, stay open as long as they
    have not begun, and those that wait for an operation too: a run that failed must not use up an approval, nor
    lose a result.
    """
    calls = open_calls(run.history.messages)
    asked = keep_asked and any(call.id in run.history.asked for call in calls)
    waiting = {each.call_id for each in run.history.pending if each.kind == "waiting"} if keep_asked else set()
    for call in calls:
        if call.id in waiting:
            continue
        # What this run cleared but did not begin is known not to have run; what a lost run cleared is not.
        begun = call.id in run.started or (call.id in run.history.started and call.id not in run.cleared)
        if begun or not asked:
            result = result_of(call, "interrupted" if begun else "not_run", reason)
            await answer(run, with_edit(result, _edit_of(run, call)))

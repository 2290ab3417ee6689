"""Acting: the calls of one answer, each with exactly one result, or with a reason to wait for one."""

from collections.abc import Mapping, Sequence
from functools import partial

from agent_core.edits import with_edit
from agent_core.events import RequireExternalExecution, RequireUserConfirm, RunStatus
from agent_core.interrupts import Interrupt
from agent_core.messages import Message, ResultStatus, ToolCall, new_id
from agent_core.react.calls.batch import Job, run_batch
from agent_core.react.calls.result import answer, make_blocked, make_result, store_outcome, store_wait, tell
from agent_core.react.calls.tool_call import Outcome, call_tool
from agent_core.react.calls.verdict import Verdict, judge
from agent_core.react.lane import Lane
from agent_core.react.opening.client_calls import waiting_for_client
from agent_core.sessions.entries import Addition, now_ms
from agent_core.sessions.kinds import AskedBody, StartedBody
from agent_core.tools.base import Pending

Judged = Sequence[tuple[ToolCall, Verdict]]


async def act(lane: Lane, message: Message) -> RunStatus | None:
    """Store the message and answer its calls. Returns how the run ends if some calls wait for something outside, else
    None.

    The guards see each call once, here: before a person is asked, and whoever runs it. Calls that are cleared to run
    are stored as started together with the message, so that nobody runs one again after a crash. If a person must be
    asked about one call, the calls beside it wait too.

    A failing tool is a result. Raises Stopped, or RunError if the store fails. Then `settle` answers the open calls.
    """
    blocks = lane.watch.asked(message.tool_calls)
    judged: list[tuple[ToolCall, Verdict]] = []
    refused: list[Message] = []
    for call in message.tool_calls:
        if call.id in blocks:
            refused.append(make_blocked(lane, message.id, call, blocks[call.id]))
            continue
        verdict = await judge(lane, call)
        # A refused call that is not ours is answered in the same step. A later run would take it for its client's call.
        if call.name not in lane.tools and verdict.kind in ("deny", "wrong"):
            refused.append(make_result(lane, message.id, call, _refusal(verdict)))
        else:
            judged.append((call, verdict))
    asked = _ask(lane, judged)
    to_do = [] if asked else judged
    cleared = _clear(lane, to_do)
    entries = [*lane.entries_of(message), *lane.results_of(*refused), *_entries(lane, asked, cleared)]

    def stored() -> None:
        lane.replied()
        for result in refused:
            tell(lane, result, message.id)
        lane.cleared.update(cleared)

    await lane.write(lambda: entries, stored)
    await _carry_out(lane, message.id, to_do)
    return left_waiting(lane)


async def act_again(lane: Lane) -> RunStatus | None:
    """Go on, as `act` does, with the calls that an earlier run left open.

    Runs calls that a person has approved, calls that waited beside them, and calls that had not started. Runs calls of
    idempotent tools again, with their old keys. Any other call that had begun is interrupted. No call runs while one
    waits for its answer.
    """
    history = lane.history
    ours = history.not_the_clients
    calls = [call for call in history.open_calls if call.name in lane.tools or call.id in ours]
    if calls and not lane.history.pending:
        judged = [(call, await judge(lane, call)) for call in calls]
        asked = _ask(lane, judged)
        cleared = {} if asked else _clear(lane, judged)
        entries = _entries(lane, asked, cleared)
        if entries:
            await lane.write(lambda: entries, lambda: lane.cleared.update(cleared))
        if not asked:
            reply_id = next(each.id for each in reversed(lane.history.messages) if each.tool_calls)
            await _carry_out(lane, reply_id, judged)
    return left_waiting(lane)


def left_waiting(lane: Lane) -> RunStatus | None:
    """Tell which calls at the history's tail wait for somebody. Returns how the run ends then, None if none waits."""
    history = lane.history
    calls, pending = waiting_for_client(history.open_calls, lane.tools, history.not_the_clients), history.pending
    if calls:
        lane.emit(RequireExternalExecution, call_ids=tuple(call.id for call in calls))
    if pending:
        lane.emit(RequireUserConfirm, interrupts=pending)
        return "approval" if any(each.kind == "approval" for each in pending) else "waiting"
    return "client_tools" if calls else None


def _ask(lane: Lane, judged: Judged) -> list[Interrupt]:
    """The interrupts of the calls that a person must approve."""
    now, seconds = now_ms(), lane.agent.approval_seconds
    return [
        Interrupt(
            id=new_id("interrupt"),
            kind="approval",
            call_id=call.id,
            name=call.name,
            arguments=call.arguments,
            message=verdict.reason or f"The agent wants to call {call.name}.",
            created_at=now,
            expires_at=0 if seconds is None else now + int(seconds * 1000),
        )
        for call, verdict in judged
        if verdict.kind == "ask"
    ]


def _says(lane: Lane, call: ToolCall, name: str) -> bool:
    return bool(getattr(lane.tools.get(call.name), name, False))  # a user's own Tool may not say


def _clear(lane: Lane, judged: Judged) -> dict[str, str]:
    """The calls that will run, each with its idempotency key."""
    return {call.id: lane.key_of(call) for call, verdict in judged if verdict.kind == "run"}


def _entries(lane: Lane, asked: Sequence[Interrupt], cleared: Mapping[str, str]) -> list[Addition]:
    waiting = [lane.entry(AskedBody(agent=lane.agent.name, interrupt=interrupt)) for interrupt in asked]
    return waiting + [lane.entry(StartedBody(call_id=call_id, key=key)) for call_id, key in cleared.items()]


async def _carry_out(lane: Lane, reply_id: str, judged: Judged) -> None:
    """Run the calls, or store why not. The client's calls stay open."""
    most = lane.agent.max_parallel_tool_calls if lane.agent.parallel_tool_calls else 1
    jobs = [
        Job(exclusive=_says(lane, call, "exclusive"), work=partial(_answer_call, lane, reply_id, call, verdict))
        for call, verdict in judged
        if verdict.kind != "client"
    ]
    await run_batch(jobs, most=most)


async def _answer_call(lane: Lane, reply_id: str, call: ToolCall, verdict: Verdict) -> None:
    if lane.scope.sink.full:
        await lane.scope.stop.guard(lane.scope.sink.room())
    block = lane.watch.due(call.id) if verdict.may_be_blocked else None
    if block is not None:
        await answer(lane, make_blocked(lane, reply_id, call, block), reply_id=reply_id)
        return
    if verdict.kind != "run":
        await store_outcome(lane, reply_id, call, _refusal(verdict))
        return
    outcome = await call_tool(lane, reply_id, call, verdict.arguments)
    if isinstance(outcome.content, Pending):
        await store_wait(lane, call, outcome.content, outcome.edit)
    else:
        await store_outcome(lane, reply_id, call, outcome)


STATUSES: Mapping[str, ResultStatus] = {
    "deny": "denied",
    "abandoned": "not_run",
    "foreign": "not_run",
    "begun": "interrupted",
}
"""The status of the result of a call that is not run, by verdict; `error` for any other."""


def _refusal(verdict: Verdict) -> Outcome:
    return Outcome(STATUSES.get(verdict.kind, "error"), verdict.reason, error=verdict.kind)


async def settle(lane: Lane, reason: str = "", *, keep_asked: bool = False) -> None:
    """Answer every call that this run leaves open, so that the session stays valid. A call that had started was
    interrupted; the others were not run.

    With `keep_asked`, two kinds stay open: calls that wait for an operation; and calls that a person was asked about,
    with those beside them, unless they have begun. A failed run must not use up an approval or lose a result.
    """
    await lane.scope.writing.quiet()  # a call that was cut off may still store its result, and that counts
    calls = lane.history.open_calls
    asked = keep_asked and any(call.id in lane.history.asked for call in calls)
    waiting = {each.call_id for each in lane.history.pending if each.kind == "waiting"} if keep_asked else set()
    for call in calls:
        if call.id in waiting:
            continue
        # A call that this run cleared but did not begin has not run. Of a lost run's cleared calls nobody knows that.
        begun = call.id in lane.started or (call.id in lane.history.started and call.id not in lane.cleared)
        if begun or not asked:
            result = lane.history.unrun(call, reason, began=begun)
            await answer(lane, with_edit(result, lane.history.edit_of(call)))

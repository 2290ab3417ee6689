"""Acting: the calls of one answer, run one after another, each with exactly one result."""

import asyncio
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from pydantic_core import to_json

from agent_core.context import ToolContext
from agent_core.errors import ToolError
from agent_core.events import Custom, RequireExternalExecution, ToolResultEnd, ToolResultStart
from agent_core.messages import Message, ResultStatus, ToolCall, new_id, well_formed
from agent_core.react.interrupts import SelfCancelled, Stopped
from agent_core.react.pairing import open_calls, result_of
from agent_core.react.permissions import Verdict, judge
from agent_core.react.run import Run
from agent_core.sessions.entries import Entry, started_entry
from agent_core.sessions.state import as_json, copy_of
from agent_core.tools.base import Tool

logger = logging.getLogger(__name__)

LONGEST_RESULT = 16_000
"""Characters of a tool's result that the model and the client get."""

LARGEST_CUSTOM = 64 * 1024
"""Bytes of JSON that a tool may send in one custom event."""


async def act(run: Run, message: Message) -> bool:
    """Store the message and answer its calls.

    The calls that are cleared to run are stored as started together with it: after a crash, nobody runs
    one of them again. Returns True where calls are left that wait for the client. A failing tool is a
    result; what comes up from here is Stopped, or the store's failure, and then `settle` answers what
    is open.
    """
    judged = [(call, judge(run, call)) for call in message.tool_calls]
    await run.commit(message, after=_clear(run, judged))
    waiting = await _carry_out(run, message.id, judged)
    if waiting:
        run.emit(RequireExternalExecution(run_id=run.run_id, reply_id=message.id, call_ids=tuple(waiting)))
    return bool(waiting)


async def act_again(run: Run) -> None:
    """Answer the calls that an earlier run left open and that may be run: those that had not started, and
    those of idempotent tools, under the keys that they had."""
    calls = [call for call in open_calls(run.history.messages) if call.name in run.tools]
    if calls:
        judged = [(call, judge(run, call)) for call in calls]
        await run.append(*_clear(run, judged))
        reply_id = next(each.id for each in reversed(run.history.messages) if each.tool_calls)
        await _carry_out(run, reply_id, judged)


Judged = Sequence[tuple[ToolCall, Verdict]]


def _clear(run: Run, judged: Judged) -> list[Entry]:
    """Mark the calls that are going to be run as started; the entries that say so."""
    entries: list[Entry] = []
    for call, verdict in judged:
        if verdict.kind == "run":
            key = run.history.started[call.id] = run.key_of(call)
            run.cleared.add(call.id)
            entries.append(started_entry(run.run_id, call.id, key))
    return entries


async def _carry_out(run: Run, reply_id: str, judged: Judged) -> list[str]:
    """Run the calls or say why not. Returns the ids of those that wait for the client."""
    waiting: list[str] = []
    for call, verdict in judged:
        if run.sink.full:
            await run.stop.guard(run.sink.room())
        if verdict.kind == "client":
            waiting.append(call.id)
        elif verdict.kind == "run":
            await _run(run, reply_id, call, verdict.arguments)
        else:
            status: ResultStatus = "denied" if verdict.kind == "deny" else "error"
            await answer(run, result_of(call, status, verdict.reason), reply_id=reply_id)
    return waiting


async def answer(run: Run, result: Message, *, reply_id: str = "") -> None:
    """Store a result and then tell it: a result that a client has seen is never lost."""
    await run.commit(result)
    run.emit(result_event(run, result, reply_id))


def result_event(run: Run, result: Message, reply_id: str = "") -> ToolResultEnd:
    """The event that tells a result."""
    return ToolResultEnd(
        run_id=run.run_id,
        reply_id=reply_id,
        call_id=result.tool_call_id or "",
        name=result.name or "",
        message_id=result.id,
        status=result.status,
        content=result.text,
    )


async def settle(run: Run, reason: str = "") -> None:
    """Answer every call that this run leaves open, so that the session stays valid: one that had started
    was interrupted, the others were not run."""
    for call in open_calls(run.history.messages):
        # What this run cleared but did not begin is known not to have run; what a lost run cleared is not.
        begun = call.id in run.started or (call.id in run.history.started and call.id not in run.cleared)
        await answer(run, result_of(call, "interrupted" if begun else "not_run", reason))


async def _run(run: Run, reply_id: str, call: ToolCall, arguments: Mapping[str, Any]) -> None:
    run.check()
    tool = run.tools[call.name]
    run.started.add(call.id)
    run.emit(ToolResultStart(run_id=run.run_id, reply_id=reply_id, call_id=call.id, name=call.name))
    cancelled = threading.Event()
    over = asyncio.Event()
    context = _context(run, call, cancelled, over)
    status, content = await _outcome(run, tool, context, arguments)
    over.set()
    change = None
    if status == "ok":
        try:
            change = run.change_state(_state_after(run, context))
        except ValueError as error:
            status, content = "error", f"the tool ran, but its change of the state was not kept: {error}"
    result = result_of(call, status, content)
    if change is None:
        await answer(run, result, reply_id=reply_id)
    else:
        await run.commit(result, before=[change[0]])
        run.emit(change[1])
        run.emit(result_event(run, result, reply_id))


def _state_after(run: Run, context: ToolContext) -> Any:
    """The state as the tool left it, as JSON. Raises ValueError for one that is too large or refers to itself."""
    before = run.history.state
    return before if before is None and context.state == {} else as_json(context.state)


async def _outcome(
    run: Run, tool: Tool, context: ToolContext, arguments: Mapping[str, Any]
) -> tuple[ResultStatus, str]:
    cancelled = context.cancelled
    try:
        return "ok", await run.stop.guard(_invoke(tool, arguments, context, run), tool.timeout)
    except Stopped:
        cancelled.set()
        raise
    except _Failed as failure:
        return "error", failure.told
    except SelfCancelled:
        return "error", "the tool cancelled itself."
    except TimeoutError:
        cancelled.set()
        return "timed_out", f"the tool did not finish within {tool.timeout:g} s; its effect is not known."


class _Failed(Exception):
    """A tool's failure on its way out of the child task; `told` is what the model may know."""

    def __init__(self, told: str) -> None:
        super().__init__(told)
        self.told = told


async def _invoke(tool: Tool, arguments: Mapping[str, Any], context: ToolContext, run: Run) -> str:
    # The failure is caught in here, so that out there a TimeoutError is the deadline's alone, and
    # control flow never meets the handler that makes errors into results.
    try:
        try:
            return _capped(await tool.run(arguments, context, run.threads))
        except ToolError as error:
            raise _Failed(_capped(well_formed(str(error)))) from error
    except _Failed:
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise _Failed("the tool's own work was cancelled.") from error
    except BaseException as error:  # whatever a tool raises is its own failure, sys.exit included
        reference = new_id("err")
        logger.exception("run %s: tool %s failed (%s)", run.run_id, tool.spec.name, reference)
        raise _Failed(f"{type(error).__name__} (reference {reference})") from error


def _capped(text: str) -> str:
    """The text, or its beginning and a note of what was cut."""
    if len(text) <= LONGEST_RESULT:
        return text
    return f"{text[:LONGEST_RESULT]}\n[cut: {len(text) - LONGEST_RESULT} of {len(text)} characters are not shown]"


def _context(run: Run, call: ToolCall, cancelled: threading.Event, over: asyncio.Event) -> ToolContext:
    loop = asyncio.get_running_loop()

    def emit(name: str, value: Any) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"a custom event needs a name, a text, and {name!r} is none")
        # As JSON and back: what the tool does with the value later must not change what was said.
        text = to_json(value, fallback=str, inf_nan_mode="null", serialize_unknown=True)
        if len(text) > LARGEST_CUSTOM:
            raise ValueError(f"{name}: the value has {len(text)} bytes of JSON, but at most {LARGEST_CUSTOM} are sent")
        event = Custom(run_id=run.run_id, name=well_formed(name), value=orjson.loads(text), size=len(text))
        loop.call_soon_threadsafe(tell, event)

    def tell(event: Custom) -> None:
        # A thread that goes on when its call is over is heard no more: the run may be about to end.
        if not over.is_set() and not run.sink.full:  # a client that lags misses it, rather than the server filling up
            run.emit(event)

    return ToolContext(
        agent=run.agent.name,
        user_id=run.key.user_id,
        session_id=run.key.session_id,
        run_id=run.run_id,
        call_id=call.id,
        context=run.input.context,
        idempotency_key=run.key_of(call),
        state={} if run.history.state is None else copy_of(run.history.state),
        forwarded_props=run.input.forwarded_props,
        cancelled=cancelled,
        emit=emit,
    )

"""Acting: the calls of one answer, run one after another, each with exactly one result."""

import asyncio
import logging
import threading
from collections.abc import Mapping
from typing import Any

from agent_core.context import ToolContext
from agent_core.errors import ToolError
from agent_core.events import Custom, RequireExternalExecution, ToolResultEnd, ToolResultStart
from agent_core.messages import Message, ResultStatus, ToolCall, new_id, well_formed
from agent_core.react.interrupts import Stopped
from agent_core.react.pairing import open_calls, result_of
from agent_core.react.permissions import judge
from agent_core.react.run import Run
from agent_core.tools.base import Tool

logger = logging.getLogger(__name__)


async def act(run: Run, message: Message) -> bool:
    """Answer the calls of the message, which is stored already.

    Returns True where calls are left that wait for the client. A failing tool is a result; the only
    thing that comes up from here is Stopped, and then `settle` answers what is open.
    """
    waiting: list[str] = []
    for call in message.tool_calls:
        verdict = judge(run, call)
        if verdict.kind == "client":
            waiting.append(call.id)
        elif verdict.kind == "run":
            await _run(run, message, call, verdict.arguments)
        else:
            status: ResultStatus = "denied" if verdict.kind == "deny" else "error"
            await answer(run, result_of(call, status, verdict.reason), reply_id=message.id)
    if waiting:
        run.emit(RequireExternalExecution(run_id=run.run_id, reply_id=message.id, call_ids=tuple(waiting)))
    return bool(waiting)


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
        status: ResultStatus = "interrupted" if call.id in run.started else "not_run"
        await answer(run, result_of(call, status, reason))


async def repair(run: Run) -> None:
    """Answer the calls that a lost run left open. Nobody knows how far they came."""
    for call in open_calls(run.history.messages):
        await answer(run, result_of(call, "interrupted"))


async def _run(run: Run, message: Message, call: ToolCall, arguments: Mapping[str, Any]) -> None:
    run.stop.check()
    tool = run.tools[call.name]
    run.started.add(call.id)
    run.emit(ToolResultStart(run_id=run.run_id, reply_id=message.id, call_id=call.id, name=call.name))
    status, content = await _outcome(run, tool, call, arguments)
    await answer(run, result_of(call, status, content), reply_id=message.id)


async def _outcome(run: Run, tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> tuple[ResultStatus, str]:
    cancelled = threading.Event()
    context = _context(run, call, cancelled)
    try:
        return "ok", await run.stop.guard(_invoke(tool, arguments, context, run), tool.timeout)
    except Stopped:
        cancelled.set()
        raise
    except _Failed as failure:
        return "error", failure.told
    except TimeoutError:
        cancelled.set()
        return "timed_out", f"The tool did not finish within {tool.timeout:g} seconds; its effect is not known."


class _Failed(Exception):
    """A tool's failure on its way out of the child task; `told` is what the model may know."""

    def __init__(self, told: str) -> None:
        super().__init__(told)
        self.told = told


async def _invoke(tool: Tool, arguments: Mapping[str, Any], context: ToolContext, run: Run) -> str:
    # The failure is caught in here, so that out there a TimeoutError is the deadline's alone, and
    # control flow never meets the handler that makes errors into results.
    try:
        return await tool.run(arguments, context, run.threads)
    except ToolError as error:
        raise _Failed(well_formed(str(error)) or "The tool failed.") from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise _Failed("The tool's own work was cancelled.") from error
    except (Exception, SystemExit) as error:
        reference = new_id("err")
        logger.exception("run %s: tool %s failed (%s)", run.run_id, tool.spec.name, reference)
        raise _Failed(f"{type(error).__name__} (reference {reference})") from error


def _context(run: Run, call: ToolCall, cancelled: threading.Event) -> ToolContext:
    loop = asyncio.get_running_loop()

    def emit(name: str, value: Any) -> None:
        event = Custom(run_id=run.run_id, name=name, value=value)
        loop.call_soon_threadsafe(run.emit, event)

    return ToolContext(
        agent=run.agent.name,
        user_id=run.key.user_id,
        session_id=run.key.session_id,
        run_id=run.run_id,
        call_id=call.id,
        context=run.input.context,
        state=run.input.state,
        forwarded_props=run.input.forwarded_props,
        cancelled=cancelled,
        emit=emit,
    )

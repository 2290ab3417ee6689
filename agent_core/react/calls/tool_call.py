"""One call of a tool: its context, its time limit, and what came of it."""

import asyncio
import logging
import math
import threading
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import orjson

from agent_core.context import ToolContext
from agent_core.errors import ToolError
from agent_core.events import Custom, Event, Progress, ToolResultStart
from agent_core.messages import Part, ResultStatus, TextPart, ToolCall, new_id, well_formed
from agent_core.plain import NoJson, json_of
from agent_core.react.changes import StateEdit
from agent_core.react.contexts import CallContext, call_context
from agent_core.react.lane import Lane
from agent_core.react.stopping import SelfCancelled, Stopped
from agent_core.sessions.state import as_json, same_json
from agent_core.sizes import size_of_json
from agent_core.tools.base import Pending, Tool

logger = logging.getLogger(__name__)

LONGEST_RESULT = 16_000
"""Characters of a tool's result that the model and the client get."""

LARGEST_CUSTOM = 64 * 1024
"""Bytes of JSON that a tool may send in one custom event."""

LARGEST_MEDIA = 700_000
"""Characters of the media in one result, base64 or URLs, so that it fits a frame."""

LONGEST_PROGRESS = 2_000
"""Characters of a tool's word on its progress."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a call: its status, its result or what it waits for, its edit of the session's state, and the
    error's class if it failed."""

    status: ResultStatus
    content: str | tuple[Part, ...] | Pending
    edit: StateEdit | None = None
    error: str = ""


async def call_tool(lane: Lane, reply_id: str, call: ToolCall, arguments: Mapping[str, Any]) -> Outcome:
    """Run the tool. Raises only Stopped and LeaseLost: a failure is an outcome."""
    lane.scope.check()
    tool = lane.tools[call.name]
    lane.started.add(call.id)
    lane.emit(ToolResultStart, reply_id=reply_id, call_id=call.id, name=call.name)
    over = asyncio.Event()
    context = _context(lane, call, threading.Event(), over)
    try:
        outcome = await _outcome(lane, tool, context, arguments)
        return replace(outcome, edit=_edit(context)) if outcome.status == "ok" else outcome
    except ValueError as error:  # of the state alone: what the tool raises is an outcome
        if isinstance(error, NoJson):
            logger.warning("tool %s put what is no JSON into the session's state (%s)", call.name, error.kind)
        return not_kept(error)
    finally:
        over.set()


def not_kept(error: ValueError) -> Outcome:
    """The outcome of a call whose change of the state is not possible."""
    told = f"the tool ran, but its change of the state was not kept: {error}"
    return Outcome("error", told, error=type(error).__name__)


def _edit(context: CallContext) -> StateEdit | None:
    """How the tool has edited its copy of the state; None if not at all. Raises ValueError if the state is too large or
    refers to itself."""
    if not context.touched:
        return None
    after = as_json(context.state)
    return None if same_json(context.before, after) else StateEdit(before=context.before, after=after)


async def _outcome(lane: Lane, tool: Tool, context: ToolContext, arguments: Mapping[str, Any]) -> Outcome:
    cancelled, threads = context.cancelled, lane.scope.threads.of(tool.spec.name)
    try:
        return Outcome(
            "ok", await lane.scope.stop.guard(_invoke(tool, arguments, context, lane, threads), tool.timeout)
        )
    except Stopped:
        cancelled.set()
        raise
    except _Failed as failure:
        return Outcome("error", failure.told, error=failure.kind)
    except SelfCancelled:
        return Outcome("error", "the tool cancelled itself.", error="CancelledError")
    except TimeoutError:
        cancelled.set()
        if context.queued.is_set():
            return Outcome("not_run", f"it waited {tool.timeout:g} s for a thread.")
        threads.warn()
        return Outcome("timed_out", f"the tool did not finish within {tool.timeout:g} s; its effect is not known.")


class _Failed(Exception):
    """A tool's failure on its way out of the child task. `told` is for the model, `kind` is the error's class."""

    def __init__(self, told: str, kind: str) -> None:
        super().__init__(told)
        self.told = told
        self.kind = kind


async def _invoke(
    tool: Tool, arguments: Mapping[str, Any], context: ToolContext, lane: Lane, threads: Executor
) -> str | tuple[Part, ...] | Pending:
    # Caught in here, so that outside a TimeoutError can only be the deadline's, and control flow never passes through
    # the handler that makes errors into results.
    try:
        try:
            return _fit(await tool.run(arguments, context, threads))
        except ToolError as error:
            raise _Failed(capped(well_formed(str(error))), "ToolError") from error
    except _Failed:
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise _Failed("the tool's own work was cancelled.", "CancelledError") from error
    except BaseException as error:  # whatever a tool raises is its own failure, sys.exit included
        reference = new_id("err")
        logger.exception("run %s: tool %s failed (%s)", lane.run_id, tool.spec.name, reference)
        raise _Failed(f"{type(error).__name__} (reference {reference})", type(error).__name__) from error


def _fit(result: str | tuple[Part, ...] | Pending) -> str | tuple[Part, ...] | Pending:
    """The result, cut to the size that may be kept."""
    if isinstance(result, str):
        return capped(result)
    if isinstance(result, Pending):
        return result
    parts: list[Part] = []
    text, media = LONGEST_RESULT, LARGEST_MEDIA
    for part in result:
        if isinstance(part, TextPart):
            parts.append(TextPart(text=capped(part.text, text)))
            text = max(0, text - len(part.text))
        elif len(part.value) <= media:
            parts.append(part)
            media -= len(part.value)
        else:
            parts.append(TextPart(text=f"[cut: {part.kind} of {len(part.value)} characters]"))
    return tuple(parts)


def capped(text: str, most: int = LONGEST_RESULT) -> str:
    """The text. If it is too long, its beginning and a note of what was cut."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[cut: {len(text) - most} of {len(text)} characters are not shown]"


def _context(lane: Lane, call: ToolCall, cancelled: threading.Event, over: asyncio.Event) -> CallContext:
    loop = asyncio.get_running_loop()

    def emit(name: str, value: Any) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"a custom event needs a name, a text, and {name!r} is none")
        # As JSON and back: what the tool does with the value later must not change what was said.
        text = json_of(value, bytes_mode="utf8")
        if len(text) > LARGEST_CUSTOM:
            raise ValueError(f"{name}: the value has {len(text)} bytes of JSON, but at most {LARGEST_CUSTOM} are sent")
        make = lane.emitter.make
        event = make(Custom, name=well_formed(name), value=orjson.loads(text), size=size_of_json(text))
        loop.call_soon_threadsafe(tell, event)

    def progress(message: str, fraction: float | None = None) -> None:
        if not isinstance(message, str):
            raise TypeError("a progress needs a message, a text")
        known = fraction is not None and math.isfinite(fraction)
        event = lane.emitter.make(
            Progress,
            call_id=call.id,
            name=call.name,
            message=well_formed(message)[:LONGEST_PROGRESS],
            fraction=min(max(float(fraction), 0.0), 1.0) if fraction is not None and known else None,
        )
        loop.call_soon_threadsafe(tell, event)

    def tell(event: Event) -> None:
        # A thread may outlive its call. It emits nothing then: the run may be about to end.
        if (
            not over.is_set() and not lane.scope.sink.full
        ):  # a client that lags misses it, rather than the server filling up
            lane.emitter.send(event)

    return call_context(
        {} if lane.history.state is None else lane.history.state,
        agent=lane.agent.name,
        user_id=lane.scope.key.user_id,
        session_id=lane.scope.key.session_id,
        run_id=lane.run_id,
        call_id=call.id,
        context=lane.input.context,
        idempotency_key=lane.key_of(call),
        forwarded_props=lane.input.forwarded_props,
        cancelled=cancelled,
        emit=emit,
        progress=progress,
    )

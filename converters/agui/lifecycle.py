"""The beginning and the end of a run."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import to_builtins

from agent_core.events import (
    AgentEnd,
    AgentStart,
    Event,
    FinalOutput,
    ModelCallStart,
    RunFailed,
    StepEnd,
    StepStart,
)
from agent_core.usage import Usage
from converters.agui.encode import compose
from converters.agui.interrupts import interrupts_of
from converters.wire import CUT_REASONS, Frame


class Lifecycle:
    """RUN_STARTED, RUN_FINISHED and RUN_ERROR. Rounds, model calls and the final output are not shown.

    RUN_FINISHED has an outcome or a result, and never both: clients drop a result that stands beside an outcome.

    - The outcome is `interrupt` if the run waits for a person or an operation, and `cancelled` if it was stopped.
    - Every other run has a result. `result.status` says how it ended, and `result.finishReason` why its answer was cut.
    """

    claims = (AgentStart, AgentEnd, RunFailed, StepStart, StepEnd, ModelCallStart, FinalOutput)

    def __init__(self, thread_id: str, run_id: str, parent_run_id: str | None = None) -> None:
        self._ids = {"threadId": thread_id, "runId": run_id}
        self._parent = parent_run_id

    def convert(self, event: Event) -> Sequence[Frame]:
        if isinstance(event, AgentStart):
            return (started(self._ids["threadId"], self._ids["runId"], self._parent),)
        if isinstance(event, AgentEnd):
            return (compose({"type": "RUN_FINISHED", **self._ids, **_ending(event), **_usage(event.usage)}),)
        if isinstance(event, RunFailed):
            return (failed(event.message, event.code, event.usage),)
        return ()


def started(thread_id: str, run_id: str, parent_run_id: str | None = None) -> Frame:
    """RUN_STARTED. The version is this server's and not the client's. The parent run comes from the client."""
    members = {"type": "RUN_STARTED", "threadId": thread_id, "runId": run_id, "protocolVersion": "1.0"}
    return compose(members if parent_run_id is None else members | {"parentRunId": parent_run_id})


def failed(message: str, code: str, usage: Iterable[Usage] = ()) -> Frame:
    """RUN_ERROR."""
    return compose({"type": "RUN_ERROR", "message": message, "code": code, **_usage(usage)})


def _ending(event: AgentEnd) -> dict[str, Any]:
    if event.status == "cancelled":
        return {"outcome": {"type": "cancelled"}}
    if event.status in ("approval", "waiting") and (waiting := interrupts_of(event.interrupts)):
        return {"outcome": {"type": "interrupt", "interrupts": waiting}}
    result: dict[str, Any] = {"status": event.status}
    if event.status == "max_iterations":
        result["continuationRequired"] = True
    if event.cut is not None:
        result["finishReason"] = CUT_REASONS[event.cut]
    return {"result": result}


def _usage(usages: Iterable[Usage]) -> dict[str, Any]:
    records = [{name: value for name, value in to_builtins(each).items() if value is not None} for each in usages]
    return {"usage": records} if records else {}

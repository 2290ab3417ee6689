"""How a run ended, as the event that says so: the run that was stopped, and the run that failed."""

from time import monotonic

from agent_core.errors import ModelError, RunError
from agent_core.events import AgentEnd, RunFailed, RunStatus
from agent_core.react.lane import Lane
from agent_core.react.stopping import StopReason
from agent_core.sessions.entries import Addition, now_ms
from agent_core.sessions.kinds import EndBody

End = AgentEnd | RunFailed


def ended(lane: Lane, status: RunStatus) -> AgentEnd:
    """The end of a run that went through its rounds."""
    waits = lane.history.pending if status in ("approval", "waiting") else ()
    cut = lane.cut if status in ("completed", "max_iterations") else None
    return lane.emitter.make(AgentEnd, status=status, interrupts=waits, usage=lane.scope.usage, cut=cut)


def end_entry(lane: Lane, end: End) -> Addition:
    """The entry of the run's end."""
    scope = lane.scope
    status, code = ("failed", end.code) if isinstance(end, RunFailed) else (end.status, None)
    body = EndBody(
        status=status,
        code=code,
        at=now_ms(),
        last=scope.sink.next_number,
        unread=not scope.sink.attended,
        tokens=scope.tokens,
        seconds=round(monotonic() - scope.began, 6),
        cut=None if isinstance(end, RunFailed) else end.cut,
    )
    return lane.entry(body)


def stopped_by(lane: Lane, reason: StopReason) -> End:
    """The end of a run that was stopped: a failure, unless its user or its client wanted it."""
    if reason == "deadline":
        return failed(lane, RunError("run_deadline"))
    if reason == "lost":
        return failed(lane, RunError("worker_lost"))
    if reason == "draining":
        return failed(lane, RunError("draining"))
    return lane.emitter.make(AgentEnd, status="cancelled", usage=lane.scope.usage)


def failed(lane: Lane, error: RunError) -> RunFailed:
    """The end of a run that failed, with what it has cost."""
    return lane.emitter.make(
        RunFailed,
        code=error.code,
        message=error.message,
        retry_after=error.retry_after if isinstance(error, ModelError) else None,
        usage=lane.scope.usage,
    )

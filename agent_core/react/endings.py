"""How a run ended, as the event that says so: the run that was stopped, and the run that failed."""

import asyncio
import logging

from agent_core.errors import ModelError, RunError
from agent_core.events import AgentEnd, RunFailed
from agent_core.react.run import Run
from agent_core.react.stopping import StopReason
from agent_core.sessions.leases import SAVING

logger = logging.getLogger(__name__)

End = AgentEnd | RunFailed


def stopped_by(run: Run, reason: StopReason) -> End:
    """The end of a run that was stopped: a failure, unless its user or its client wanted it."""
    if reason == "deadline":
        return failed(run, RunError("run_deadline"))
    if reason == "lost":
        return failed(run, RunError("worker_lost"))
    if reason == "draining":
        return failed(run, RunError("draining"))
    return AgentEnd(run_id=run.run_id, status="cancelled", usage=run.usage)


def failed(run: Run, error: RunError) -> RunFailed:
    """The end of a run that failed, with what it has cost."""
    return RunFailed(
        run_id=run.run_id,
        code=error.code,
        message=error.message,
        retry_after=error.retry_after if isinstance(error, ModelError) else None,
        usage=run.usage,
    )


async def tell_outside(run: Run, end: End) -> End:
    """Let whoever keeps what the run leaves do so. The run's end, which is a failure where that was not possible."""
    if run.outside is None:
        return end
    try:
        async with asyncio.timeout(SAVING):
            await run.outside.at_end(run, end)
    except Exception as error:
        logger.warning("run %s: what it leaves could not be kept (%s)", run.run_id, type(error).__name__)
        return failed(run, RunError("store_unavailable"))
    return end

"""Runs that are over and whose events are gone, as the store still knows them."""

from collections.abc import Sequence
from typing import get_args

from agent_core.errors import SENTENCES, Code, HeldElsewhere, QueueFull, SessionBusy
from agent_core.events import AgentEnd, RunFailed, RunStatus
from agent_core.interrupts import Interrupt
from agent_core.messages import new_id
from agent_core.names import SessionKey
from agent_core.react.snapshot import tell
from agent_core.runner import Runner
from agent_core.sessions.entries import Entry, weight_of
from agent_core.sessions.history import history_of, standing_of
from agent_core.sessions.leases import answer_of
from agent_core.sessions.standing import PastRun
from agent_core.stored import StoredRun


async def find_stored_run(runner: Runner, key: SessionKey, run_id: str) -> StoredRun | None:
    """The run as the store knows it; None if it knows no such run.

    If a run has no end and its worker is gone, it has failed as `worker_lost`. Raises HeldElsewhere while the run may
    still go on, here or in another worker. Raises RunError if the store fails.
    """
    store, aside = runner.store, runner.aside
    if await answer_of(store.find(key)) is None:  # raises if this is another database than before
        return None
    entries = await answer_of(store.load(key))
    standing = await aside(weight_of(entries), standing_of, entries)
    if run_id not in standing.runs:
        return None
    if not standing.runs[run_id].status:
        entries = await _last_word(runner, key, run_id, entries)
        standing = await aside(weight_of(entries), standing_of, entries)
    run = standing.runs.get(run_id)
    return None if run is None else await aside(weight_of(entries), _stored_run, entries, run_id, run)


def _stored_run(entries: Sequence[Entry], run_id: str, run: PastRun) -> StoredRun:
    history = history_of(entries, run.agent)
    snapshot = tell(run_id, run.agent, history)
    return StoredRun(
        snapshot=snapshot,
        weight=sum(event.weight for event in snapshot),
        end=_end(run_id, run, history.pending),
        last=run.last,
        client=run.client,
    )


async def _last_word(runner: Runner, key: SessionKey, run_id: str, entries: Sequence[Entry]) -> Sequence[Entry]:
    """The session's entries, at a moment when nobody can be about to write the run's end.

    Whoever could write it holds the session. So this acquires the session for a moment, unless a later run holds it.
    """
    if runs := runner.under_way(key):
        if any(run.run_id == run_id for run in runs):
            raise HeldElsewhere  # the run goes on here, in an application that uses the engine itself
        return entries  # a later run holds the session here, so the run that is asked for is over
    try:
        ticket = runner.gate.enter(key, run_id)
    except (SessionBusy, QueueFull):
        return entries
    try:
        await ticket.wait()
        # This owner has no heartbeat, so the next worker may acquire the session at once.
        lease = await answer_of(runner.store.acquire(key, new_id("look")))
        if lease is None:
            raise HeldElsewhere
        try:
            return await answer_of(runner.store.load(key))
        finally:
            await answer_of(runner.store.release(lease))
    finally:
        ticket.leave()


def _end(run_id: str, run: PastRun, pending: tuple[Interrupt, ...]) -> AgentEnd | RunFailed:
    if not run.status:
        return _failed(run_id, "worker_lost")
    if run.status == "failed":
        return _failed(run_id, next((code for code in SENTENCES if code == run.code), "internal"))
    statuses: tuple[RunStatus, ...] = get_args(RunStatus)
    status: RunStatus = next((each for each in statuses if each == run.status), "completed")
    waiting = pending if status in ("approval", "waiting") else ()
    return AgentEnd(run_id=run_id, status=status, interrupts=waiting, cut=run.cut)


def _failed(run_id: str, code: Code) -> RunFailed:
    return RunFailed(run_id=run_id, code=code, message=SENTENCES[code])

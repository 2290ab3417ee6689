"""Runs that are over and whose events are gone: what the store still knows of them."""

from collections.abc import Sequence
from typing import get_args

from agent_core.errors import SENTENCES, Code, HeldElsewhere, QueueFull, SessionBusy
from agent_core.events import AgentEnd, RunFailed, RunStatus
from agent_core.interrupts import Interrupt
from agent_core.messages import new_id
from agent_core.names import SessionKey
from agent_core.react.snapshot import tell
from agent_core.runner import Runner
from agent_core.sessions.entries import Entry, body_of, weight_of
from agent_core.sessions.history import history_of
from agent_core.sessions.kinds import EndBody, RunBody
from agent_core.sessions.leases import answer_of
from agent_core.stored import StoredRun


async def find_stored_run(runner: Runner, key: SessionKey, run_id: str) -> StoredRun | None:
    """The run as the store knows it; None if it knows no such run.

    A run without an end whose worker is gone has failed as `worker_lost`. Raises HeldElsewhere while another worker
    has the session, or this one for somebody else, and RunError if the store fails.
    """
    store, aside = runner.store, runner.aside
    if await answer_of(store.find(key)) is None:  # raises if this is another database than before
        return None
    entries = await answer_of(store.load(key))
    found = await aside(weight_of(entries), _find, entries, run_id)
    if found is None:
        return None
    agent, client, end = found
    if end is None:
        entries = await _last_word(runner, key, run_id, entries)
        found = await aside(weight_of(entries), _find, entries, run_id)
        end = None if found is None else found[2]
    return await aside(weight_of(entries), _stored_run, entries, run_id, agent, client, end)


def _stored_run(entries: Sequence[Entry], run_id: str, agent: str, client: str, end: EndBody | None) -> StoredRun:
    history = history_of(entries, agent)
    return StoredRun(
        snapshot=tell(run_id, agent, history),
        end=_event(run_id, end, history.pending),
        last=0 if end is None else end.last,
        client=client,
    )


def _find(entries: Sequence[Entry], run_id: str) -> tuple[str, str, EndBody | None] | None:
    """The agent, the client's protocol and the end of the latest attempt under this id."""
    found: tuple[str, str, EndBody | None] | None = None
    for entry in entries:
        if entry.run_id == run_id and entry.kind in ("run", "end"):
            body = body_of(entry)
            if isinstance(body, RunBody):
                found = (body.agent, body.client, None)
            elif isinstance(body, EndBody) and found is not None:
                found = (found[0], found[1], body)
    return found


async def _last_word(runner: Runner, key: SessionKey, run_id: str, entries: Sequence[Entry]) -> Sequence[Entry]:
    """The session's entries, once nobody can be about to write the run's end: whoever could holds the session."""
    if runs := runner.under_way(key):
        if any(run.run_id == run_id for run in runs):
            raise HeldElsewhere  # by an application that uses the engine itself
        return entries  # this worker has the session, for a later run
    try:
        ticket = runner.gate.enter(key, run_id)
    except (SessionBusy, QueueFull):
        return entries
    try:
        await ticket.wait()
        # An owner without a heartbeat: the next worker may take the session from it at once.
        lease = await answer_of(runner.store.acquire(key, new_id("look")))
        if lease is None:
            raise HeldElsewhere
        try:
            return await answer_of(runner.store.load(key))
        finally:
            await answer_of(runner.store.release(lease))
    finally:
        ticket.leave()


def _event(run_id: str, end: EndBody | None, pending: tuple[Interrupt, ...]) -> AgentEnd | RunFailed:
    if end is None:
        return _failed(run_id, "worker_lost")
    if end.status == "failed":
        return _failed(run_id, next((code for code in SENTENCES if code == end.code), "internal"))
    statuses: tuple[RunStatus, ...] = get_args(RunStatus)
    status: RunStatus = next((each for each in statuses if each == end.status), "completed")
    waiting = pending if status in ("approval", "waiting") else ()
    return AgentEnd(run_id=run_id, status=status, interrupts=waiting, cut=end.cut)


def _failed(run_id: str, code: Code) -> RunFailed:
    return RunFailed(run_id=run_id, code=code, message=SENTENCES[code])

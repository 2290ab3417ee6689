"""Runs whose events are not there any more: what the store still knows of them."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from agent_core.engine import Engine
from agent_core.errors import SENTENCES, Code, QueueFull, RunError, SessionBusy
from agent_core.events import AgentEnd, AgentStart, Event, MessagesSnapshot, RunFailed, RunStatus, StateSnapshot
from agent_core.messages import new_id
from agent_core.sessions.entries import EndBody, Entry, RunBody, SessionKey, body_of
from agent_core.sessions.history import history_of
from agent_core.sessions.leases import SAVING

T = TypeVar("T")


class HeldElsewhere(Exception):
    """The run may be under way in another worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A run that is over. `picture` is what its session amounts to now, `last` the number of its last event,
    0 where that is not known."""

    picture: tuple[Event, ...]
    end: AgentEnd | RunFailed
    last: int


async def find_past(engine: Engine, key: SessionKey, run_id: str) -> Past | None:
    """The run as the store knows it, None where it knows no such run.

    A run without an end whose worker is gone has failed as `worker_lost`. Raises HeldElsewhere while
    another worker, or this one for somebody else, has the session, and RunError where the store fails.
    """
    entries = await _answer(engine.store.load(key))
    found = _find(entries, run_id)
    if found is None:
        return None
    agent, end = found
    if end is None:
        entries = await _last_word(engine, key, run_id, entries)
        found = _find(entries, run_id)
        end = None if found is None else found[1]
    history = history_of(entries, agent)
    picture: list[Event] = [AgentStart(run_id=run_id, agent=agent)]
    picture.append(MessagesSnapshot(run_id=run_id, messages=tuple(history.messages)))
    if history.state is not None:
        picture.append(StateSnapshot(run_id=run_id, value=history.state))
    return Past(picture=tuple(picture), end=_event(run_id, end), last=0 if end is None else end.last)


def _find(entries: Sequence[Entry], run_id: str) -> tuple[str, EndBody | None] | None:
    """The agent and the end of the latest attempt under this id."""
    found: tuple[str, EndBody | None] | None = None
    for entry in entries:
        if entry.run_id == run_id and entry.kind in ("run", "end"):
            body = body_of(entry)
            if isinstance(body, RunBody):
                found = (body.agent, None)
            elif isinstance(body, EndBody) and found is not None:
                found = (found[0], body)
    return found


async def _last_word(engine: Engine, key: SessionKey, run_id: str, entries: Sequence[Entry]) -> Sequence[Entry]:
    """The session's entries, where it is sure that nobody is about to write the run's end."""
    if runs := engine.under_way(key):
        if any(run.run_id == run_id for run in runs):
            raise HeldElsewhere  # by somebody who uses the engine itself
        return entries  # this worker has the session, for a later run
    try:
        ticket = engine.gate.enter(key, run_id)
    except (SessionBusy, QueueFull):
        return entries
    try:
        await ticket.wait()
        # An owner without a heartbeat: whoever comes next may take the session from it.
        lease = await _answer(engine.store.acquire(key, new_id("look")))
        if lease is None:
            raise HeldElsewhere
        try:
            return await _answer(engine.store.load(key))
        finally:
            await _answer(engine.store.release(lease))
    finally:
        ticket.leave()


async def _answer(asked: Coroutine[Any, Any, T]) -> T:
    try:
        async with asyncio.timeout(SAVING):
            return await asked
    except TimeoutError as error:
        raise RunError("store_unavailable", detail="no answer in time") from error


def _event(run_id: str, end: EndBody | None) -> AgentEnd | RunFailed:
    if end is None:
        return _failed(run_id, "worker_lost")
    if end.status == "failed":
        return _failed(run_id, next((code for code in SENTENCES if code == end.code), "internal"))
    statuses: tuple[RunStatus, ...] = get_args(RunStatus)
    return AgentEnd(run_id=run_id, status=next((each for each in statuses if each == end.status), "completed"))


def _failed(run_id: str, code: Code) -> RunFailed:
    return RunFailed(run_id=run_id, code=code, message=SENTENCES[code])

"""What a named session knows of a request that came before, also where this process does not, or not any more.

The messages that a request brought are stored under ids made of its claim. So a retry finds them: an answer that was
given to them is given out again, and where there is none, the run that the retry starts goes on where the other
stopped.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import time

from agent_core.agent import Agent
from agent_core.engine import Engine
from agent_core.errors import RunError, SessionBusy
from agent_core.events import (
    AgentEnd,
    Cut,
    RequireExternalExecution,
    RunStatus,
)
from agent_core.messages import Message
from agent_core.names import SessionKey
from agent_core.sessions.entries import EndBody, Entry, MessageBody, RunBody, body_of, weight_of
from agent_core.sessions.history import history_of
from agent_core.sessions.writer import SAVING
from app.retries.repeats import BODY_SECONDS, KEY_SECONDS, Claim, OtherBody
from app.retries.told_again import Given, told_again

ANSWERED: dict[str, RunStatus] = {
    "completed": "completed",
    "max_iterations": "max_iterations",
    "client_tools": "client_tools",
    "approval": "approval",
    "waiting": "waiting",
}


@dataclass(frozen=True, slots=True)
class Earlier:
    """The same request came before: the answer that it was given, None where it got none."""

    given: Given | None


async def find_earlier(engine: Engine, key: SessionKey, agent: Agent, claim: Claim) -> Earlier | None:
    """What became of the same request in this session; None where it is not known, or too old.

    Raises OtherBody for a key that came with another body, SessionBusy while it is still being answered, and
    RunError where the store fails.
    """
    try:
        async with asyncio.timeout(SAVING):
            entries = await engine.store.load(key)
    except TimeoutError as error:
        raise RunError("store_unavailable", detail="no answer in time") from error
    running = frozenset(run.run_id for run in engine.under_way(key))
    return await engine.aside(weight_of(entries), _found_in, entries, agent, claim, running, key.session_id)


def _found_in(
    entries: Sequence[Entry], agent: Agent, claim: Claim, running: frozenset[str], session_id: str
) -> Earlier | None:
    at = _place_of(entries, agent, claim)
    if at is None:
        return None
    if entries[at].run_id in running:
        raise SessionBusy(entries[at].run_id)
    tail = _turn(entries[at:], agent, claim)
    found: tuple[str, RunStatus, Cut | None] | None = None
    for entry in tail:
        body = body_of(entry) if entry.kind == "end" else None
        if isinstance(body, EndBody) and body.status in ANSWERED:
            found = (entry.run_id, ANSWERED[body.status], body.cut)
            # Behind one that waits for somebody, the answer may have come, and a later run of the same turn.
            if found[1] not in ("approval", "waiting"):
                break
    return Earlier(None if found is None else _given(entries, *found, agent, session_id))


def _place_of(entries: Sequence[Entry], agent: Agent, claim: Claim) -> int | None:
    """Where the last message that the claim brought stands, if it is not too long ago."""
    of_key, whole = claim.marks
    mark = of_key.encode()
    oldest = (time() - (BODY_SECONDS if claim.key is None else KEY_SECONDS)) * 1000
    for at in range(len(entries) - 1, -1, -1):
        entry = entries[at]
        if entry.kind != "message" or mark not in entry.body:
            continue
        body = body_of(entry)
        if not isinstance(body, MessageBody) or not body.message.id.startswith(of_key):
            continue
        if _begun(entries, entry.run_id) < oldest:
            return None
        if not body.message.id.startswith(whole):
            raise OtherBody
        return at if body.agent == agent.name else None
    return None


def _begun(entries: Sequence[Entry], run_id: str) -> int:
    bodies = (body_of(entry) for entry in entries if entry.kind == "run" and entry.run_id == run_id)
    return max((body.at for body in bodies if isinstance(body, RunBody)), default=0)


def _turn(entries: Sequence[Entry], agent: Agent, claim: Claim) -> list[Entry]:
    """The entries up to where the user says something else."""
    turn: list[Entry] = []
    for entry in entries:
        said = next(_message(entry, agent), None)
        if said is not None and said.role == "user" and not said.id.startswith(claim.marks[1]):
            break
        turn.append(entry)
    return turn


def _given(
    entries: Sequence[Entry], run_id: str, status: RunStatus, cut: Cut | None, agent: Agent, session_id: str
) -> Given:
    messages = [message for entry in entries if entry.run_id == run_id for message in _message(entry, agent)]
    events = [*told_again(run_id, messages)]
    if status == "client_tools":
        answered = {message.tool_call_id for message in messages}
        calls = [call.id for message in messages for call in message.tool_calls if call.id not in answered]
        events.append(RequireExternalExecution(run_id=run_id, call_ids=tuple(calls)))
    waiting = history_of(entries, agent.name).pending if status in ("approval", "waiting") else ()
    events.append(AgentEnd(run_id=run_id, status=status, interrupts=waiting, cut=cut))
    created = _begun(entries, run_id) // 1000
    return Given(run_id=run_id, session_id=session_id, created=created, events=tuple(events))


def _message(entry: Entry, agent: Agent) -> Iterator[Message]:
    body = body_of(entry) if entry.kind == "message" else None
    if isinstance(body, MessageBody) and body.agent == agent.name:
        yield body.message

"""Finds an earlier request in its session, from this process or another.

A run is stored with the claim of its request (`RunBody.claim`). So a retry of the request finds the run and its answer.
If there is no answer, the retry starts a run that goes on where the other stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from agent_core.errors import SessionBusy
from agent_core.events import AgentEnd, RequireExternalExecution, RunStatus
from agent_core.retold import retold
from agent_core.sessions.entries import Entry, body_of
from agent_core.sessions.history import standing_of
from agent_core.sessions.kinds import EndBody, MessageBody
from agent_core.sessions.standing import ROOT, Standing
from agent_core.stored import EarlierRequest, StoredAnswer

ANSWERED: dict[str, RunStatus] = {
    "completed": "completed",
    "max_iterations": "max_iterations",
    "client_tools": "client_tools",
    "approval": "approval",
    "waiting": "waiting",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The request to look for.

    - key_claim: the beginning of the claims of all requests with its key
    - claim: the whole claim
    - since: a run that began earlier does not count; in milliseconds since the epoch
    - running: the runs under way here
    """

    agent: str
    key_claim: str
    claim: str
    since: float
    running: frozenset[str]


def claimed_in(standing: Standing, wanted: Search) -> EarlierRequest | None:
    """The earlier request, its answer aside; or None if it is not known or too old. Raises SessionBusy while it is
    answered."""
    recent = takewhile(lambda each: each[1].began_at >= wanted.since, reversed(standing.runs.items()))
    run_id, run = next((each for each in recent if each[1].claim.startswith(wanted.key_claim)), ("", None))
    if run is None:
        return None
    if run.claim != wanted.claim:
        return EarlierRequest(same=False)
    if run.agent != wanted.agent:
        return None
    if run_id in wanted.running:
        raise SessionBusy(run_id)
    return EarlierRequest(same=True)


def answer_in(entries: Sequence[Entry], wanted: Search, session_id: str) -> StoredAnswer | None:
    """The answer to the request that is wanted, if there is one."""
    standing = standing_of(entries, (wanted.agent, ROOT))
    begun = next((run for run in reversed(standing.runs.values()) if run.claim == wanted.claim), None)
    answered = None if begun is None else _answering(entries[begun.seq - 1 :], standing, wanted)
    return None if answered is None else _answer(entries, standing, answered, session_id)


def _answering(entries: Sequence[Entry], standing: Standing, wanted: Search) -> str | None:
    """The run that answered the request, or None. Only runs count that came before the user's next other message."""
    found = None
    for entry in entries:
        body = body_of(entry)
        if isinstance(body, MessageBody) and body.agent == wanted.agent and body.message.role == "user":
            run = standing.runs.get(entry.run_id)
            if run is None or run.claim != wanted.claim:
                break
        elif isinstance(body, EndBody) and body.status in ANSWERED:
            found = entry.run_id
            # If a run waits for somebody, a later run of the same turn may have answered.
            if body.status not in ("approval", "waiting"):
                break
    return found


def _answer(entries: Sequence[Entry], standing: Standing, run_id: str, session_id: str) -> StoredAnswer:
    run = standing.runs[run_id]
    bodies = (body_of(entry) for entry in entries if entry.run_id == run_id)
    messages = [body.message for body in bodies if isinstance(body, MessageBody) and body.agent == run.agent]
    events = [*retold(run_id, messages)]
    if run.status == "client_tools":
        answered = {message.tool_call_id for message in messages}
        calls = [call.id for message in messages for call in message.tool_calls if call.id not in answered]
        events.append(RequireExternalExecution(run_id=run_id, call_ids=tuple(calls)))
    waiting = standing.of(run.agent).pending if run.status in ("approval", "waiting") else ()
    events.append(AgentEnd(run_id=run_id, status=ANSWERED[run.status], interrupts=waiting, cut=run.cut))
    return StoredAnswer(run_id=run_id, session_id=session_id, created=run.began_at // 1000, events=tuple(events))

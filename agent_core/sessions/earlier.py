"""Finds an earlier request in its session, from this process or another.

A run is stored with the claim of its request (`RunBody.claim`). So a retry of the request finds the run and its answer.
If there is no answer, the retry starts a run that goes on where the other stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

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


def earlier_in(entries: Sequence[Entry], wanted: Search, session_id: str) -> EarlierRequest | None:
    """The earlier request, or None if it is not known or too old. Raises SessionBusy while it is answered."""
    standing = standing_of(entries, (wanted.agent, ROOT))
    found = (run for run in reversed(standing.runs.items()) if run[1].claim.startswith(wanted.key_claim))
    run_id, run = next(found, ("", None))
    if run is None or run.began_at < wanted.since:
        return None
    if run.claim != wanted.claim:
        return EarlierRequest(same=False)
    if run.agent != wanted.agent:
        return None
    if run_id in wanted.running:
        raise SessionBusy(run_id)
    answered = _answering(entries[run.seq - 1 :], standing, wanted)
    answer = None if answered is None else _answer(entries, standing, answered, session_id)
    return EarlierRequest(same=True, answer=answer)


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
    waiting = standing.history(run.agent).pending if run.status in ("approval", "waiting") else ()
    events.append(AgentEnd(run_id=run_id, status=ANSWERED[run.status], interrupts=waiting, cut=run.cut))
    return StoredAnswer(run_id=run_id, session_id=session_id, created=run.began_at // 1000, events=tuple(events))

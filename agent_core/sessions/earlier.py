"""What a session knows of a request that came before, in this process or another.

A request with a mark (`RunInput.mark`) stores its messages under ids that begin with it. So its retry finds them, and
with them the answer; without one, the run that the retry starts goes on where the other stopped.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent_core.errors import SessionBusy
from agent_core.events import AgentEnd, Cut, RequireExternalExecution, RunStatus
from agent_core.messages import Message
from agent_core.retold import retold
from agent_core.sessions.entries import Entry, body_of
from agent_core.sessions.history import history_of
from agent_core.sessions.kinds import EndBody, MessageBody, RunBody
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
    """Which request is looked for.

    - key_mark: what the marks of all requests with its key begin with; mark: the whole mark
    - since: when it began at the earliest, in milliseconds since the epoch
    - running: the runs under way here
    """

    agent: str
    key_mark: str
    mark: str
    since: float
    running: frozenset[str]


def earlier_in(entries: Sequence[Entry], wanted: Search, session_id: str) -> EarlierRequest | None:
    """What became of the request; None if it is not known, or too old. Raises SessionBusy while it is answered."""
    found = _brought(entries, wanted)
    if found is None:
        return None
    at, body = found
    if not body.message.id.startswith(wanted.mark):
        return EarlierRequest(same=False)
    if body.agent != wanted.agent:
        return None
    if entries[at].run_id in wanted.running:
        raise SessionBusy(entries[at].run_id)
    ended = _ended(_turn(entries[at:], wanted))
    return EarlierRequest(same=True, answer=_answer(entries, *ended, wanted.agent, session_id) if ended else None)


def _brought(entries: Sequence[Entry], wanted: Search) -> tuple[int, MessageBody] | None:
    """The last message that a request with this key brought, and its place; None if that is too long ago."""
    key_mark = wanted.key_mark.encode()
    for at in range(len(entries) - 1, -1, -1):
        entry = entries[at]
        if entry.kind != "message" or key_mark not in entry.body:
            continue
        body = body_of(entry)
        if isinstance(body, MessageBody) and body.message.id.startswith(wanted.key_mark):
            return (at, body) if _begun(entries, entry.run_id) >= wanted.since else None
    return None


def _ended(turn: Sequence[Entry]) -> tuple[str, RunStatus, Cut | None] | None:
    """The run of the turn that answered, and how it ended; None if none did."""
    found: tuple[str, RunStatus, Cut | None] | None = None
    for entry in turn:
        body = body_of(entry) if entry.kind == "end" else None
        if isinstance(body, EndBody) and body.status in ANSWERED:
            found = (entry.run_id, ANSWERED[body.status], body.cut)
            # Behind a run that waits for somebody, a later run of the same turn may have answered.
            if found[1] not in ("approval", "waiting"):
                break
    return found


def _begun(entries: Sequence[Entry], run_id: str) -> int:
    bodies = (body_of(entry) for entry in entries if entry.kind == "run" and entry.run_id == run_id)
    return max((body.at for body in bodies if isinstance(body, RunBody)), default=0)


def _turn(entries: Sequence[Entry], wanted: Search) -> list[Entry]:
    """The entries up to the next message of the user's that the request did not bring."""
    turn: list[Entry] = []
    for entry in entries:
        said = next(_message(entry, wanted.agent), None)
        if said is not None and said.role == "user" and not said.id.startswith(wanted.mark):
            break
        turn.append(entry)
    return turn


def _answer(
    entries: Sequence[Entry], run_id: str, status: RunStatus, cut: Cut | None, agent: str, session_id: str
) -> StoredAnswer:
    messages = [message for entry in entries if entry.run_id == run_id for message in _message(entry, agent)]
    events = [*retold(run_id, messages)]
    if status == "client_tools":
        answered = {message.tool_call_id for message in messages}
        calls = [call.id for message in messages for call in message.tool_calls if call.id not in answered]
        events.append(RequireExternalExecution(run_id=run_id, call_ids=tuple(calls)))
    waiting = history_of(entries, agent).pending if status in ("approval", "waiting") else ()
    events.append(AgentEnd(run_id=run_id, status=status, interrupts=waiting, cut=cut))
    created = _begun(entries, run_id) // 1000
    return StoredAnswer(run_id=run_id, session_id=session_id, created=created, events=tuple(events))


def _message(entry: Entry, agent: str) -> Iterator[Message]:
    body = body_of(entry) if entry.kind == "message" else None
    if isinstance(body, MessageBody) and body.agent == agent:
        yield body.message

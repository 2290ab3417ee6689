"""Copies of a session: whole, or up to one of its messages. Each then goes its own way, and carries out nothing of
what was copied."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agent_core.edits import edit_of, with_edit
from agent_core.errors import InvalidRequest
from agent_core.interrupts import Decision, Interrupt
from agent_core.messages import ResultStatus, new_id
from agent_core.pairing import open_calls, result_of
from agent_core.sessions.entries import (
    AnsweredBody,
    AskedBody,
    Body,
    EndBody,
    Entry,
    MessageBody,
    RewoundBody,
    RunBody,
    StartedBody,
    TitledBody,
    body_of,
    copied,
    end_entry,
    forked_entry,
    message_entry,
    titled_entry,
)
from agent_core.sessions.history import History


@dataclass(slots=True)
class Standing:
    """How a session stands, for all its agents at once: their histories, the runs without an end, the
    calls that had been cleared to run, what calls wait or have waited for with the answers to it, and the title.
    `switched` counts the messages that rewindings have hidden or shown again."""

    histories: dict[str, History] = field(default_factory=dict)
    open_runs: dict[str, None] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)
    asked: dict[str, Interrupt] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)
    title: str = ""
    switched: int = 0

    def of(self, agent: str) -> History:
        """The agent's history; only its messages are filled in."""
        return self.histories.setdefault(agent, History())

    def take(self, entry: Entry, body: Body) -> None:
        match body:
            case MessageBody():
                self.of(body.agent).add(body.message)
            case RewoundBody():
                self.switched += self.of(body.agent).rewind(body.after)
            case RunBody():
                self.open_runs[entry.run_id] = None
            case EndBody():
                self.open_runs.pop(entry.run_id, None)
            case StartedBody():
                self.started.add(body.call_id)
            case AskedBody():
                self.asked[body.interrupt.call_id] = body.interrupt
            case AnsweredBody():
                self.decisions.setdefault(body.interrupt_id, body.decision)
            case TitledBody():
                self.title = body.title

    def closing(self) -> Iterable[Entry]:
        """What is to be appended so that no call is unanswered and no run open.

        A call that may have had an effect is answered `interrupted`, any other `not_run`.
        """
        for agent, history in self.histories.items():
            for call in open_calls(history.messages):
                status: ResultStatus = "interrupted" if call.id in self.started else "not_run"
                result = with_edit(result_of(call, status), edit_of(call, self.asked, self.decisions))
                yield message_entry(new_id("closing"), agent, result)
        for run_id in self.open_runs:
            yield end_entry(run_id, "cancelled")


def copy_entries(entries: Iterable[Entry]) -> list[Entry]:
    """The entries of a new session: a copy of these, marked, and closed."""
    standing = Standing()
    copy: list[Entry] = []
    for entry in entries:
        body = body_of(entry)
        standing.take(entry, body)
        copy.append(copied(entry, body))
    return copy + [copied(entry, body_of(entry)) for entry in standing.closing()]


def fork_entries(entries: Sequence[Entry], agent: str, message_id: str, *, session_id: str) -> list[Entry]:
    """The entries of a new session: a copy of these up to the message, marked and closed, and a `forked` entry.

    The message must stand in the agent's history: one that was dropped by rewinding cannot be forked
    at. What other agents said up to it is copied too, and so is the title that the session has now. A call
    without a result in the copy is `interrupted` where it was started at any time.
    `session_id` is the session that is copied. Raises InvalidRequest where there is no such message.
    """
    bodies = [body_of(entry) for entry in entries]
    whole = Standing()
    places: dict[str, int] = {}
    for place, (entry, body) in enumerate(zip(entries, bodies, strict=True)):
        whole.take(entry, body)
        if isinstance(body, MessageBody) and body.agent == agent:
            places[body.message.id] = place
    if message_id not in whole.of(agent).message_ids:
        raise InvalidRequest("messageId: the agent has no such message in this session.", "messageId")
    end = places[message_id] + 1
    # A call is marked as started behind its message: the cut would lose that it may have had an effect.
    standing = Standing(started=whole.started, asked=whole.asked, decisions=whole.decisions)
    copy: list[Entry] = []
    for entry, body in zip(entries[:end], bodies, strict=False):
        standing.take(entry, body)
        copy.append(copied(entry, body))
    copy += (copied(entry, body_of(entry)) for entry in standing.closing())
    run_id = new_id("fork")
    if whole.title != standing.title:
        copy.append(titled_entry(run_id, whole.title))
    copy.append(forked_entry(run_id, session_id, message_id))
    return copy

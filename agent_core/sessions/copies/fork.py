"""Copies of a session, whole or up to one of its messages. A copy goes on by itself, and no copied call is ever run."""

from collections.abc import Iterable, Iterator, Sequence

from agent_core.edits import with_edit
from agent_core.errors import InvalidRequest
from agent_core.messages import new_id
from agent_core.sessions.entries import Entry, body_of, copied, entry_of, now_ms
from agent_core.sessions.history import take
from agent_core.sessions.kinds import KINDS, Body, EndBody, ForkedBody, MessageBody, TitledBody
from agent_core.sessions.standing import ROOT, Standing


def closing(standing: Standing, whole: Standing) -> Iterator[Entry]:
    """The entries that close a copy: a result for each open call, and an end for each open run.

    `whole` is how the copied session stands at its end. What is known of a call may stand there, behind the end of the
    copy.
    """
    for (agent, lane), history in standing.histories.items():
        known = whole.of(agent, lane)
        for call in history.open_calls:
            result = with_edit(known.unrun(call), known.edit_of(call))
            yield entry_of(new_id("closing"), MessageBody(agent=agent, message=result, origin="copied"), lane)
    for run_id, lane in standing.session.open_runs:
        yield entry_of(run_id, EndBody(status="cancelled", at=now_ms()), lane)


def copy_entries(entries: Iterable[Entry]) -> list[Entry]:
    """The entries of a new session: a copy of these, marked and closed. A kind that only a later version knows is left
    out, because it cannot be marked here."""
    standing = Standing()
    copy = _copy(((entry, body_of(entry)) for entry in entries), standing)
    return [*copy, *closing(standing, standing)]


def _copy(entries: Iterable[tuple[Entry, Body]], standing: Standing) -> list[Entry]:
    copy: list[Entry] = []
    for entry, body in entries:
        if entry.kind in KINDS:
            take(standing, entry, body)
            copy.append(copied(entry, body))
    return copy


def fork_entries(entries: Sequence[Entry], agent: str, message_id: str, *, session_id: str) -> list[Entry]:
    """The entries of a new session: a copy of these up to the message, marked and closed, and a `forked` entry.

    The message must stand in the agent's history, so it must not be hidden by a rewind. The copy has the other agents'
    messages up to there too, and the title that the session has now. If the copy has a call without a result, it
    becomes `interrupted` if it was started at any time. `session_id` is the session that is copied. Raises
    InvalidRequest if there is no such message.
    """
    taken = [(entry, body_of(entry)) for entry in entries]
    whole, standing = Standing(), Standing()
    end = 0
    for number, (entry, body) in enumerate(taken, start=1):
        take(whole, entry, body)
        if isinstance(body, MessageBody) and (body.agent, entry.lane) == (agent, ROOT):
            end = number if body.message.id == message_id else end
    if message_id not in whole.of(agent).message_ids:
        raise InvalidRequest("messageId: the agent has no such message in this session.", "messageId")
    copy = [*_copy(taken[:end], standing), *closing(standing, whole)]
    run_id = new_id("fork")
    if whole.session.title != standing.session.title:
        copy.append(entry_of(run_id, TitledBody(title=whole.session.title)))
    return [*copy, entry_of(run_id, ForkedBody(session_id=session_id, message_id=message_id))]

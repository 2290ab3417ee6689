"""Snapshots: a few events that tell a run, for a reader that cannot have all its events."""

from collections.abc import Sequence

from pydantic_core import to_json

from agent_core.events import AgentStart, Event, MessagesSnapshot, StateSnapshot, latest
from agent_core.messages import Message
from agent_core.react.lane import Lane
from agent_core.sessions.standing import History
from agent_core.sessions.state import copy_of
from agent_core.sizes import size_of_json


def snapshot_of(lane: Lane) -> tuple[Event, ...]:
    """A few events that tell the run so far:

    - its start
    - the messages as they stand, with the ended blocks of the current answer
    - the session's state, if there is one
    - the start and the text of the open block

    Before the run has read its session there are no messages.
    """
    messages, opened = [each for each in lane.history.messages if each.id not in lane.untold], tuple[Event, ...]()
    # An answer that is stored already is in the history.
    if lane.reply is not None and lane.reply.id not in lane.history.message_ids:
        message, opened = lane.reply.snapshot()
        if message is not None:
            messages.append(message)
    return (*tell(lane.run_id, lane.agent.name, lane.history, messages), *opened)


def tell(run_id: str, agent: str, history: History, messages: Sequence[Message] | None = None) -> tuple[Event, ...]:
    """A run's start, and the session's messages (or these) and state, if there are any."""
    events: list[Event] = [AgentStart(run_id=run_id, agent=agent)]
    told, state = latest(history.messages if messages is None else messages), history.state
    if told:
        events.append(MessagesSnapshot(run_id=run_id, messages=told, clients=frozenset(history.clients)))
    if state is not None:
        size = size_of_json(to_json(state))
        events.append(StateSnapshot(run_id=run_id, value=copy_of(state), size=size))
    return tuple(events)

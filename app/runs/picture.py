"""What a run amounts to: for a reader that cannot have all of its events any more."""

from collections.abc import Sequence
from typing import Any

from agent_core.events import AgentStart, Event, MessagesSnapshot, StateSnapshot
from agent_core.messages import Message
from agent_core.react.run import Run
from agent_core.sessions.state import copy_of


def picture_of(run: Run) -> tuple[Event, ...]:
    """The run's events so far, told in few: its start, the messages as they stand with what the current answer
    has ended, the session's state where it has one, and the start and the text of the block that is open.

    Before the run has read its session there are no messages to tell.
    """
    messages, opened = list(run.history.messages), tuple[Event, ...]()
    # An answer that is stored already is in the history.
    if run.reply is not None and run.reply.id not in run.history.message_ids:
        message, opened = run.reply.picture()
        if message is not None:
            messages.append(message)
    return (*tell(run.run_id, run.agent.name, messages, run.history.state), *opened)


def tell(run_id: str, agent: str, messages: Sequence[Message], state: Any) -> tuple[Event, ...]:
    """A run's start and what the session has: its messages and its state, where there are any."""
    events: list[Event] = [AgentStart(run_id=run_id, agent=agent)]
    if messages:
        events.append(MessagesSnapshot(run_id=run_id, messages=tuple(messages)))
    if state is not None:
        events.append(StateSnapshot(run_id=run_id, value=copy_of(state), size=len(str(state))))
    return tuple(events)

"""Answers that were given before, told again in few events."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agent_core.edits import told_edit
from agent_core.events import Custom, Event
from agent_core.messages import Message
from converters.openai.told import said


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """An answer that was given: by which run of which session, begun when (seconds since 1970), and what it said."""

    run_id: str
    session_id: str
    created: int
    events: tuple[Event, ...]


def told_again(run_id: str, messages: Iterable[Message]) -> Iterator[Event]:
    """What a reader was told of the messages, up to the run's end: of the assistant's, and of what a person has made of
    a call's arguments."""
    for message in messages:
        edit = told_edit(message)
        if edit is not None:
            yield Custom(run_id=run_id, **edit)
        if message.role == "assistant":
            yield from said(run_id, message)

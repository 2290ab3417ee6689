"""An answer that was given before, told again: its messages as the events that a stream of it is made of."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from agent_core.events import (
    Event,
    MessagesSnapshot,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from agent_core.messages import Message


def unfolded(events: Sequence[Event]) -> Iterable[Event]:
    """The events, with what an earlier run has answered in the place of the snapshot that tells of it: a chat
    completion has no history, only an answer."""
    if not any(event.__class__ is MessagesSnapshot for event in events):
        return events
    return _unfolded(events)


def _unfolded(events: Iterable[Event]) -> Iterator[Event]:
    for event in events:
        if isinstance(event, MessagesSnapshot):
            for message in event.told:
                yield from said(event.run_id, message)
        else:
            yield event


def said(run_id: str, message: Message) -> Iterator[Event]:
    """What a reader is told of an assistant's message, in few events."""
    for number, thought in enumerate(message.thoughts, start=1):
        block = f"{message.id}-thinking-{number}"
        yield ThinkingDelta(run_id=run_id, reply_id=message.id, block_id=block, text=thought)
    if message.text:
        yield TextDelta(run_id=run_id, reply_id=message.id, text=message.text)
    for call in message.tool_calls:
        ids: dict[str, Any] = {"run_id": run_id, "reply_id": message.id, "call_id": call.id}
        yield ToolCallStart(**ids, name=call.name)
        yield ToolCallDelta(**ids, text=call.arguments)
        yield ToolCallEnd(**ids)

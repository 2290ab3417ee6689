"""Stored messages, told again as a few events."""

from collections.abc import Iterable, Iterator
from typing import Any

from agent_core.edits import told_edit
from agent_core.events import Custom, Event, TextDelta, ThinkingDelta, ToolCallDelta, ToolCallEnd, ToolCallStart
from agent_core.messages import Message


def retold(run_id: str, messages: Iterable[Message]) -> Iterator[Event]:
    """The events that tell of a run's messages, without its end: the assistant's messages and the edits of
    arguments."""
    for message in messages:
        edit = told_edit(message)
        if edit is not None:
            yield Custom(run_id=run_id, **edit)
        if message.role == "assistant":
            yield from said(run_id, message)


def said(run_id: str, message: Message) -> Iterator[Event]:
    """An assistant's message as a few events."""
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

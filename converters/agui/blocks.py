"""The blocks that are streamed in pieces: text, reasoning and tool calls."""

from collections.abc import Sequence

from agent_core.events import (
    Event,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from converters.agui.encode import Deltas, compose
from converters.wire import Frame


class Text:
    """Text of the assistant. The message's id is the event's reply id."""

    claims = (TextStart, TextDelta, TextEnd)

    def __init__(self) -> None:
        self._deltas = Deltas("TEXT_MESSAGE_CONTENT")

    def convert(self, event: Event) -> Sequence[Frame]:
        if isinstance(event, TextDelta):
            return self._deltas.frames(event.reply_id, event.text)
        if isinstance(event, TextStart):
            return (compose({"type": "TEXT_MESSAGE_START", "messageId": event.reply_id, "role": "assistant"}),)
        return (compose({"type": "TEXT_MESSAGE_END", "messageId": event.reply_id}),)


class Reasoning:
    """Reasoning as messages of its own. The spans around them (REASONING_START, REASONING_END) are not sent, because
    they tell a client nothing more."""

    claims = (ThinkingStart, ThinkingDelta, ThinkingEnd)

    def __init__(self) -> None:
        self._deltas = Deltas("REASONING_MESSAGE_CONTENT")

    def convert(self, event: Event) -> Sequence[Frame]:
        if isinstance(event, ThinkingDelta):
            return self._deltas.frames(event.block_id, event.text)
        if isinstance(event, ThinkingStart):
            return (compose({"type": "REASONING_MESSAGE_START", "messageId": event.block_id, "role": "reasoning"}),)
        if isinstance(event, ThinkingEnd):
            return (compose({"type": "REASONING_MESSAGE_END", "messageId": event.block_id}),)
        return ()


class ToolCalls:
    """The model's tool calls. Each names its assistant message."""

    claims = (ToolCallStart, ToolCallDelta, ToolCallEnd)

    def __init__(self) -> None:
        self._deltas = Deltas("TOOL_CALL_ARGS")

    def convert(self, event: Event) -> Sequence[Frame]:
        if isinstance(event, ToolCallDelta):
            return self._deltas.frames(event.call_id, event.text)
        if isinstance(event, ToolCallStart):
            members = {"type": "TOOL_CALL_START", "toolCallId": event.call_id, "toolCallName": event.name}
            return (compose(members | {"parentMessageId": event.reply_id}),)
        if isinstance(event, ToolCallEnd):
            return (compose({"type": "TOOL_CALL_END", "toolCallId": event.call_id}),)
        return ()

"""The results of tool calls."""

from collections.abc import Sequence
from typing import Any

from agent_core.events import Event, ToolResultEnd, ToolResultStart
from converters.agui.encode import compose
from converters.agui.messages_out import to_content
from converters.wire import TEXT_LIMIT, Frame, cut, to_json


class ToolResults:
    """A call's result, under the id of its tool message: a text, or parts if it has media. Clients from before 1.0 get
    only the text. The start of a tool is not shown."""

    claims = (ToolResultStart, ToolResultEnd)

    def convert(self, event: Event) -> Sequence[Frame]:
        if not isinstance(event, ToolResultEnd):
            return ()
        ids = {"messageId": event.message_id, "toolCallId": event.call_id}
        return (compose({"type": "TOOL_CALL_RESULT", **ids, "content": _content(event), "role": "tool"}),)


def _content(event: ToolResultEnd) -> str | list[dict[str, Any]]:
    if event.parts:
        parts = to_content(event.parts)
        if not isinstance(parts, str) and len(to_json(parts)) <= TEXT_LIMIT:
            return parts
    return cut(event.content)

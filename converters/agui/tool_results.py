"""What came of the tool calls."""

from collections.abc import Sequence

from agent_core.events import Event, ToolResultEnd, ToolResultStart
from converters.agui.encode import compose
from converters.wire import Frame, cut


class ToolResults:
    """A tool's result, under the id of its own tool message. That a tool runs is not shown."""

    claims = (ToolResultStart, ToolResultEnd)

    def convert(self, event: Event) -> Sequence[Frame]:
        if not isinstance(event, ToolResultEnd):
            return ()
        ids = {"messageId": event.message_id, "toolCallId": event.call_id}
        return (compose({"type": "TOOL_CALL_RESULT", **ids, "content": cut(event.content), "role": "tool"}),)

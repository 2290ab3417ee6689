"""Messages that an agent only observes: AG-UI's messages without calls and results, so no run is needed."""

from typing import Any

import orjson

from agent_core.errors import InvalidRequest
from agent_core.messages import Message
from converters.agui.decode import parse_run_input
from converters.parsing import read_object, step


def parse_observed(body: bytes) -> tuple[Message, ...]:
    """The messages of `{"messages": […]}`, read by the rules of a run's input. Other members are ignored.

    Raises only InvalidRequest, whatever the bytes are; also for tool calls and their results.
    """
    given = read_object(body).get("messages")
    only: dict[str, Any] = {"threadId": "observed", "runId": "observed", "messages": given}
    messages: dict[str, Message] = {}
    for message in parse_run_input(orjson.dumps(only)).input.messages:
        messages.setdefault(message.id, message)
    for index, each in enumerate(given if isinstance(given, list) else ()):
        if each.get("role") == "tool" or each.get("toolCalls") or each.get("tool_calls"):
            path = step("messages", index)
            raise InvalidRequest(f"{path}: tool calls and their results cannot be observed.", path)
    return tuple(messages.values())

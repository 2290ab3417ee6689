"""What is told whole: tool results, usage, what waits outside, custom events, and the rest as RAW."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import fields

from agent_core.events import (
    Custom,
    Event,
    ModelCallEnd,
    RequireExternalExecution,
    Retry,
    ToolResultEnd,
    ToolResultStart,
)
from converters.agui.encode import compose
from converters.wire import Frame, cut, fit


class ToolResults:
    """A tool's result, under the id of its own tool message. That a tool runs is not shown."""

    claims = (ToolResultStart, ToolResultEnd)

    def convert(self, event: Event) -> Sequence[Frame]:
        if not isinstance(event, ToolResultEnd):
            return ()
        ids = {"messageId": event.message_id, "toolCallId": event.call_id}
        return (compose({"type": "TOOL_CALL_RESULT", **ids, "content": cut(event.content), "role": "tool"}),)


class TokenUsage:
    """What each model call cost, as CUSTOM `token_usage`; counts that are not known are left out."""

    claims = (ModelCallEnd,)

    def convert(self, event: Event) -> Sequence[Frame]:
        if not isinstance(event, ModelCallEnd) or event.usage is None:
            return ()
        counts = {
            "inputTokens": event.usage.input_tokens,
            "outputTokens": event.usage.output_tokens,
            "cachedInputTokens": event.usage.cached_input_tokens,
            "totalTokens": event.usage.total_tokens,
        }
        known = {name: count for name, count in counts.items() if count is not None}
        return (_custom("token_usage", {"replyId": event.reply_id, **known}),)


class Interrupts:
    """Calls that wait for the client are not announced: clients derive them from the calls that have
    no result.
    """

    claims = (RequireExternalExecution,)

    def convert(self, event: Event) -> Sequence[Frame]:  # noqa: ARG002  # the protocol's signature
        return ()


class Customs:
    """A user's own events, and retries of model calls, as CUSTOM."""

    claims = (Custom, Retry)

    def convert(self, event: Event) -> Sequence[Frame]:
        if isinstance(event, Custom):
            return (_custom(event.name, event.value),)
        if isinstance(event, Retry):
            delay = round(event.delay * 1000)
            return (_custom("retry", {"code": event.code, "attempt": event.attempt, "delayMs": delay}),)
        return ()


class Raw:
    """Whatever nobody else claims: the internal event's JSON, without the run that the stream is
    about anyway, and without its lane where that is the root.
    """

    claims = (Event,)

    def convert(self, event: Event) -> Sequence[Frame]:
        members: dict[str, Any] = {"type": event.__struct_config__.tag}
        for each in fields(event):
            if each.name != "run_id" and (each.name != "lane" or event.lane != "root"):
                members[each.encode_name] = getattr(event, each.name)
        return (compose({"type": "RAW", "event": fit(members)}),)


def _custom(name: str, value: object) -> Frame:
    return compose({"type": "CUSTOM", "name": name, "value": fit(value)})

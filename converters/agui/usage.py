"""The cost of model calls."""

from collections.abc import Sequence

from agent_core.events import Event, ModelCallEnd
from converters.agui.custom import custom
from converters.wire import Frame


class TokenUsage:
    """The tokens of each model call as CUSTOM `token_usage`. Unknown counts are left out."""

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
        return (custom("token_usage", {"replyId": event.reply_id, **known}),)

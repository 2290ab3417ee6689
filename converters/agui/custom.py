"""Events of a user's own, and what AG-UI has no event for."""

from collections.abc import Mapping, Sequence

from agent_core.events import AnswerCut, Custom, Cut, Event, Fallback, Retry
from converters.agui.encode import compose
from converters.wire import Frame, fit

FINISH: Mapping[Cut, str] = {"length": "length", "filter": "content_filter"}
"""OpenAI's words for why an answer is not whole."""


class Customs:
    """A user's own events, what became of a model call that failed, and which message was cut, as CUSTOM."""

    claims = (Custom, Retry, Fallback, AnswerCut)

    def convert(self, event: Event) -> Sequence[Frame]:
        if isinstance(event, Custom):
            return (custom(event.name, event.value),)
        if isinstance(event, Retry):
            delay = round(event.delay * 1000)
            return (custom("retry", {"code": event.code, "attempt": event.attempt, "delayMs": delay}),)
        if isinstance(event, Fallback):
            return (custom("fallback", {"code": event.code, "model": event.model}),)
        if isinstance(event, AnswerCut):
            return (custom("answer_cut", {"messageId": event.reply_id, "reason": FINISH[event.why]}),)
        return ()


def custom(name: str, value: object) -> Frame:
    """CUSTOM with any value; one that is too large for a frame is cut and says so."""
    return compose({"type": "CUSTOM", "name": name, "value": fit(value)})

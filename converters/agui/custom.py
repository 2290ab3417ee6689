"""CUSTOM events: those of tools, and those that AG-UI has no event for."""

from collections.abc import Mapping, Sequence

from agent_core.events import AnswerCut, Custom, Cut, Event, Fallback, Retry
from converters.agui.encode import compose
from converters.wire import Frame, fit

FINISH: Mapping[Cut, str] = {"length": "length", "filter": "content_filter"}
"""OpenAI's word for each reason why an answer is not whole."""


class Customs:
    """Tools' own events, retries and fallbacks of model calls, and cut messages, each as CUSTOM."""

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
    """CUSTOM with any value. A value that is too large for a frame is cut, with a note."""
    return compose({"type": "CUSTOM", "name": name, "value": fit(value)})

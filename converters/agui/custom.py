"""CUSTOM events: those of tools, and those that AG-UI has no event for."""

from collections.abc import Sequence

from agent_core.events import AnswerCut, Custom, Event, Fallback, Retry
from converters.agui.encode import compose
from converters.wire import CUT_REASONS, Frame, fit


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
            return (custom("answer_cut", {"messageId": event.reply_id, "reason": CUT_REASONS[event.why]}),)
        return ()


def custom(name: str, value: object) -> Frame:
    """CUSTOM with any value. A value that is too large for a frame is cut, with a note."""
    return compose({"type": "CUSTOM", "name": name, "value": fit(value)})

"""Events of a user's own, and what AG-UI has no event for."""

from collections.abc import Sequence

from agent_core.events import Custom, Event, Fallback, Retry
from converters.agui.encode import compose
from converters.wire import Frame, fit


class Customs:
    """A user's own events, and what became of a model call that failed, as CUSTOM."""

    claims = (Custom, Retry, Fallback)

    def convert(self, event: Event) -> Sequence[Frame]:
        if isinstance(event, Custom):
            return (custom(event.name, event.value),)
        if isinstance(event, Retry):
            delay = round(event.delay * 1000)
            return (custom("retry", {"code": event.code, "attempt": event.attempt, "delayMs": delay}),)
        if isinstance(event, Fallback):
            return (custom("fallback", {"code": event.code, "model": event.model}),)
        return ()


def custom(name: str, value: object) -> Frame:
    """CUSTOM with any value; one that is too large for a frame is cut and says so."""
    return compose({"type": "CUSTOM", "name": name, "value": fit(value)})

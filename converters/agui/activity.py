"""Activities beside the conversation: guards that have tripped, and the progress of calls."""

import math
from collections.abc import Sequence
from typing import Any

from agent_core.events import Event, Guard, Progress
from converters.agui.custom import custom
from converters.agui.encode import compose
from converters.wire import TEXT_LIMIT, Frame, cut


class Activity:
    """Guards and progress as ACTIVITY_SNAPSHOT; as CUSTOM of the same name for clients from before 1.0.

    Each trip of a guard is its own activity. A call has one activity, and each new progress replaces it. If a run is
    read again, the ids are the same.
    """

    claims = (Guard, Progress)

    def convert(self, event: Event) -> Sequence[Frame]:
        if isinstance(event, Guard):
            return (_guard(event),)
        if isinstance(event, Progress):
            return (_progress(event),)
        return ()


def _guard(event: Guard) -> Frame:
    content: dict[str, Any] = {"guard": event.guard, "action": event.action}
    if event.tool:
        content["tool"] = event.tool
    if event.count:
        content["count"] = event.count
    content["message"] = cut(event.message, TEXT_LIMIT // 2)
    # The reply's id is unique in the session. A run's id may come again.
    name = f"{event.reply_id or event.run_id}-guard-{event.guard}-{event.action}"
    return _activity("-".join(filter(None, (name, event.tool, str(event.count)))), "guard", content)


def _progress(event: Progress) -> Frame:
    content: dict[str, Any] = {"toolCallId": event.call_id, "message": cut(event.message, TEXT_LIMIT // 2)}
    if event.fraction is not None and math.isfinite(event.fraction):
        content["fraction"] = min(max(event.fraction, 0.0), 1.0)
    return _activity(f"{event.call_id}-progress", "progress", content)


def _activity(message_id: str, kind: str, content: dict[str, Any]) -> Frame:
    members = {"messageId": message_id, "activityType": kind, "content": content, "replace": True}
    frame = compose({"type": "ACTIVITY_SNAPSHOT", **members})
    return Frame(frame.kind, frame.data, old=custom(kind, content).data)

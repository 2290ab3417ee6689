"""All events that no other converter claims."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import fields

from agent_core.events import Event
from converters.agui.encode import compose
from converters.wire import Frame, fit


class Raw:
    """All other events as RAW: the internal event's JSON without its run and time, and without its lane if that is the
    root."""

    claims = (Event,)

    def convert(self, event: Event) -> Sequence[Frame]:
        members: dict[str, Any] = {"type": event.__struct_config__.tag}
        for each in fields(event):
            if each.name not in ("run_id", "at") and (each.name != "lane" or event.lane != "root"):
                members[each.encode_name] = getattr(event, each.name)
        return (compose({"type": "RAW", "event": fit(members)}),)

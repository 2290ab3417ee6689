"""AG-UI events as frames. Shapes: ag-ui-protocol 1.0.

`compose` trusts the members that it gets. It is for this package's own converters; tests check their frames with the
protocol's models. `frame` checks its event, and is for all other converters.
"""

from collections.abc import Mapping
from typing import Any

import orjson
from ag_ui.core import BaseEvent
from ag_ui.core import Event as AguiEvent
from pydantic import BaseModel, ConfigDict, TypeAdapter

from agent_core.messages import well_formed
from converters.wire import FRAME_LIMIT, TEXT_LIMIT, Frame, Key, server_sent, split, text_json, to_json

_KEYS = {
    "RUN_STARTED": "runId",
    "RUN_FINISHED": "runId",
    "TEXT_MESSAGE_START": "messageId",
    "TEXT_MESSAGE_CONTENT": "messageId",
    "TEXT_MESSAGE_END": "messageId",
    "TOOL_CALL_START": "toolCallId",
    "TOOL_CALL_ARGS": "toolCallId",
    "TOOL_CALL_END": "toolCallId",
    "TOOL_CALL_RESULT": "messageId",
    "REASONING_START": "messageId",
    "REASONING_END": "messageId",
    "REASONING_MESSAGE_START": "messageId",
    "REASONING_MESSAGE_CONTENT": "messageId",
    "REASONING_MESSAGE_END": "messageId",
    "STEP_STARTED": "stepName",
    "STEP_FINISHED": "stepName",
    "SUBAGENT_STARTED": "subagentRunId",
    "SUBAGENT_FINISHED": "subagentRunId",
    "SUBAGENT_ERROR": "subagentRunId",
}
"""The member with the id that an event opens, continues or closes."""

_REFS = {
    "RUN_STARTED": "threadId",
    "RUN_FINISHED": "threadId",
    "TOOL_CALL_START": "parentMessageId",
    "SUBAGENT_STARTED": "parentSubagentRunId",
}

_EVENTS: TypeAdapter[AguiEvent] = TypeAdapter(AguiEvent, config=ConfigDict(defer_build=True))
"""Finds an event's model by its `type`, however the protocol's package puts its models together. Built at first use."""

_DELTAS = ("TEXT_MESSAGE_CONTENT", "TOOL_CALL_ARGS", "REASONING_MESSAGE_CONTENT")


def frame(event: Mapping[str, Any] | BaseEvent) -> Frame:
    """A frame of an AG-UI event. The event is a model of `ag_ui.core`, or its members in camel case.

    Optional members that are None are left out. A delta without text sends nothing. A success that lists pending client
    calls loses its outcome: clients find the calls themselves, and one client would take the success for the end.

    Raises ValueError for an event that AG-UI does not have or that lacks a member, for a CHUNK shorthand (send START,
    CONTENT and END), and for an event of more than FRAME_LIMIT bytes.
    """
    # Go through JSON, because that replaces a lone surrogate and the models would refuse it.
    model = event if isinstance(event, BaseModel) else _EVENTS.validate_python(orjson.loads(to_json(dict(event))))
    members = model.model_dump(by_alias=True)
    members["type"] = getattr(members["type"], "value", members["type"])
    if members["type"].endswith("_CHUNK"):
        raise ValueError(f"{members['type']} is a shorthand: send its START, CONTENT and END events")
    if members["type"] in _DELTAS and not members["delta"]:
        return Frame(members["type"], b"", members[_KEYS[members["type"]]])
    if "pendingToolCallIds" in (members.get("outcome") or {}):
        del members["outcome"]
    return compose(members)


def compose(members: dict[str, Any]) -> Frame:
    """A frame of correct members. Raises ValueError if it has more than FRAME_LIMIT bytes."""
    kind = members["type"]
    data = server_sent(to_json(members))
    if len(data) > FRAME_LIMIT:
        raise ValueError(f"{kind} has {len(data)} bytes; a frame has at most {FRAME_LIMIT}")
    owner = None if kind.startswith("SUBAGENT_") else members.get("subagentRunId")
    name = members.get(_KEYS.get(kind, ""), "")
    # A subagent may run a step with the name of an agent's step, so the owner is part of a step's key.
    key: Key = (owner, name) if kind.startswith("STEP_") else name
    older = _before_1_0(members)
    old = None if older is None else server_sent(to_json(older))
    return Frame(kind, data, key, owner, members.get(_REFS.get(kind, "")), old)


def _before_1_0(members: dict[str, Any]) -> dict[str, Any] | None:
    """The members in their shape from before 1.0, or None if it is the same."""
    if members["type"] == "RUN_FINISHED" and (members.get("outcome") or {}).get("type") == "cancelled":
        rest = {name: value for name, value in members.items() if name != "outcome"}
        return rest | {"result": {"status": "cancelled"}}
    if members["type"] == "TOOL_CALL_RESULT" and isinstance(members["content"], list):
        texts = [part["text"] for part in members["content"] if part["type"] == "text"]
        return members | {"content": "".join(texts)}
    return None


class Deltas:
    """Frames for the pieces of a block's text, for one kind of delta.

    Nearly all frames come from here. So all JSON but the text's own is made once for a block.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._key: str | None = None
        self._before = b""

    def frames(self, key: str, text: str) -> tuple[Frame, ...]:
        """The frames of the text: none for an empty text, several for a long one."""
        if not text:
            return ()
        if key != self._key:
            self._turn_to(key)
        try:
            body = orjson.dumps(text)
        except TypeError:
            body = text_json(well_formed(text))
        if len(body) > TEXT_LIMIT:
            return tuple(Frame(self._kind, self._before + each + b"}\n\n", key) for each in split(text))
        return (Frame(self._kind, self._before + body + b"}\n\n", key),)

    def _turn_to(self, key: str) -> None:
        self._key = key
        name = _KEYS[self._kind].encode()
        self._before = b'data: {"type":"' + self._kind.encode() + b'","' + name + b'":' + text_json(key) + b',"delta":'

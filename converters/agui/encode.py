"""AG-UI events as frames. Shapes: ag-ui-protocol 1.0.

`compose` trusts the fields that it is given: it is for this package's own converters, whose frames
the tests hold against the protocol's models. `frame` checks, and is for everybody else's.
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
"""The member that says what an event opens, continues or closes."""

_REFS = {
    "RUN_STARTED": "threadId",
    "RUN_FINISHED": "threadId",
    "TOOL_CALL_START": "parentMessageId",
    "SUBAGENT_STARTED": "parentSubagentRunId",
}

_EVENTS: TypeAdapter[AguiEvent] = TypeAdapter(AguiEvent, config=ConfigDict(defer_build=True))

_DELTAS = ("TEXT_MESSAGE_CONTENT", "TOOL_CALL_ARGS", "REASONING_MESSAGE_CONTENT")


def frame(event: Mapping[str, Any] | BaseEvent) -> Frame:
    """A frame of an AG-UI event, given as a model of `ag_ui.core` or as its members in camel case.

    Optional members that are None are left out, and a delta of no text sends nothing. A success that
    lists pending client calls loses its outcome: clients derive the calls themselves, and one of them
    would take the success for the end.

    Raises ValueError for an event that AG-UI does not have or that lacks a member, for a CHUNK
    shorthand (send START, CONTENT and END), and for one of more than FRAME_LIMIT bytes.
    """
    # Through JSON, because the models refuse a lone surrogate, which is to be replaced instead.
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
    """A frame of members that are right already. Raises ValueError if it is over FRAME_LIMIT."""
    kind = members["type"]
    data = server_sent(to_json(members))
    if len(data) > FRAME_LIMIT:
        raise ValueError(f"{kind} has {len(data)} bytes; a frame has at most {FRAME_LIMIT}")
    owner = None if kind.startswith("SUBAGENT_") else members.get("subagentRunId")
    name = members.get(_KEYS.get(kind, ""), "")
    # Only an agent's own steps have unique names: a subagent may run a step of the same name.
    key: Key = (owner, name) if kind.startswith("STEP_") else name
    older = _before_1_0(members)
    old = None if older is None else server_sent(to_json(older))
    return Frame(kind, data, key, owner, members.get(_REFS.get(kind, "")), old)


def _before_1_0(members: dict[str, Any]) -> dict[str, Any] | None:
    """The members in the shape of before 1.0, or None where it is the same."""
    if members["type"] == "RUN_FINISHED" and (members.get("outcome") or {}).get("type") == "cancelled":
        rest = {name: value for name, value in members.items() if name != "outcome"}
        return rest | {"result": {"status": "cancelled"}}
    if members["type"] == "TOOL_CALL_RESULT" and isinstance(members["content"], list):
        texts = [part["text"] for part in members["content"] if part["type"] == "text"]
        return members | {"content": "".join(texts)}
    return None


class Deltas:
    """Frames for the pieces of a block's text, for one kind of delta.

    This is where nearly all frames come from, so all JSON but the text's own is written once a block.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._key: str | None = None
        self._before = b""

    def frames(self, key: str, text: str) -> tuple[Frame, ...]:
        """No frame for an empty text, one, or several where the text is too long for one."""
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

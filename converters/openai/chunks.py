"""The bytes of a streamed chat completion. Shapes: OpenAI's Chat Completions, `chat.completion.chunk`.

Five things are never sent, because some clients break on them:

- a chunk whose `choices` are missing or null
- `"error": null`
- a role on any delta but the first
- usage on a chunk of its own before the last one
- any line of an event but `data:`
"""

from typing import Any

import orjson

from agent_core.messages import well_formed
from converters.wire import TEXT_LIMIT, Frame, split, text_json, to_json

DONE = b"data: [DONE]\n\n"

KIND = "chat.completion.chunk"

BETWEEN = "\n\n"
"""It stands between two blocks of text, so that their words do not run together."""

_BEFORE = b'"choices":[{"index":0,"delta":'
_AFTER = b',"finish_reason":null}]'


class Chunks:
    """The chunks of one answer. They share one id, one time and one model.

    - created: seconds since 1970
    - content, reasoning: the pieces of the answer's text and of its reasoning
    - begun: whether a chunk has been made of what the model said
    """

    def __init__(self, answer_id: str, created: int, model: str) -> None:
        identity = {"id": answer_id, "object": KIND, "created": created, "model": model}
        self._head = b"data: " + to_json(identity)[:-1] + b","
        self.begun = False
        self.content = Deltas(self, "content")
        self.reasoning = Deltas(self, "reasoning_content")

    def before(self, delta: bytes) -> bytes:
        """The beginning of a chunk, up to and with the beginning of a delta."""
        return self._head + _BEFORE + delta

    def delta(self, delta: bytes) -> bytes:
        """A chunk with this delta, which is JSON text."""
        return self._head + _BEFORE + delta + _AFTER + b"}\n\n"

    def role(self) -> bytes:
        """The first chunk of the answer."""
        return self.delta(b'{"role":"assistant","content":""}')

    def empty(self) -> bytes:
        """A chunk without content. It shows that the answer goes on."""
        return self.delta(b"{}")

    def extra(self, told: bytes) -> bytes:
        """An empty chunk with `x_agent`, a JSON object that clients ignore."""
        return self._head + _BEFORE + b"{}" + _AFTER + b',"x_agent":' + told + b"}\n\n"

    def finish(self, reason: str, about: dict[str, Any]) -> bytes:
        """The one chunk with a finish reason. `about` tells of the run."""
        choice = {"index": 0, "delta": {}, "finish_reason": reason}
        return self._head + to_json({"choices": [choice], "x_agent": about})[1:] + b"\n\n"

    def usage(self, usage: dict[str, Any]) -> bytes:
        """The chunk without choices that tells the cost."""
        return self._head + to_json({"choices": [], "usage": usage})[1:] + b"\n\n"


class Deltas:
    """Frames for the pieces of one member of the delta.

    Nearly all frames come from here. So all JSON but the text's own is made once for a stream.
    """

    def __init__(self, chunks: Chunks, member: str) -> None:
        self._chunks = chunks
        self._before = chunks.before(b'{"' + member.encode() + b'":')
        self._after = b"}" + _AFTER + b"}\n\n"
        self._key: str | None = None

    def frames(self, key: str, text: str) -> tuple[Frame, ...]:
        """The frames of the text: none for an empty text, several for a long one. If the key is another than before, a
        blank line stands in front."""
        if key != self._key:
            if not text:
                return ()
            if self._key is not None:
                text = BETWEEN + text
            self._key = key
            self._chunks.begun = True
        elif not text:
            return ()
        return spell(self._before, text, self._after)


def spell(before: bytes, text: str, after: bytes) -> tuple[Frame, ...]:
    """The text between two pieces of JSON, over several frames where it is too long for one; lone
    surrogates are replaced."""
    try:
        body = orjson.dumps(text)
    except TypeError:
        body = text_json(well_formed(text))
    if len(body) > TEXT_LIMIT:
        return tuple(Frame(KIND, before + each + after) for each in split(text))
    return (Frame(KIND, before + body + after),)


class CallDeltas:
    """Frames of one tool call. `index` counts the answer's calls from 0."""

    def __init__(self, chunks: Chunks, index: int) -> None:
        self._chunks = chunks
        self._index = index
        self._before = chunks.before(b'{"tool_calls":[{"index":%d,"function":{"arguments":' % index)
        self.argued = False

    def open(self, call_id: str, name: str) -> tuple[Frame, ...]:
        """The first delta. Only this one has the call's id, type and name."""
        function = {"name": name, "arguments": ""}
        call = {"index": self._index, "id": call_id, "type": "function", "function": function}
        return (Frame(KIND, self._chunks.delta(to_json({"tool_calls": [call]}))),)

    def argue(self, text: str) -> tuple[Frame, ...]:
        """More of the arguments' JSON text."""
        if not text:
            return ()
        self.argued = True
        return spell(self._before, text, b"}}]}" + _AFTER + b"}\n\n")


def body_of(data: bytes) -> bytes:
    """The JSON text in a server-sent event."""
    return data.removeprefix(b"data: ").removesuffix(b"\n\n")


def read_frame(data: bytes) -> Any:
    """The JSON in a server-sent event. Raises ValueError if it is no JSON."""
    return orjson.loads(body_of(data))

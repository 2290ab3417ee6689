"""The list: which converters a reader of chat completions has, one per concern."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import fields

from agent_core.events import (
    AgentEnd,
    Event,
    RunFailed,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from converters.chain import Checked, Converter
from converters.openai.chunks import KIND, CallDeltas, Chunks, read_frame
from converters.wire import Frame, fit, to_json


class Text:
    """Text of the assistant. The texts of several model calls are one content, with blank lines between."""

    claims = (TextStart, TextDelta, TextEnd)

    def __init__(self, chunks: Chunks) -> None:
        self._deltas = chunks.content

    def convert(self, event: Event) -> Sequence[Frame]:
        return self._deltas.frames(event.reply_id, event.text) if isinstance(event, TextDelta) else ()


class Reasoning:
    """Reasoning, as `reasoning_content`: the member that DeepSeek introduced and clients read."""

    claims = (ThinkingStart, ThinkingDelta, ThinkingEnd)

    def __init__(self, chunks: Chunks) -> None:
        self._deltas = chunks.reasoning

    def convert(self, event: Event) -> Sequence[Frame]:
        return self._deltas.frames(event.block_id, event.text) if isinstance(event, ThinkingDelta) else ()


class Rest:
    """Whatever nobody else shows, as `x_agent`: the internal event's JSON, without the run that the stream
    is about anyway, and without its lane where that is the root. Hidden unless it was asked for.
    """

    claims = (Event,)

    def __init__(self, chunks: Chunks, shown: bool) -> None:
        self._chunks = chunks
        self._shown = shown

    def convert(self, event: Event) -> Sequence[Frame]:
        if not self._shown:
            return ()
        members: dict[str, Any] = {"type": event.__struct_config__.tag}
        for each in fields(event):
            if each.name != "run_id" and (each.name != "lane" or event.lane != "root"):
                members[each.encode_name] = getattr(event, each.name)
        return (Frame(KIND, self._chunks.aside(to_json(fit(members)))),)


class Calls:
    """Calls of the client's own tools, as `tool_calls` with dense indexes.

    The server's calls are not the client's to run, nor are they text, which models would imitate: they
    go where the rest goes. A call is told apart by its name.
    """

    claims = (ToolCallStart, ToolCallDelta, ToolCallEnd)

    def __init__(self, chunks: Chunks, client_tools: frozenset[str], rest: Rest) -> None:
        self._chunks = chunks
        self._client_tools = client_tools
        self._rest = rest
        self._calls: dict[str, CallDeltas] = {}

    @property
    def shown(self) -> bool:
        """Whether any call was shown to the client."""
        return bool(self._calls)

    def convert(self, event: Event) -> Sequence[Frame]:
        if isinstance(event, ToolCallStart):
            # Also for a call that is hidden: a failure from here on must not look like one that a client
            # may try again by itself, because the tool may have had an effect.
            self._chunks.begun = True
            if event.name in self._client_tools:
                return self._open(event)
        elif isinstance(event, ToolCallDelta | ToolCallEnd) and event.call_id in self._calls:
            call = self._calls[event.call_id]
            if isinstance(event, ToolCallDelta):
                return call.argue(event.text)
            return () if call.argued else call.argue("{}")  # no JSON at all would break the client's parser
        return self._rest.convert(event)

    def _open(self, event: ToolCallStart) -> Sequence[Frame]:
        if event.call_id in self._calls:
            return ()
        call = self._calls[event.call_id] = CallDeltas(self._chunks, len(self._calls))
        return call.open(event.call_id, event.name)


class Ends:
    """The run's end is the stream's to write, whatever a user's converter made of it."""

    claims = (AgentEnd, RunFailed)

    def convert(self, event: Event) -> Sequence[Frame]:  # noqa: ARG002  # the protocol's signature
        return ()


class Adopted:
    """A user's own converter, which makes AG-UI frames as everywhere: those of text and of reasoning become
    deltas, and all others are shown as `x_agent` where that was asked for. So nothing that a user makes can
    break an OpenAI client, and a converter that masks text masks it here too.
    """

    def __init__(self, converter: Converter, chunks: Chunks, shown: bool) -> None:
        self._checked = Checked(converter)
        self.claims = self._checked.claims
        self._chunks = chunks
        self._shown = shown
        self._deltas = {"TEXT_MESSAGE_CONTENT": chunks.content, "REASONING_MESSAGE_CONTENT": chunks.reasoning}

    def convert(self, event: Event) -> Sequence[Frame]:
        """The frames. Raises what Checked does, and ValueError or TypeError for a frame that holds no object."""
        return [made for frame in self._checked.convert(event) if frame.data for made in self._adopt(frame)]

    def _adopt(self, frame: Frame) -> Sequence[Frame]:
        members = read_frame(frame.data)
        if not isinstance(members, dict):
            raise TypeError("a converter's frame holds a JSON object")
        if frame.kind in self._deltas:
            return self._deltas[frame.kind].frames(str(members.get("messageId")), str(members.get("delta") or ""))
        return (Frame(KIND, self._chunks.aside(to_json(fit(members)))),) if self._shown else ()

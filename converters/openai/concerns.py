"""The converters of a reader of chat completions, one for each concern."""

from collections.abc import Sequence

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
    ToolResultEnd,
)
from converters.agui.concerns import converters as standard
from converters.chain import Chain, Checked, Converter
from converters.openai.chunks import KIND, CallDeltas, Chunks, body_of, read_frame
from converters.wire import Frame, fit, to_json


class Text:
    """Text of the assistant. The texts of several model calls are one content, with blank lines between."""

    claims = (TextStart, TextDelta, TextEnd)

    def __init__(self, chunks: Chunks) -> None:
        self._deltas = chunks.content

    def convert(self, event: Event) -> Sequence[Frame]:
        return self._deltas.frames(event.reply_id, event.text) if isinstance(event, TextDelta) else ()


class Reasoning:
    """Reasoning as `reasoning_content`. DeepSeek introduced the member, and clients read it."""

    claims = (ThinkingStart, ThinkingDelta, ThinkingEnd)

    def __init__(self, chunks: Chunks) -> None:
        self._deltas = chunks.reasoning

    def convert(self, event: Event) -> Sequence[Frame]:
        return self._deltas.frames(event.block_id, event.text) if isinstance(event, ThinkingDelta) else ()


class Rest:
    """Events without a shape at OpenAI, each as its AG-UI event in `x_agent` (see converters.agui): TOOL_CALL_RESULT,
    CUSTOM `token_usage`, RAW and so on. They are hidden unless the client has asked for them."""

    claims = (Event,)

    def __init__(self, chunks: Chunks, shown: bool, session_id: str, run_id: str) -> None:
        self._chunks = chunks
        self._chain = Chain(standard(session_id, run_id)) if shown else None

    def convert(self, event: Event) -> Sequence[Frame]:
        if self._chain is None:
            return ()
        frames = self._chain.convert(event)
        return [Frame(KIND, self._chunks.extra(body_of(frame.data))) for frame in frames if frame.data]


class Calls:
    """Calls of the client's own tools, as `tool_calls` with indexes from 0, once they wait for the client.

    Until then they are held back. Arguments may break off, and some clients run a call that was streamed, whatever
    comes behind it. The run tells at its end which calls wait. A call that was answered here instead is shown as the
    server's own calls are. Those are never shown as `tool_calls`, because the client must not run them. They are not
    shown as text either, because models would imitate it. A call is the client's if its tool's name is.
    """

    claims = (ToolCallStart, ToolCallDelta, ToolCallEnd, ToolResultEnd)

    def __init__(self, chunks: Chunks, client_tools: frozenset[str], rest: Rest) -> None:
        self._chunks = chunks
        self._client_tools = client_tools
        self._rest = rest
        self._held: dict[str, list[Event]] = {}

    def convert(self, event: Event) -> Sequence[Frame]:
        if isinstance(event, ToolCallStart):
            # Also for a hidden call: the tool may have an effect from here on, so a later failure must not look like
            # one after which the client may send the request again.
            self._chunks.begun = True
            if event.name in self._client_tools:
                self._held[event.call_id] = [event]
                return ()
        elif isinstance(event, ToolCallDelta | ToolCallEnd):
            if event.call_id in self._held:
                self._held[event.call_id].append(event)
                return ()
        elif isinstance(event, ToolResultEnd) and event.call_id in self._held:
            events = [*self._held.pop(event.call_id), event]
            return [frame for each in events for frame in self._rest.convert(each)]
        return self._rest.convert(event)

    def release(self, call_ids: Sequence[str]) -> list[Frame]:
        """The frames of these calls, as far as they are held back. The client knows the others already."""
        frames: list[Frame] = []
        held = [self._held.pop(call_id) for call_id in call_ids if call_id in self._held]
        for index, (start, *rest) in enumerate(held):
            assert isinstance(start, ToolCallStart)
            call = CallDeltas(self._chunks, index)
            frames += call.open(start.call_id, start.name)
            for each in rest:
                frames += call.argue(each.text) if isinstance(each, ToolCallDelta) else ()
            if not call.argued:
                frames += call.argue("{}")  # the client's parser breaks on an empty text
        return frames


class Ends:
    """Shows nothing of the run's end. The stream writes the end itself."""

    claims = (AgentEnd, RunFailed)

    def convert(self, event: Event) -> Sequence[Frame]:  # noqa: ARG002  # the protocol's signature
        return ()


class Adopted:
    """A user's own converter. It makes AG-UI frames here too.

    Its frames of text and reasoning become deltas. Its other frames are shown as `x_agent`, if that was asked for. So a
    user's frame cannot break an OpenAI client, and a converter that masks text masks it here too.
    """

    def __init__(self, converter: Converter, chunks: Chunks, shown: bool) -> None:
        self._checked = Checked(converter)
        self.claims = self._checked.claims
        self._chunks = chunks
        self._shown = shown
        self._deltas = {"TEXT_MESSAGE_CONTENT": chunks.content, "REASONING_MESSAGE_CONTENT": chunks.reasoning}

    def convert(self, event: Event) -> Sequence[Frame]:
        """The frames. Raises as Checked does, and ValueError or TypeError for a frame that holds no object."""
        return [made for frame in self._checked.convert(event) if frame.data for made in self._adopt(frame)]

    def _adopt(self, frame: Frame) -> Sequence[Frame]:
        members = read_frame(frame.data)
        if not isinstance(members, dict):
            raise TypeError("a converter's frame holds a JSON object")
        if frame.kind in self._deltas:
            return self._deltas[frame.kind].frames(str(members.get("messageId")), str(members.get("delta") or ""))
        return (Frame(KIND, self._chunks.extra(to_json(fit(members)))),) if self._shown else ()

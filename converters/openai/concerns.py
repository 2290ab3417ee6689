"""The list: which converters a reader of chat completions has, one per concern."""

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
    """Reasoning, as `reasoning_content`: the member that DeepSeek introduced and clients read."""

    claims = (ThinkingStart, ThinkingDelta, ThinkingEnd)

    def __init__(self, chunks: Chunks) -> None:
        self._deltas = chunks.reasoning

    def convert(self, event: Event) -> Sequence[Frame]:
        return self._deltas.frames(event.block_id, event.text) if isinstance(event, ThinkingDelta) else ()


class Rest:
    """Whatever has no OpenAI shape, as `x_agent`: the event of AG-UI that it is there (see converters.agui), such as
    TOOL_CALL_RESULT, CUSTOM `token_usage` and RAW. Hidden unless it was asked for.
    """

    claims = (Event,)

    def __init__(self, chunks: Chunks, shown: bool, session_id: str, run_id: str) -> None:
        self._chunks = chunks
        self._chain = Chain(standard(session_id, run_id)) if shown else None

    def convert(self, event: Event) -> Sequence[Frame]:
        if self._chain is None:
            return ()
        frames = self._chain.convert(event)
        return [Frame(KIND, self._chunks.aside(body_of(frame.data))) for frame in frames if frame.data]


class Calls:
    """Calls of the client's own tools, as `tool_calls` with dense indexes, once they wait for the client.

    Until then they are held back: arguments may break off, and what was streamed some clients run, whatever comes
    behind it. Which calls were accepted is known when the run says what waits. One that was answered here instead goes
    where the server's calls go: those are not the client's to run, nor text, which models would imitate. A call is
    told apart by its name.
    """

    claims = (ToolCallStart, ToolCallDelta, ToolCallEnd, ToolResultEnd)

    def __init__(self, chunks: Chunks, client_tools: frozenset[str], rest: Rest) -> None:
        self._chunks = chunks
        self._client_tools = client_tools
        self._rest = rest
        self._held: dict[str, list[Event]] = {}

    def convert(self, event: Event) -> Sequence[Frame]:
        if isinstance(event, ToolCallStart):
            # Also for a call that is hidden: a failure from here on must not look like one that a client
            # may try again by itself, because the tool may have had an effect.
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
        """The frames of those of these calls that are held back; none where the client knows them already."""
        frames: list[Frame] = []
        held = [self._held.pop(call_id) for call_id in call_ids if call_id in self._held]
        for index, (start, *rest) in enumerate(held):
            assert isinstance(start, ToolCallStart)
            call = CallDeltas(self._chunks, index)
            frames += call.open(start.call_id, start.name)
            for each in rest:
                frames += call.argue(each.text) if isinstance(each, ToolCallDelta) else ()
            if not call.argued:
                frames += call.argue("{}")  # no JSON at all would break the client's parser
        return frames


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

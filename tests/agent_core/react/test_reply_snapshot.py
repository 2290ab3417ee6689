"""A snapshot of an answer in the making: whenever it is taken, it and what comes after it are the whole answer."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.events import (
    Event,
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
from agent_core.messages import Message
from agent_core.models.base import ArgumentsPiece, CallPiece, Piece, TextPiece, ThinkingPiece
from agent_core.react.emitter import Emitter
from agent_core.react.reply import Reply

PIECES: st.SearchStrategy[Piece] = st.one_of(
    st.builds(TextPiece, st.sampled_from(["a", "b ", "c"])),
    st.builds(ThinkingPiece, st.sampled_from(["x", "y "])),
    st.builds(CallPiece, st.integers(0, 2), st.just(""), st.just("tool")),
    st.builds(ArgumentsPiece, st.integers(0, 2), st.sampled_from(['{"a":', "1}", "{}", '"'])),
)


class Shown:
    """A client's knowledge: texts, thoughts and calls, each by its id; and the open blocks."""

    def __init__(self) -> None:
        self.said: dict[tuple[str, str], str] = {}
        self.open: tuple[str, str] | None = None

    def know(self, message: Message | None) -> None:
        if message is None:
            return
        if message.text:
            self.said["text", message.id] = message.text
        for number, thought in enumerate(message.thoughts, start=1):
            self.said["thinking", f"{message.id}-thinking-{number}"] = thought
        for call in message.tool_calls:
            self.said["call", call.id] = "" if call.arguments == "{}" else call.arguments

    def see(self, event: Event) -> None:
        match event:
            case TextStart() | TextDelta() | TextEnd():
                self._step(("text", event.reply_id), event)
            case ThinkingStart() | ThinkingDelta() | ThinkingEnd():
                self._step(("thinking", event.block_id), event)
            case ToolCallStart() | ToolCallDelta() | ToolCallEnd():
                self._step(("call", event.call_id), event)

    def _step(self, block: tuple[str, str], event: Event) -> None:
        if isinstance(event, TextStart | ThinkingStart | ToolCallStart):
            assert self.open is None, "blocks never interleave"
            self.open = block
            self.said.setdefault(block, "")
        else:
            assert self.open == block
            if isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta):
                self.said[block] += event.text
            else:
                self.open = None


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=25))
def test_a_snapshot_taken_at_any_event_and_what_comes_after_it_are_the_whole_answer(given_pieces: list[Piece]) -> None:
    events: list[Event] = []
    snapshots: list[tuple[Message | None, tuple[Event, ...]]] = []

    def emit(event: Event) -> None:
        events.append(event)
        snapshots.append(reply.snapshot())

    reply = Reply(Emitter("r", send=emit), set())
    for piece in given_pieces:
        reply.take(piece)
    message = reply.finish()
    whole = Shown()
    for event in events:
        whole.see(event)
    for place, (before, opened) in enumerate(snapshots, start=1):
        shown = Shown()
        shown.know(before)
        for event in (*opened, *events[place:]):
            shown.see(event)
        assert {block: text for block, text in shown.said.items() if text not in ("", "{}")} == {
            block: text for block, text in whole.said.items() if text not in ("", "{}")
        }
    last, nothing = reply.snapshot()
    assert nothing == ()
    assert last == (message if given_pieces and events else None)


def test_before_anything_was_said_there_is_nothing_to_show() -> None:
    assert Reply(Emitter("r"), set()).snapshot() == (None, ())


def test_what_waits_behind_an_open_call_is_not_in_the_snapshot() -> None:
    reply = Reply(Emitter("r"), set())
    for piece in (TextPiece("so "), CallPiece(0, "c1", "t"), ArgumentsPiece(0, '{"a":'), TextPiece("later")):
        reply.take(piece)
    message, opened = reply.snapshot()
    assert message is not None
    assert (message.text, message.tool_calls) == ("so ", ())
    assert [type(event).__name__ for event in opened] == ["ToolCallStart", "ToolCallDelta"]


def test_an_answer_that_is_whole_is_not_there_twice() -> None:
    reply = Reply(Emitter("r", send=list[Event]().append), set())
    for piece in (TextPiece("a"), TextPiece("b"), CallPiece(0, "c", "tool"), ArgumentsPiece(0, "{"), TextPiece("c")):
        reply.take(piece)
    reply.take(ArgumentsPiece(0, "}"))
    assert reply.size == 5
    message = reply.finish()
    assert (message.text, message.tool_calls[0].arguments) == ("abc", "{}")
    assert [block.parts for block in reply._blocks] == [["ab"], ["{}"], ["c"]]

"""An assistant message while it is being streamed: pieces go in, events of whole blocks come out.

Blocks never interleave, since old clients refuse it: text, thinking and each tool call are started,
filled and ended one after another. A provider may mix them (arguments of two calls in turn); then what
does not belong to the open call is held back until its arguments are complete JSON, or the answer ends.
"""

from collections.abc import Callable

import orjson

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
from agent_core.messages import Message, ToolCall, new_id
from agent_core.models.base import ArgumentsPiece, CallPiece, Piece, TextPiece, ThinkingPiece


class _Call:
    """A call that is being streamed."""

    __slots__ = ("_complete", "_judged", "arguments", "extra", "id", "name")

    def __init__(self, call_id: str, piece: CallPiece) -> None:
        self.id = call_id
        self.name = piece.name
        self.extra = piece.extra
        self.arguments: list[str] = []
        self._judged = -1
        self._complete = False

    def complete(self) -> bool:
        """Whether the arguments so far are JSON. Judged again only after more came."""
        if self._judged != len(self.arguments):
            self._judged = len(self.arguments)
            try:
                orjson.loads("".join(self.arguments))
                self._complete = True
            except ValueError:
                self._complete = False
        return self._complete


class Reply:
    """One assistant message in the making.

    `used` are the call ids that the session has already seen. Without `calls`, the model was offered no
    tools, and what it asks for all the same is dropped.
    """

    def __init__(self, run_id: str, emit: Callable[[Event], None], used: set[str], *, calls: bool = True) -> None:
        self.id = new_id("msg")
        self._run_id = run_id
        self._emit = emit
        self._used = used
        self._with_calls = calls
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._open: TextStart | ThinkingStart | _Call | None = None
        self._thoughts = 0
        self._held: list[Piece] = []

    def take(self, piece: Piece) -> None:
        """Add a piece and emit what can be emitted in order."""
        opened = self._open
        if type(piece) is TextPiece and type(opened) is TextStart:  # the hot path
            self._text.append(piece.text)
            self._emit(TextDelta(run_id=self._run_id, reply_id=self.id, text=piece.text))
        elif type(opened) is _Call and not self._belongs(piece, opened) and (self._held or not opened.complete()):
            self._held.append(piece)
            if opened.complete():
                self._replay()
        else:
            self._place(piece)

    def _belongs(self, piece: Piece, call: _Call) -> bool:
        return type(piece) is ArgumentsPiece and self._by_index.get(piece.index) is call

    def _replay(self) -> None:
        held, self._held = self._held, []
        self._end_block()
        for piece in held:
            self.take(piece)

    def _place(self, piece: Piece) -> None:
        if type(piece) is TextPiece:
            self._start_text(piece.text)
        elif type(piece) is ThinkingPiece:
            self._think(piece.text)
        elif not self._with_calls:
            return
        elif type(piece) is CallPiece:
            self._start_call(piece)
        elif type(piece) is ArgumentsPiece:
            self._add_arguments(piece)

    def _start_text(self, text: str) -> None:
        self._end_block()
        self._open = TextStart(run_id=self._run_id, reply_id=self.id)
        self._emit(self._open)
        self._text.append(text)
        self._emit(TextDelta(run_id=self._run_id, reply_id=self.id, text=text))

    def _think(self, text: str) -> None:
        if type(self._open) is not ThinkingStart:
            self._end_block()
            self._thoughts += 1
            block = f"{self.id}-thinking-{self._thoughts}"
            self._open = ThinkingStart(run_id=self._run_id, reply_id=self.id, block_id=block)
            self._emit(self._open)
        self._thinking.append(text)
        self._emit(
            ThinkingDelta(run_id=self._run_id, reply_id=self.id, block_id=self._open.block_id, text=text),
        )

    def _start_call(self, piece: CallPiece) -> None:
        self._end_block()
        call_id = piece.id if piece.id and piece.id not in self._used else new_id("call")
        self._used.add(call_id)
        call = _Call(call_id, piece)
        self._calls.append(call)
        self._by_index[piece.index] = call
        self._open = call
        self._emit(ToolCallStart(run_id=self._run_id, reply_id=self.id, call_id=call_id, name=call.name))

    def _add_arguments(self, piece: ArgumentsPiece) -> None:
        call = self._by_index.get(piece.index)
        if call is None:
            return  # arguments of a call that was never begun
        call.arguments.append(piece.text)
        if call is self._open:
            self._emit(ToolCallDelta(run_id=self._run_id, reply_id=self.id, call_id=call.id, text=piece.text))

    def _end_block(self) -> None:
        opened, self._open = self._open, None
        if type(opened) is TextStart:
            self._emit(TextEnd(run_id=self._run_id, reply_id=self.id))
        elif type(opened) is ThinkingStart:
            self._emit(ThinkingEnd(run_id=self._run_id, reply_id=self.id, block_id=opened.block_id))
        elif type(opened) is _Call:
            self._emit(ToolCallEnd(run_id=self._run_id, reply_id=self.id, call_id=opened.id))

    def finish(self) -> Message:
        """End what is open and return the message: whole after a good stream, else what had come."""
        while self._held:
            self._replay()  # ends at least one call each time, so it comes to an end
        self._end_block()
        return Message(
            id=self.id,
            role="assistant",
            content="".join(self._text),
            thinking="".join(self._thinking),
            tool_calls=tuple(
                ToolCall(id=call.id, name=call.name, arguments="".join(call.arguments) or "{}", extra=call.extra)
                for call in self._calls
            ),
        )

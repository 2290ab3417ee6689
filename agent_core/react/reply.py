"""An assistant message while it is being streamed: pieces go in, events of whole blocks come out.

Blocks never interleave, because old clients refuse that: text, thinking and each tool call are started, filled and
ended one after another. A provider may mix them, such as the arguments of two calls. Then the blocks behind the open
call wait with their pieces. They wait until the call's arguments are a whole JSON value, or the answer ends. A call
without arguments counts as open until then, because they may still come.

Within one answer an id is one call: a second call with the same id is dropped. Arguments that are no object are shown
only when they are whole, because clients fail on them. `{}` takes the place of null. In a client's call it also takes
the place of no arguments and of any other value.
"""

import re
from collections import deque
from collections.abc import Container, Mapping, Sequence
from typing import Any

from agent_core.errors import ModelError
from agent_core.events import (
    Cut,
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
from agent_core.messages import Message, ToolCall, counts_as_none, new_id, own_id
from agent_core.models.base import ArgumentsPiece, CallPiece, CutPiece, Piece, TextPiece, ThinkingPiece
from agent_core.react.emitter import Emitter

MOST_CALLS = 128
"""Calls of one answer at most."""

_TOKENS = re.compile(r'\\.|\\$|["{}\[\]]', re.DOTALL)


class _Text:
    """A run of text."""

    __slots__ = ("parts",)
    whole = True

    def __init__(self) -> None:
        self.parts: list[str] = []


class _Thinking:
    """A run of thinking, with the id of its block."""

    __slots__ = ("id", "parts")
    whole = True

    def __init__(self, block_id: str) -> None:
        self.id = block_id
        self.parts: list[str] = []


class _Call:
    """A tool call. `whole`: its arguments so far are a complete object or array; each character is read once. `begins`:
    they begin as an object, None while they are blank. `shown`: the arguments so far were emitted."""

    __slots__ = (
        "_depth", "_escaped", "_in_string",
        "begins", "ended", "extra", "id", "name", "origin", "parts", "shown", "whole",
    )  # fmt: skip

    def __init__(self, call_id: str, name: str, extra: Mapping[str, Any], origin: str) -> None:
        self.id = call_id
        self.origin = origin
        self.name = name
        self.extra = extra
        self.parts: list[str] = []
        self.whole = False
        self.begins: bool | None = None
        self.shown = False
        self.ended = False
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def add(self, text: str) -> None:
        self.parts.append(text)
        if self.begins is None and (first := text.lstrip()):
            self.begins = first[0] == "{"
        if self._escaped:
            text, self._escaped = text[1:], False
        for token in _TOKENS.findall(text):
            if token == '"':
                self._in_string = not self._in_string
            elif token == "\\":
                self._escaped = True  # what it escapes comes with the next piece
            elif not self._in_string and len(token) == 1:
                self._depth += 1 if token in "{[" else -1
                self.whole = self._depth == 0


_Block = _Text | _Thinking | _Call


class Reply:
    """One assistant message in the making.

    `used` are the call ids that the session has already seen. Without `calls`, the model was offered no
    tools, and what it asks for all the same is dropped. `fresh` gives each call an id of our own, made of the
    provider's: providers repeat theirs in each conversation. `theirs` are the names of the tools that the client
    runs. `cut` says why the provider cut the message, None where it did not.
    """

    def __init__(
        self,
        emitter: Emitter,
        used: set[str],
        *,
        calls: bool = True,
        fresh: bool = False,
        theirs: Container[str] = (),
    ) -> None:
        self.id = new_id("msg")
        self._emitter = emitter
        self._used = used
        self._with_calls = calls
        self._fresh = fresh
        self._theirs = theirs
        self._given: set[str] = set()
        self.cut: Cut | None = None
        self._blocks: list[_Block] = []
        self._thoughts = 0
        self._calls = 0
        self._by_index: dict[int, _Call] = {}
        self._open: _Block | None = None
        self._waiting: deque[_Block] = deque()

    def take(self, piece: Piece) -> None:
        """Add a piece and emit what can be emitted in order.

        Raises ModelError `model_bad_answer` for more than MOST_CALLS calls.
        """
        if isinstance(piece, TextPiece):
            block = self._open
            if block.__class__ is _Text and not self._waiting:  # nearly every piece: more of the open text
                block.parts.append(piece.text)
                self._emitter.text(self.id, piece.text)
            else:
                self._say(piece.text)
        elif isinstance(piece, ThinkingPiece):
            self._think(piece.text)
        elif isinstance(piece, CutPiece):
            self.cut = piece.why
        elif not self._with_calls:
            return
        elif isinstance(piece, CallPiece):
            self._call(piece)
        elif isinstance(piece, ArgumentsPiece):
            self._argue(piece)

    def _say(self, text: str) -> None:
        block = self._last()
        if block.__class__ is not _Text:
            block = self._add(_Text())
        block.parts.append(text)
        if block is self._open:
            self._emitter.text(self.id, text)

    def _think(self, text: str) -> None:
        block = self._last()
        if not isinstance(block, _Thinking):
            self._thoughts += 1
            block = _Thinking(f"{self.id}-thinking-{self._thoughts}")
            self._add(block)
        block.parts.append(text)
        if block is self._open:
            self._emitter.emit(ThinkingDelta, reply_id=self.id, block_id=block.id, text=text)

    def _call(self, piece: CallPiece) -> None:
        if piece.id in self._given:
            return  # and so are its arguments, unless its index is that of the first
        if piece.id:
            self._given.add(piece.id)
        self._calls += 1
        if self._calls > MOST_CALLS:
            raise ModelError("model_bad_answer", detail=f"more than {MOST_CALLS} tool calls in one answer")
        known = not self._fresh and piece.id and piece.id not in self._used
        call_id = piece.id if known else own_id(piece.id) if self._fresh else new_id("call")
        self._used.add(call_id)
        call = self._by_index[piece.index] = _Call(call_id, piece.name, piece.extra, piece.origin)
        self._add(call)

    def _argue(self, piece: ArgumentsPiece) -> None:
        call = self._by_index.get(piece.index)
        if call is None or call.ended:
            return  # what a client was shown as ended is what will be run
        call.add(piece.text)
        if call is self._open:
            if call.begins:
                text, call.shown = piece.text if call.shown else "".join(call.parts), True
                self._emitter.emit(ToolCallDelta, reply_id=self.id, call_id=call.id, text=text)
            if call.whole and self._waiting:
                self._advance()

    def _last(self) -> _Block | None:
        """The block that new text or thinking belongs to: the last one, open or waiting."""
        return self._waiting[-1] if self._waiting else self._open

    def _add(self, block: _Block) -> _Block:
        self._blocks.append(block)
        self._waiting.append(block)
        if self._open is None or self._open.whole:
            self._advance()
        return block

    def _advance(self) -> None:
        """End the open block and open those that wait, up to the first that is not whole."""
        while self._waiting:
            self._end()
            self._start(self._waiting.popleft())
            if self._open is not None and not self._open.whole:
                return

    def _start(self, block: _Block) -> None:
        self._open = block
        if isinstance(block, _Call):
            self._emitter.send(self._start_of(block))
            if block.begins:
                block.shown = True
                self._emitter.send(self._delta_of(block, "".join(block.parts)))
            return
        text = "".join(block.parts)
        block.parts.clear()  # what was not emitted yet is in no snapshot
        self._emitter.send(self._start_of(block))
        if text:
            block.parts.append(text)
            self._emitter.send(self._delta_of(block, text))

    def _start_of(self, block: _Block) -> Event:
        make = self._emitter.make
        if isinstance(block, _Call):
            return make(ToolCallStart, reply_id=self.id, call_id=block.id, name=block.name)
        if isinstance(block, _Thinking):
            return make(ThinkingStart, reply_id=self.id, block_id=block.id)
        return make(TextStart, reply_id=self.id)

    def _delta_of(self, block: _Block, text: str) -> Event:
        make = self._emitter.make
        if isinstance(block, _Call):
            return make(ToolCallDelta, reply_id=self.id, call_id=block.id, text=text)
        if isinstance(block, _Thinking):
            return make(ThinkingDelta, reply_id=self.id, block_id=block.id, text=text)
        return make(TextDelta, reply_id=self.id, text=text)

    def _end(self) -> None:
        if isinstance(self._open, _Call) and not self._open.shown:
            self._settle(self._open)
        block, self._open = self._open, None
        if isinstance(block, _Call):
            block.ended = True
            self._emitter.emit(ToolCallEnd, reply_id=self.id, call_id=block.id)
        elif isinstance(block, _Thinking):
            self._emitter.emit(ThinkingEnd, reply_id=self.id, block_id=block.id)
        elif block is not None:
            self._emitter.emit(TextEnd, reply_id=self.id)

    def _settle(self, call: _Call) -> None:
        """Show arguments that do not begin as an object, as what they count for."""
        text = "".join(call.parts)
        theirs = call.name in self._theirs
        if (theirs and not text.strip()) or counts_as_none(text, theirs=theirs):
            text = "{}"
        call.shown = bool(text.strip())
        call.parts = [text] if call.shown else []
        if call.shown:
            self._emitter.send(self._delta_of(call, text))

    def finish(self) -> Message:
        """End the open block and return the message. It is whole after a good stream, else it has what had come."""
        while self._waiting:
            self._advance()
        self._end()
        return self._message(self._blocks)

    @property
    def size(self) -> int:
        """The characters that have come."""
        return sum(len(part) for block in self._blocks for part in block.parts)

    def snapshot(self) -> tuple[Message | None, tuple[Event, ...]]:
        """What was emitted so far, in another form: a message of the ended blocks (None without one), and events that
        start the open block and tell its text."""
        behind = {id(block) for block in (self._open, *self._waiting)}
        ended = [block for block in self._blocks if id(block) not in behind]
        block, events = self._open, list[Event]()
        if block is not None:
            events.append(self._start_of(block))
            if block.parts and (not isinstance(block, _Call) or block.shown):
                events.append(self._delta_of(block, _text_of(block)))
        return self._message(ended) if ended else None, tuple(events)

    def _message(self, blocks: Sequence[_Block]) -> Message:
        return Message(
            id=self.id,
            role="assistant",
            content="".join(_text_of(block) for block in blocks if isinstance(block, _Text)),
            thoughts=tuple(_text_of(block) for block in blocks if isinstance(block, _Thinking)),
            tool_calls=tuple(
                ToolCall(
                    id=call.id,
                    name=call.name,
                    arguments=_text_of(call) or "{}",
                    extra=call.extra,
                    origin=call.origin,
                )
                for call in blocks
                if isinstance(call, _Call)
            ),
        )


def _text_of(block: _Block) -> str:
    """The block's text. Its parts become one, so that it is not there twice."""
    if len(block.parts) > 1:
        block.parts[:] = ["".join(block.parts)]
    return "".join(block.parts)

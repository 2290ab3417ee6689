"""The order of an AG-UI stream: which frame may follow which.

AG-UI's client rejects the whole run if a rule is broken. The rules:

1. RUN_STARTED comes first, once. If a run ends before it has begun, RUN_STARTED is put in front of its end.
2. Exactly one of RUN_FINISHED and RUN_ERROR comes last. Open blocks are ended before it.
3. A block is a text message, a tool call, a reasoning message, a reasoning span, a step or a subagent. It is opened by
   an id that is not open, and continued and closed by one that is. A subagent's id is used once, and its parent was
   started before.
4. A frame of a subagent has the same owner as its block.
5. Clients from before 1.0 get blocks one after another: opening one ends the one before. They see no subagents.

A frame that breaks a rule is dropped. The first such drop of a reader is logged.
"""

import logging
from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

from converters.agui.dialect import Dialect
from converters.agui.encode import compose
from converters.wire import Frame, Key

logger = logging.getLogger(__name__)


class State(Enum):
    """The state of a stream: before RUN_STARTED, between it and the terminal frame, after that."""

    WAITING = auto()
    RUNNING = auto()
    OVER = auto()


class Act(Enum):
    """The effect of a frame on the stream."""

    BEGIN = auto()
    FINISH = auto()
    OPEN = auto()
    CONTINUE = auto()
    CLOSE = auto()
    TELL = auto()


MAY_FOLLOW: Mapping[State, frozenset[Act]] = {
    State.WAITING: frozenset({Act.BEGIN, Act.FINISH}),
    State.RUNNING: frozenset({Act.FINISH, Act.OPEN, Act.CONTINUE, Act.CLOSE, Act.TELL}),
    State.OVER: frozenset(),
}


class FrameKind(NamedTuple):
    """A kind of frame: what it does, its kind of block, and the name under which its ids have owners."""

    act: Act
    block: str = ""
    owned_as: str = ""


KINDS: Mapping[str, FrameKind] = {
    "RUN_STARTED": FrameKind(Act.BEGIN),
    "RUN_FINISHED": FrameKind(Act.FINISH),
    "RUN_ERROR": FrameKind(Act.FINISH),
    "TEXT_MESSAGE_START": FrameKind(Act.OPEN, "text", "message"),
    "TEXT_MESSAGE_CONTENT": FrameKind(Act.CONTINUE, "text", "message"),
    "TEXT_MESSAGE_END": FrameKind(Act.CLOSE, "text", "message"),
    "TOOL_CALL_START": FrameKind(Act.OPEN, "call", "call"),
    "TOOL_CALL_ARGS": FrameKind(Act.CONTINUE, "call", "call"),
    "TOOL_CALL_END": FrameKind(Act.CLOSE, "call", "call"),
    "REASONING_MESSAGE_START": FrameKind(Act.OPEN, "reasoning", "reasoning"),
    "REASONING_MESSAGE_CONTENT": FrameKind(Act.CONTINUE, "reasoning", "reasoning"),
    "REASONING_MESSAGE_END": FrameKind(Act.CLOSE, "reasoning", "reasoning"),
    "REASONING_START": FrameKind(Act.OPEN, "span", "reasoning"),
    "REASONING_END": FrameKind(Act.CLOSE, "span", "reasoning"),
    "STEP_STARTED": FrameKind(Act.OPEN, "step"),
    "STEP_FINISHED": FrameKind(Act.CLOSE, "step"),
    "SUBAGENT_STARTED": FrameKind(Act.OPEN, "subagent"),
    "SUBAGENT_FINISHED": FrameKind(Act.CLOSE, "subagent"),
    "SUBAGENT_ERROR": FrameKind(Act.CLOSE, "subagent"),
    "TOOL_CALL_RESULT": FrameKind(Act.TELL, owned_as="message"),
    "STATE_SNAPSHOT": FrameKind(Act.TELL),
    "STATE_DELTA": FrameKind(Act.TELL),
    "MESSAGES_SNAPSHOT": FrameKind(Act.TELL),
    "ACTIVITY_SNAPSHOT": FrameKind(Act.TELL),
    "ACTIVITY_DELTA": FrameKind(Act.TELL),
    "REASONING_ENCRYPTED_VALUE": FrameKind(Act.TELL),
    "RAW": FrameKind(Act.TELL),
    "CUSTOM": FrameKind(Act.TELL),
}

ENDS: Mapping[str, tuple[str, str]] = {
    "text": ("TEXT_MESSAGE_END", "messageId"),
    "call": ("TOOL_CALL_END", "toolCallId"),
    "reasoning": ("REASONING_MESSAGE_END", "messageId"),
    "span": ("REASONING_END", "messageId"),
    "step": ("STEP_FINISHED", "stepName"),
    "subagent": ("SUBAGENT_FINISHED", "subagentRunId"),
}
"""The frame that ends each kind of block, and its id's member. Open blocks are ended in this order, the innermost
first."""

ONE_AT_A_TIME: Mapping[str, tuple[str, ...]] = {
    "text": ("text", "call", "reasoning", "span"),
    "call": ("text", "call", "reasoning", "span"),
    "reasoning": ("text", "call", "reasoning"),
    "span": ("text", "call", "reasoning", "span"),
}
"""For clients from before 1.0: the blocks that must not be open when such a block is opened."""


class Order:
    """Lets frames through that may be sent. Each reader has one. `started` is the run's own RUN_STARTED."""

    def __init__(self, started: Frame, dialect: Dialect) -> None:
        self.state = State.WAITING
        self._started = started
        self._old = dialect is Dialect.OLD
        self._open: dict[str, dict[Key, None]] = {block: {} for block in ENDS}
        self._owners: dict[tuple[str, Key], str | None] = {}
        self._subagents: set[Key] = set()
        self._warned = False

    def admit(self, frame: Frame, out: list[bytes]) -> None:
        """Append to `out` what the stream sends for the frame: nothing, the frame, or ends of blocks and the frame."""
        kind = KINDS.get(frame.kind)
        # The quick way, for most frames. A block can be open only while the run is, so the state need not be checked.
        if kind is not None and kind.act is Act.CONTINUE and frame.owner is None:
            if frame.key in self._open[kind.block]:
                out.append(frame.data)
            else:
                self._drop(frame)
        elif self._old and (frame.owner is not None or (kind and kind.block == "subagent")):
            pass
        elif kind is None or kind.act not in MAY_FOLLOW[self.state] or not self._fits(frame, kind):
            self._drop(frame)
        else:
            self._enter(frame, kind, out)
            out.append(frame.old if self._old and frame.old is not None else frame.data)

    def end_open(self, out: list[bytes]) -> None:
        """Append the ends of all open blocks to `out`."""
        self._end(tuple(ENDS), out)

    def _fits(self, frame: Frame, kind: FrameKind) -> bool:
        match kind.act:
            case Act.BEGIN:
                return (frame.key, frame.ref) == (self._started.key, self._started.ref)
            case Act.FINISH:
                return frame.kind == "RUN_ERROR" or (frame.key, frame.ref) == (self._started.key, self._started.ref)
            case Act.OPEN:
                return frame.key not in self._open[kind.block] and self._may_own(frame, kind)
            case Act.CONTINUE | Act.CLOSE:
                return frame.key in self._open[kind.block] and self._may_own(frame, kind)
            case Act.TELL:
                return True

    def _may_own(self, frame: Frame, kind: FrameKind) -> bool:
        """Check rule 4, and for subagents the rest of rule 3. Owners are kept after a block is closed, because the
        client compares them if the id is opened again."""
        if kind.block == "subagent" and kind.act is Act.OPEN:
            return frame.key not in self._subagents and (frame.ref is None or frame.ref in self._subagents)
        if not kind.owned_as:
            return True
        known = [(kind.owned_as, frame.key)]
        if kind.block == "call" and frame.ref is not None:
            known.append(("message", frame.ref))
        owners = {self._owners[each] for each in known if each in self._owners}
        if frame.owner is not None:
            owners.add(frame.owner)
        return len(owners) < 2

    def _enter(self, frame: Frame, kind: FrameKind, out: list[bytes]) -> None:
        """Change the state as the frame does. Append to `out` the ends that must come before it."""
        match kind.act:
            case Act.BEGIN:
                self.state = State.RUNNING
            case Act.FINISH:
                if self.state is State.WAITING:
                    out.append(self._started.data)
                self._end(tuple(ENDS), out, failed=frame.kind == "RUN_ERROR")
                self.state = State.OVER
            case Act.OPEN:
                if self._old:
                    self._end(ONE_AT_A_TIME.get(kind.block, ()), out)
                self._open[kind.block][frame.key] = None
                self._own(frame, kind)
            case Act.CLOSE:
                del self._open[kind.block][frame.key]
            case Act.TELL if kind.owned_as:
                self._owners[(kind.owned_as, frame.key)] = frame.owner

    def _own(self, frame: Frame, kind: FrameKind) -> None:
        if kind.block == "subagent":
            self._subagents.add(frame.key)
        elif kind.owned_as:
            owner = frame.owner
            if owner is None and kind.block == "call" and frame.ref is not None:
                owner = self._owners.get(("message", frame.ref))
            self._owners.setdefault((kind.owned_as, frame.key), owner)

    def _end(self, blocks: tuple[str, ...], out: list[bytes], failed: bool = False) -> None:
        for block in blocks:
            kind, name = ENDS[block]
            for key in reversed(self._open[block]):
                # Only a step names its owner here. For other blocks, no owner means the block's owner.
                owner, value = key if isinstance(key, tuple) else (None, key)
                members = {"type": kind, name: value} | ({} if owner is None else {"subagentRunId": owner})
                if failed and block == "subagent":
                    members |= {"type": "SUBAGENT_ERROR", "message": "The run ended before the subagent did."}
                out.append(compose(members).data)
            self._open[block].clear()

    def _drop(self, frame: Frame) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("A frame out of order was dropped (%s, %s).", frame.kind, self.state.name.lower())

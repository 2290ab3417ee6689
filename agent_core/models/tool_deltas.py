"""Tool calls, put together from the deltas of a Chat Completions stream.

Compatible providers do not agree on how a delta names its call. These rules fit what they send:

- A new id with a name opens a call, also if all calls of the answer have index 0.
- A known id, an empty id or no id continues a call. A name that comes again changes nothing.
- Four things open a call without an id: a new index, another name, arguments that begin again after complete ones, and
  a second name in one list without an index. Such a call gets an id of our own.
- A call's pieces are given once its name is known. Its id and name never change after that.
- A call that comes again with its id, its name and all its arguments is the same call. So is a call of a whole message
  that was streamed before.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from agent_core.errors import ModelError
from agent_core.messages import new_id
from agent_core.models.base import ArgumentsPiece, CallPiece

KNOWN = frozenset({"id", "type", "index", "function"})


class _Call:
    """A call that is not complete yet. `index` is our own, counted from 0; None until the call has a name."""

    __slots__ = ("arguments", "extra", "id", "index", "name", "size")

    def __init__(self, call_id: str) -> None:
        self.id = call_id
        self.name = ""
        self.index: int | None = None
        self.arguments: list[str] = []
        self.size = 0
        self.extra: dict[str, Any] = {}

    def is_said(self, arguments: str) -> bool:
        """Whether these are the call's arguments so far, and they are complete JSON."""
        return len(arguments) == self.size > 0 and "".join(self.arguments) == arguments and _is_complete(self.arguments)


class ToolDeltas:
    """The calls of one answer. `origin` is the mark of the model that makes them."""

    def __init__(self, origin: str = "") -> None:
        self._origin = origin
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._told = 0

    def __bool__(self) -> bool:
        return bool(self._calls)

    def take(self, deltas: Sequence[Any]) -> list[CallPiece | ArgumentsPiece]:
        """The pieces of one `tool_calls` list."""
        pieces: list[CallPiece | ArgumentsPiece] = []
        named = False
        for delta in deltas:
            if isinstance(delta, dict):
                bare = _is_bare(delta)
                name, arguments = _function(delta)
                call = None if bare and named else self._continued(delta, name, arguments)
                if call is None:
                    call = self._open(delta)
                elif name and call.name and _string(delta.get("id")) and call.is_said(arguments):
                    continue
                self._add(call, delta, name, arguments, pieces)
                named = named or bare
        return pieces

    def complete(self, calls: Sequence[Any]) -> list[CallPiece | ArgumentsPiece]:
        """The pieces that the `tool_calls` of a whole message add. Each entry is a complete call, and may have been
        streamed before."""
        pieces: list[CallPiece | ArgumentsPiece] = []
        streamed = list(self._calls)
        for place, entry in enumerate(calls):
            if isinstance(entry, dict):
                name, arguments = _function(entry)
                call = self._streamed(entry, name, arguments, streamed[place : place + 1])
                if call is not None:
                    known = "".join(call.arguments)
                    arguments = arguments[len(known) :] if arguments.startswith(known) else ""
                self._add(call or self._open(entry), entry, name, arguments, pieces)
        return pieces

    def _streamed(self, entry: Mapping[str, Any], name: str, arguments: str, at_place: Sequence[_Call]) -> _Call | None:
        """The streamed call that this entry of a whole message repeats, or None."""
        known = self._by_id.get(_string(entry.get("id")))
        if known is not None:
            return known
        # The entry may lack the id or have another one. The answer is the same, so a call at the same place is, too.
        for call in at_place:
            if call.name in ("", name) and (not arguments or arguments.startswith("".join(call.arguments))):
                return call
        return None

    def finish(self) -> None:
        """The answer has ended. Raises ModelError model_bad_answer if a call still has no name."""
        if any(call.index is None for call in self._calls):
            raise ModelError("model_bad_answer", detail="a tool call without a name")

    def _add(
        self,
        call: _Call,
        delta: Mapping[str, Any],
        name: str,
        arguments: str,
        pieces: list[CallPiece | ArgumentsPiece],
    ) -> None:
        if call.index is None:
            call.extra.update((key, value) for key, value in delta.items() if key not in KNOWN and value is not None)
            if name:
                call.name = name
                call.index = self._told
                self._told += 1
                pieces.append(CallPiece(call.index, call.id, name, call.extra, self._origin))
                pieces += [ArgumentsPiece(call.index, text) for text in call.arguments]
        if arguments:
            call.arguments.append(arguments)
            call.size += len(arguments)
            if call.index is not None:
                pieces.append(ArgumentsPiece(call.index, arguments))

    def _continued(self, delta: Mapping[str, Any], name: str, arguments: str) -> _Call | None:
        """The call that this delta continues, or None if it opens a call."""
        call_id = _string(delta.get("id"))
        index = _index(delta)
        at_index = self._by_index.get(index) if index is not None else None
        if call_id:
            known = self._by_id.get(call_id)
            if known is not None and name and index is not None and at_index is not known:
                return None  # a new call under a used id: whoever puts the answer together drops it
            # Some providers make a new id for each chunk. Without a name it is no new call.
            return known or (at_index if not name else None)
        call = at_index if at_index is not None else self._last(index, name)
        if call is None or not name or not call.name:
            return call
        if name != call.name or (arguments.lstrip().startswith("{") and _is_complete(call.arguments)):
            return None
        return call

    def _last(self, index: int | None, name: str) -> _Call | None:
        """The call that was opened last. It is for a delta without an id, and without a known index."""
        if not self._calls or (index is not None and name):
            return None
        return self._calls[-1]

    def _open(self, delta: Mapping[str, Any]) -> _Call:
        call_id = _string(delta.get("id"))
        call = _Call(call_id or new_id("call"))
        self._calls.append(call)
        if call_id:
            self._by_id[call_id] = call
        index = _index(delta)
        if index is not None:
            self._by_index[index] = call
        return call


def _function(delta: Mapping[str, Any]) -> tuple[str, str]:
    """The delta's name, and its arguments as JSON text. Both may be empty."""
    function = delta.get("function")
    function = function if isinstance(function, dict) else {}
    return _string(function.get("name")), _arguments(function.get("arguments"))


def _is_bare(delta: Mapping[str, Any]) -> bool:
    """Whether the delta has a name, but no id and no index."""
    return bool(_function(delta)[0]) and not _string(delta.get("id")) and _index(delta) is None


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _index(delta: Mapping[str, Any]) -> int | None:
    value = delta.get("index")
    return value if type(value) is int else None


def _arguments(value: Any) -> str:
    """A piece of JSON text. Some providers send a value instead, and it is made from that."""
    if value is None or isinstance(value, str):
        return value or ""
    return orjson.dumps(value).decode()


def _is_complete(arguments: Sequence[str]) -> bool:
    try:
        orjson.loads("".join(arguments))
    except orjson.JSONDecodeError:
        return False
    return True

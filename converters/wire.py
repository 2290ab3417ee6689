"""Bytes on the wire: JSON that always encodes, the frames made of it, and the size that a frame may have.

JSON is RFC 8259: UTF-8, no NaN, no Infinity. A frame is one server-sent event. It ends lines with line feeds only,
because AG-UI's client splits its stream at two of them.
"""

import math
from collections.abc import Mapping
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import fields

from agent_core.events import Cut
from agent_core.messages import well_formed
from agent_core.shortened import beginning_of

FRAME_LIMIT = 1_000_000
"""The largest frame, in bytes."""

TEXT_LIMIT = FRAME_LIMIT - 8_192
"""The largest JSON of a frame's one long member, in bytes. The rest is for the frame's ids."""

DEEPEST = 100
"""Levels that are written of a value which orjson cannot encode."""

CUT_REASONS: Mapping[Cut, str] = {"length": "length", "filter": "content_filter"}
"""OpenAI's word for each reason why an answer is not whole. Both wires use it."""

Key = str | tuple[str | None, str]


class Frame(Struct, frozen=True, gc=False):
    """One event on the wire, ready to send, with the members that its order depends on.

    - kind: the wire's name of the event
    - data: `data: {…}` and two line feeds; empty for a frame that sends nothing
    - key: the id that the frame opens, continues or closes
    - owner: the subagent's run that it belongs to, None for the agent itself
    - ref: another id that it depends on
    - old: the bytes for clients from before 1.0, if they need another shape
    """

    kind: str
    data: bytes
    key: Key = ""
    owner: str | None = None
    ref: str | None = None
    old: bytes | None = None


def to_json(value: object) -> bytes:
    """Any value as JSON.

    NaN and Infinity become null, lone surrogates become U+FFFD, and keys become text. A value that JSON has no form for
    becomes its `str`. "…" stands for a value that refers to itself or is nested deeper than DEEPEST.
    """
    try:
        return orjson.dumps(value, default=_members, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        return orjson.dumps(_plain(value, ()))


def text_json(text: str) -> bytes:
    """The text as a JSON string. Lone surrogates are replaced."""
    try:
        return orjson.dumps(text)
    except TypeError:
        return orjson.dumps(well_formed(text))


def server_sent(body: bytes) -> bytes:
    """A JSON text as a server-sent event."""
    return b"data: " + body + b"\n\n"


def split(text: str, limit: int = TEXT_LIMIT) -> list[bytes]:
    """The text as JSON strings of at most `limit` bytes each, in order."""
    body = text_json(text)
    if len(body) <= limit or len(text) < 2:
        return [body]
    half = len(text) // 2
    return split(text[:half], limit) + split(text[half:], limit)


def cut(text: str, limit: int = TEXT_LIMIT) -> str:
    """The text. If its JSON has more than `limit` bytes, the part of its beginning that fits, and a note."""
    size = len(text_json(text))
    if size <= limit:
        return text
    kept, room = len(text), limit - 100
    while size > room:
        kept = kept * room // size
        size = len(text_json(text[:kept]))
    return beginning_of(text, kept)


def fit(value: object, limit: int = TEXT_LIMIT) -> orjson.Fragment:
    """The value as JSON. If that has more than `limit` bytes, a note with its beginning."""
    body = to_json(value)
    if len(body) <= limit:
        return orjson.Fragment(body)
    kept = cut(body.decode(), limit - 200)
    note = f"The value has {len(body)} bytes as JSON and was cut."
    return orjson.Fragment(orjson.dumps({"note": note, "beginning": kept}))


def _members(value: object) -> object:
    if isinstance(value, Struct):
        return {each.encode_name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, set | frozenset):
        return list(value)
    return _words(value)


def _words(value: object) -> str:
    try:
        return well_formed(str(value))
    except Exception:
        # A foreign __str__ may raise anything, and no tool's value may end the stream.
        return type(value).__name__


def _name(key: object) -> str:
    if key is None:
        return "null"
    return str(key).lower() if isinstance(key, bool) else _words(key)


def _plain(value: object, above: tuple[int, ...]) -> Any:
    """The value made of JSON's types. `above` holds the identities of the values that contain it."""
    if isinstance(value, str):
        return well_formed(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**64 else _words(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Struct):
        value = _members(value)
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        if id(value) in above or len(above) >= DEEPEST:
            return "…"
        inside = (*above, id(value))
        if isinstance(value, Mapping):
            return {_name(key): _plain(each, inside) for key, each in value.items()}
        return [_plain(each, inside) for each in value]
    try:
        return orjson.Fragment(orjson.dumps(value))
    except TypeError:
        return _words(value)

"""The content of a message: a text, or parts of several kinds.

A part that cannot be passed on is refused by its kind. If it were left out, the answer would look as if the model had
seen it.
"""

import re
from typing import Literal

from agent_core.errors import InvalidRequest
from agent_core.messages import MediaPart, Part, TextPart
from converters.bounds import MOST_ITEMS
from converters.fields import Members, an_object, list_at, needed_text, object_at, refuse, text_at
from converters.parsing import step

_SOUNDS = {"mp3": "audio/mpeg"}
"""The media types of sounds whose names differ from their format's."""

_FORMAT = re.compile(r"[a-z0-9][a-z0-9.+-]{0,31}")


def content_of(message: Members, path: str) -> str | tuple[Part, ...]:
    """The content with its media. Empty texts are left out; if no part is left, it is an empty text.

    Raises InvalidRequest if the content is missing, for a part of an unknown kind, and for a part without its value.
    """
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = [_part(an_object(part, where), where) for where, part in _items(message, path)]
    return tuple(part for part in parts if part is not None) or ""


def text_of(message: Members, path: str, *, replayed: bool = False) -> str:
    """The content of a message that may only be text. An assistant's refusal counts as its text.

    Raises InvalidRequest as `content_of` does. With `replayed` (an assistant's message that comes back), parts of other
    kinds, such as thinking, are left out.
    """
    content = message.get("content")
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for where, item in _items(message, path):
        part = an_object(item, where)
        kind = needed_text(part, "type", where)
        if kind in ("text", "refusal"):
            texts.append(_text(part, kind, where))
        elif not replayed:
            raise _unknown(where, "this message takes only text.")
    return "".join(texts)


def _items(message: Members, path: str) -> list[tuple[str, object]]:
    where = step(path, "content")
    content = message.get("content")
    if content is None:
        raise refuse(where, "is missing.")
    if not isinstance(content, list):
        raise refuse(where, "must be a text or a list of parts.")
    return [(step(where, at), part) for at, part in enumerate(list_at(message, "content", MOST_ITEMS, path))]


def _text(part: Members, member: str, path: str) -> str:
    text = text_at(part, member, path)
    if text is None:
        raise refuse(step(path, member), "is missing.")
    return text


def _part(part: Members, path: str) -> Part | None:
    """The part, None for an empty text. A URL is never fetched."""
    match needed_text(part, "type", path):
        case "text":
            text = _text(part, "text", path)
            return TextPart(text=text) if text else None
        case "image_url":
            return _linked("image", *_url(part, "image_url", path))
        case "video_url":
            return _linked("video", *_url(part, "video_url", path))
        case "input_audio":
            return _sound(part, path)
        case "file":
            return _file(part, path)
    raise _unknown(path, "parts of this kind are not available here.")


def _unknown(path: str, why: str) -> InvalidRequest:
    return refuse(step(path, "type"), why)


def _inner(part: Members, member: str, path: str) -> tuple[Members, str]:
    where = step(path, member)
    inner = object_at(part, member, path)
    if inner is None:
        raise refuse(where, "is missing.")
    return inner, where


def _url(part: Members, member: str, path: str) -> tuple[str, str | None]:
    """The URL, and its detail (how closely to look)."""
    if isinstance(part.get(member), str):  # some clients leave the object out
        return needed_text(part, member, path), None
    inner, where = _inner(part, member, path)
    return needed_text(inner, "url", where), text_at(inner, "detail", where)


def _linked(kind: Literal["image", "video"], url: str, detail: str | None) -> MediaPart:
    data = _data(url)
    if data is None:
        return MediaPart(kind=kind, source="url", value=url, detail=detail)
    mime_type, value = data
    return MediaPart(kind=kind, source="data", value=value, mime_type=mime_type, detail=detail)


def _data(url: str) -> tuple[str | None, str] | None:
    """The media type and the base64 of a data URL (RFC 2397). None for any other URL, and for a data URL without
    base64."""
    if url[:5].lower() != "data:":
        return None
    head, comma, value = url.partition(",")
    mime_type, *parameters = head[5:].split(";")
    if not comma or not parameters or parameters[-1].strip().lower() != "base64":
        return None
    return mime_type.strip().lower() or None, value


def _sound(part: Members, path: str) -> MediaPart:
    inner, where = _inner(part, "input_audio", path)
    value = needed_text(inner, "data", where)
    form = needed_text(inner, "format", where)
    if not _FORMAT.fullmatch(form):
        raise refuse(step(where, "format"), "must be a format such as wav or mp3.")
    return MediaPart(kind="audio", source="data", value=value, mime_type=_SOUNDS.get(form) or f"audio/{form}")


def _file(part: Members, path: str) -> MediaPart:
    inner, where = _inner(part, "file", path)
    handle = text_at(inner, "file_id", where)
    if handle:
        return MediaPart(kind="document", source="file", value=handle)
    value = needed_text(inner, "file_data", where)
    mime_type, data = _data(value) or (None, value)
    name = text_at(inner, "filename", where)
    return MediaPart(kind="document", source="data", value=data, mime_type=mime_type, detail=name)

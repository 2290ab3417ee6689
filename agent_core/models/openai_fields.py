"""Reads the fields of Chat Completions payloads. A value of a wrong type counts as missing."""

from collections.abc import Iterator, Mapping
from typing import Any


def only_text(chunk: Mapping[str, Any]) -> str:
    """The text of a chunk that holds only text, as nearly all do. Empty for any other chunk."""
    choices = chunk.get("choices")
    if chunk.get("usage") or not isinstance(choices, list) or len(choices) != 1:
        return ""
    choice = choices[0]
    if not isinstance(choice, dict) or choice.get("finish_reason") or choice.get("usage") or choice.get("index"):
        return ""
    delta = choice.get("delta")
    if not isinstance(delta, dict) or len(delta) != 1 or "message" in choice:
        return ""
    text = delta.get("content")
    return text if isinstance(text, str) else ""


def our_choice(choices: Any) -> Mapping[str, Any] | None:
    """The choice of this answer: the one with index 0, or without an index."""
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and not choice.get("index"):
            return choice
    return None


def count_in(members: Any, name: str) -> int | None:
    value = members.get(name) if isinstance(members, dict) else None
    return value if type(value) is int and value >= 0 else None


def parts_of(content: Any) -> Iterator[tuple[str, str]]:
    """The parts of content that is a list, as Mistral sends it: each `thinking` or `text`, with its text."""
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict):
            kind = "thinking" if part.get("type") == "thinking" else "text"
            yield from ((kind, text) for text in texts_in(part.get(kind)))


def split_content(content: Any) -> tuple[str, str]:
    """The thinking and the text of a message's content."""
    if isinstance(content, str):
        return "", content
    parts = list(parts_of(content))
    thought, said = ("".join(text for kind, text in parts if kind == wanted) for wanted in ("thinking", "text"))
    return thought, said


def texts_in(value: Any) -> Iterator[str]:
    """The non-empty strings in a string, or in a list of objects with a `text`."""
    if isinstance(value, list):
        for each in value:
            yield from texts_in(each.get("text") if isinstance(each, dict) else None)
    elif value and isinstance(value, str):
        yield value

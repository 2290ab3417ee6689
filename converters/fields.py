"""Reads the members of a JSON object that somebody else wrote. Null counts as a missing member.

Only InvalidRequest is raised, with the member's path, whatever the value is.
"""

from collections.abc import Mapping, Sized
from typing import Any

from agent_core.errors import InvalidRequest
from converters.parsing import invalid, step

Members = Mapping[str, Any]


def refuse(path: str, why: str) -> InvalidRequest:
    """The error for the value at the path."""
    return invalid(f"{path}: {why}", path)


def an_object(value: object, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise refuse(path, "must be an object.")
    return value


def object_at(members: Members, name: str, path: str = "") -> dict[str, Any] | None:
    value = members.get(name)
    return None if value is None else an_object(value, step(path, name))


def list_at(members: Members, name: str, most: int, path: str = "") -> list[Any]:
    """The list, empty if it is missing. Refuses a list of more than `most` items."""
    value = members.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise refuse(step(path, name), "must be a list.")
    check_length(value, most, step(path, name))
    return value


def check_length(items: Sized, most: int, path: str) -> None:
    """Raises InvalidRequest if there are more than `most` items."""
    if len(items) > most:
        raise refuse(path, f"at most {most} are allowed, and there are {len(items)}.")


def text_at(members: Members, name: str, path: str = "") -> str | None:
    value = members.get(name)
    if value is not None and not isinstance(value, str):
        raise refuse(step(path, name), "must be a text.")
    return value


def needed_text(members: Members, name: str, path: str = "") -> str:
    """The text. It must be there and must not be empty."""
    value = text_at(members, name, path)
    if not value:
        raise refuse(step(path, name), "is missing." if value is None else "must not be empty.")
    return value


def flag_at(members: Members, name: str, path: str = "") -> bool | None:
    value = members.get(name)
    if value is not None and not isinstance(value, bool):
        raise refuse(step(path, name), "must be true or false.")
    return value


def number_at(members: Members, name: str, least: float, most: float) -> float | None:
    value = members.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise refuse(name, f"must be a number from {least:g} to {most:g}.")
    return float(value)


def integer_at(members: Members, name: str, least: int, most: int) -> int | None:
    value = members.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise refuse(name, f"must be a whole number from {least} to {most}.")
    return value

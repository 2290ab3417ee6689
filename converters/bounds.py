"""Bounds of a request, the same on every endpoint. A request beyond them is refused, and nothing is cut silently."""

from collections.abc import Iterable

from converters.fields import refuse

MOST_MESSAGES = 10_000
"""Messages of one request at most."""

MOST_ITEMS = 10_000
"""Parts and tool calls in all messages together, at most; also context entries. Each wrong one costs time to report."""

MOST_TOOLS = 128
"""Tools of one request at most."""


def check_items(messages: Iterable[object], lists: tuple[str, ...], beside: int = 0) -> None:
    """Raises InvalidRequest if the messages' lists of these names have more than MOST_ITEMS items together, and with so
    many `beside` them."""
    if beside + sum(_items(message, lists) for message in messages) > MOST_ITEMS:
        raise refuse("messages", f"at most {MOST_ITEMS} parts and tool calls are allowed.")


def _items(message: object, lists: tuple[str, ...]) -> int:
    if not isinstance(message, dict):
        return 0
    return sum(len(found) for name in lists if isinstance(found := message.get(name), list))

"""How much a request may bring, on every endpoint. What is beyond is refused; nothing is cut off silently."""

from collections.abc import Iterable

from converters.fields import refuse

MOST_MESSAGES = 1_000
"""Messages of one request."""

MOST_ITEMS = 10_000
"""Parts and tool calls in all messages together; also context entries. Each one that is wrong costs time to report."""

MOST_TOOLS = 128
"""Tools of one request."""


def check_items(messages: Iterable[object], lists: tuple[str, ...]) -> None:
    """Raises InvalidRequest where the messages have more than MOST_ITEMS items in their lists of these names."""
    if sum(_items(message, lists) for message in messages) > MOST_ITEMS:
        raise refuse("messages", f"at most {MOST_ITEMS} parts and tool calls are allowed.")


def _items(message: object, lists: tuple[str, ...]) -> int:
    if not isinstance(message, dict):
        return 0
    return sum(len(found) for name in lists if isinstance(found := message.get(name), list))

"""Times in the form that events, entries and clients use: ISO 8601 in UTC, to the millisecond, with `Z` at the end."""

from datetime import UTC, datetime
from time import time_ns


def iso(at: int) -> str:
    """The time, given in milliseconds since the epoch."""
    text = datetime.fromtimestamp(at // 1000, UTC).replace(microsecond=at % 1000 * 1000)
    return text.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_now() -> str:
    """The wall clock's time now."""
    return iso(time_ns() // 1_000_000)

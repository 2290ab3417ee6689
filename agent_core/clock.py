"""The wall clock's time, in the form that events and entries use."""

from datetime import UTC, datetime


def utc_now() -> str:
    """The time now as ISO 8601 in UTC, to the millisecond, with `Z` at its end."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

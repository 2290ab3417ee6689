"""The time, as it is told."""

from datetime import UTC, datetime


def utc_now() -> str:
    """The time as ISO 8601 in UTC with Z, in milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""Accepts a database as it stands: writes the anchor that fits it."""

from pathlib import Path

from sqlalchemy import Connection, text

from agent_core.sessions.journal.anchor import Anchor
from agent_core.sessions.journal.anchor_file import is_identity

_AT_ONCE = 1000  # rows

_IDENTITY = "SELECT value FROM meta WHERE name = 'identity'"
_SESSIONS = "SELECT id, head, tip FROM sessions WHERE head > 0"
_TOMBSTONES = "SELECT id, head + 1, mac FROM tombstones"


def write_anchor(conn: Connection, path: Path) -> None:
    """Write an anchor of this database to the path, where no file is. Raises OSError, and SQLAlchemy's errors.

    The caller has verified the database, so its heads and seals are those of its entries.
    """
    anchor = Anchor(path)
    try:
        identity = conn.execute(text(_IDENTITY)).scalar()
        if is_identity(identity):  # a database of an earlier version has none yet
            anchor.adopt(bytes.fromhex(identity))
        for statement in (_SESSIONS, _TOMBSTONES):
            options = {"stream_results": True, "yield_per": _AT_ONCE}
            for row, seq, mac in conn.execute(text(statement), execution_options=options):
                anchor.note(row, seq, bytes(mac))
    finally:
        anchor.close()

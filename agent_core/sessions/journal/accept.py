"""Takes a database as it stands for the true one: writes the anchor that it would have left."""

from pathlib import Path

from sqlalchemy import Connection, text

from agent_core.sessions.journal.anchor import Anchor
from agent_core.sessions.journal.anchor_file import is_identity

_AT_ONCE = 1000  # rows

_IDENTITY = "SELECT value FROM meta WHERE name = 'identity'"
_SESSIONS = "SELECT id, head, tip FROM sessions WHERE head > 0"
_TOMBSTONES = "SELECT id, head + 1, mac FROM tombstones"


def write_anchor(conn: Connection, path: Path) -> None:
    """Make an anchor of this database at the path, which has none. Raises OSError, and SQLAlchemy's errors.

    The database was verified: its heads and seals are those of its entries.
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

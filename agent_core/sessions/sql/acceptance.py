"""Accepts a database as it stands, after a restore: replaces its anchor."""

import errno
import os
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection

from agent_core.errors import StoreError
from agent_core.sessions.journal.accept import write_anchor
from agent_core.sessions.journal.anchor import ANCHOR_FILE, Anchor
from agent_core.sessions.journal.chain import Journal
from agent_core.sessions.journal.report import Accepted
from agent_core.sessions.journal.verify import verify
from agent_core.sessions.sql.offline import read_database

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})


def accept_database(where: str, data_dir: Path, *, journal_key: str | None = None) -> Accepted:
    """Replace the anchor by one of the database as it stands, unless they agree. Raises StoreError.

    With SQLite no server may run meanwhile. Servers on PostgreSQL go on with the new anchor.
    """
    place = data_dir / ANCHOR_FILE

    def read(conn: Connection, journal: Journal, anchors: Sequence[Anchor]) -> Accepted:
        database = verify(conn, journal)
        if not database.whole:
            return Accepted(database=database)
        given_up = verify(conn, journal, anchors)
        if anchors and given_up.whole:
            return Accepted(database=database)
        try:
            return Accepted(database=database, given_up=given_up, kept=_replace(conn, place), done=True)
        except OSError as exc:
            raise StoreError(f"{place}: the anchor cannot be replaced ({exc.strerror}).") from None

    return read_database(where, data_dir, [place] if place.exists() else [], read, journal_key=journal_key)


def _replace(conn: Connection, place: Path) -> Path | None:
    """Write a new anchor to the place, which may be a link to another volume. Returns the path of the old anchor."""
    place = place.resolve()
    draft = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
    try:
        write_anchor(conn, draft)
        kept = _keep(place) if place.exists() else None
        os.replace(draft, place)
        return kept
    finally:
        draft.unlink(missing_ok=True)


def _keep(place: Path) -> Path:
    """Keep the anchor under a second, unused name: it is evidence."""
    stem = f"{place.name}.{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    number = 1
    while True:
        kept = place.with_name(stem if number == 1 else f"{stem}-{number}")
        try:
            os.link(place, kept)
            return kept
        except FileExistsError:
            number += 1
        except OSError as exc:
            if exc.errno not in _NO_LINKS:
                raise
            place.rename(kept)
            return kept

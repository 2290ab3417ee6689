"""`ostinato sessions accept`: after a restore, the database as it stands is taken for the true one."""

import errno
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection

from agent_core.sessions.journal.accept import write_anchor
from agent_core.sessions.journal.anchor import ANCHOR_FILE, Anchor
from agent_core.sessions.journal.chain import Journal
from agent_core.sessions.journal.verify import Report, verify
from app.command.verify import NotVerified, read_database
from app.settings import Settings

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """`database` is the report of the database by itself; only where that is whole anything was done. `given_up`
    is what the anchor knew and the database has not; `kept` is where the anchor of before is now."""

    database: Report
    given_up: Report | None = None
    kept: Path | None = None
    done: bool = False


def accept(settings: Settings) -> Accepted:
    """Replace the anchor by one of the database as it is, unless they agree. Raises NotVerified.

    With SQLite no server may be running. Servers on PostgreSQL go on with the new anchor.
    """
    place = settings.data_dir / ANCHOR_FILE

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
            raise NotVerified(f"{place}: the anchor cannot be replaced ({exc.strerror}).") from None

    return read_database(settings, [place] if place.exists() else [], read)


def _replace(conn: Connection, place: Path) -> Path | None:
    """Put a new anchor in its place, which may be a link to another volume; where the one of before is kept."""
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
    """Give the anchor a second name, one that no other has: it is evidence."""
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

"""The tables, as the newest migration leaves them, and the database's own clock.

    meta         facts of the whole database: its schema's version, the fingerprint of the journal's key, and its
                 identity (a random text that its copies share)
    workers      who is alive, and until when
    sessions     one row a session: who may write (owner, fence), its last entry (head, tip), its title
    entries      the sessions' entries
    tombstones   one row for each deleted session
    records      values that are kept beside the sessions for some time

A session's `id` is never used again. So a lease on a deleted session does not fit a later session of the same name. A
row with head 0 is a session that was acquired but not written to yet; nobody sees it.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

metadata = MetaData()

# SQLite numbers rows by itself only if the type is INTEGER, which has 64 bits there.
_Id = BigInteger().with_variant(Integer, "sqlite")

meta = Table(
    "meta",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

workers = Table(
    "workers",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("expires_at", Double, nullable=False),  # seconds since the epoch, by the database's clock
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("user_id", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("owner", Text),
    Column("fence", BigInteger, nullable=False),
    Column("head", BigInteger, nullable=False),
    Column("tip", LargeBinary, nullable=False),
    Column("title", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),  # milliseconds since the epoch, like the next two
    Column("updated_at", BigInteger, nullable=False),
    Column("cancel_requested_at", BigInteger),
    UniqueConstraint("user_id", "session_id"),
    sqlite_autoincrement=True,
)

WRITTEN = text("head > 0")
CANCELLED = text("cancel_requested_at IS NOT NULL")

# Acquiring and releasing a session touches neither index.
Index(
    "sessions_of_user",
    sessions.c.user_id,
    sessions.c.updated_at,
    sessions.c.id,
    sqlite_where=WRITTEN,
    postgresql_where=WRITTEN,
)
Index("sessions_cancelled", sessions.c.owner, sqlite_where=CANCELLED, postgresql_where=CANCELLED)

# Not WITHOUT ROWID: as measured, each append would cost a third more, and long messages twice the file.
entries = Table(
    "entries",
    metadata,
    Column("session", BigInteger, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("lane", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("mac", LargeBinary, nullable=False),
)

tombstones = Table(
    "tombstones",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("head", BigInteger, nullable=False),
    Column("tip", LargeBinary, nullable=False),
    Column("deleted_at", BigInteger, nullable=False),
    Column("mac", LargeBinary, nullable=False),
)

records = Table(
    "records",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("session_id", Text, nullable=False),  # empty if the record belongs to no session
    Column("owner", Text),
    Column("size", BigInteger, nullable=False),
    Column("written_at", BigInteger, nullable=False),  # milliseconds since the epoch
    Column("expires_at", Double, nullable=False),  # seconds since the epoch, by the database's clock
    Column("value", LargeBinary, nullable=False),
    Column("mac", LargeBinary, nullable=False),
)

# Questions about all records are answered from these indexes, because the values may be large.
Index("records_by_size", records.c.user_id, records.c.size)
Index("records_by_session", records.c.user_id, records.c.session_id)
Index("records_by_time", records.c.expires_at)


class DatabaseClock(FunctionElement[float]):
    """The database's clock, in seconds since the epoch. Heartbeats use no other, so the workers' clocks need not
    agree."""

    type = Double()
    name = "database_clock"
    inherit_cache = True


@compiles(DatabaseClock, "sqlite")
def _sqlite_clock(element: Any, compiler: Any, **options: Any) -> str:  # noqa: ARG001  # SQLAlchemy's signature
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(DatabaseClock, "postgresql")
def _postgresql_clock(element: Any, compiler: Any, **options: Any) -> str:  # noqa: ARG001  # SQLAlchemy's signature
    return "extract(epoch FROM clock_timestamp())::float8"

"""Migrations: they bring any older database to the tables of `tables.py`, one version at a time.

A released migration is never changed, because databases exist that it has made.
"""

import secrets
from collections.abc import Callable, Sequence

from sqlalchemy import Connection, bindparam, func, insert, inspect, select, update

from agent_core.errors import StoreError
from agent_core.sessions.journal.anchor_file import IDENTITY
from agent_core.sessions.sql.tables import meta

Migration = Sequence[str] | Callable[[Connection], None]
"""Statements, or a function. In statements {id}, {bytes} and {float} stand for the database's types."""

_FIRST = (
    """CREATE TABLE workers (
        owner TEXT NOT NULL PRIMARY KEY,
        expires_at {float} NOT NULL
    )""",
    """CREATE TABLE sessions (
        id {id},
        user_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        owner TEXT,
        fence BIGINT NOT NULL,
        head BIGINT NOT NULL,
        tip {bytes} NOT NULL,
        title TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        cancel_requested_at BIGINT,
        UNIQUE (user_id, session_id)
    )""",
    "CREATE INDEX sessions_of_user ON sessions (user_id, updated_at, id) WHERE head > 0",
    "CREATE INDEX sessions_cancelled ON sessions (owner) WHERE cancel_requested_at IS NOT NULL",
    """CREATE TABLE entries (
        session BIGINT NOT NULL,
        seq BIGINT NOT NULL,
        lane TEXT NOT NULL,
        run_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        body {bytes} NOT NULL,
        mac {bytes} NOT NULL,
        PRIMARY KEY (session, seq)
    )""",
    """CREATE TABLE tombstones (
        id BIGINT NOT NULL PRIMARY KEY,
        head BIGINT NOT NULL,
        tip {bytes} NOT NULL,
        deleted_at BIGINT NOT NULL,
        mac {bytes} NOT NULL
    )""",
)


def _identify(conn: Connection) -> None:
    """Give the database an identity. The journal's anchor knows the database by it; copies share it."""
    conn.execute(insert(meta).values(name="identity", value=secrets.token_hex(IDENTITY)))


_RECORDS = (
    """CREATE TABLE records (
        user_id TEXT NOT NULL,
        name TEXT NOT NULL,
        session_id TEXT NOT NULL,
        owner TEXT,
        size BIGINT NOT NULL,
        written_at BIGINT NOT NULL,
        expires_at {float} NOT NULL,
        value {bytes} NOT NULL,
        mac {bytes} NOT NULL,
        PRIMARY KEY (user_id, name)
    )""",
    "CREATE INDEX records_by_size ON records (user_id, size)",
    "CREATE INDEX records_by_session ON records (user_id, session_id)",
    "CREATE INDEX records_by_time ON records (expires_at)",
)

MIGRATIONS: tuple[Migration, ...] = (_FIRST, _identify, _RECORDS)

TYPES = {
    "sqlite": {"id": "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT", "bytes": "BLOB", "float": "DOUBLE"},
    "postgresql": {"id": "BIGSERIAL PRIMARY KEY", "bytes": "BYTEA", "float": "DOUBLE PRECISION"},
}

_LOCK = 7_035_160_911_304_725_362  # any number that nobody else uses

_VERSION = select(meta.c.value).where(meta.c.name == "schema_version")
_BEGIN = insert(meta).values(name="schema_version", value="0")
_ADVANCE = update(meta).where(meta.c.name == "schema_version").values(value=bindparam("version"))


def migrate(conn: Connection, migrations: Sequence[Migration] = MIGRATIONS) -> bool:
    """Take one step in the caller's transaction. True while another step is left.

    If several workers start at once, one takes the step; the others wait and find it done. Raises StoreError for a
    database that is newer than this code, or is not ours.
    """
    if conn.dialect.name == "postgresql":
        conn.execute(select(func.pg_advisory_xact_lock(_LOCK)))
    if not inspect(conn).has_table("meta"):
        meta.create(conn)
        conn.execute(_BEGIN)
    version = check_version(conn, len(migrations))
    if version < len(migrations):
        _carry_out(conn, migrations[version])
        conn.execute(_ADVANCE, {"version": str(version + 1)})
    return version + 1 < len(migrations)


def check_version(conn: Connection, known: int = len(MIGRATIONS)) -> int:
    """The version of the database's schema. Raises StoreError for one that this code does not know."""
    columns = {column["name"] for column in inspect(conn).get_columns("meta")}
    version = conn.execute(_VERSION).scalar() if {"name", "value"} <= columns else None
    if version is None or not version.isdigit():
        raise StoreError("The database has a table `meta` that is not Ostinato's: give it a database of its own.")
    if int(version) > known:
        raise StoreError(
            f"The database has version {version} of the schema, and this Ostinato knows {known}:"
            " a newer one has used it."
        )
    return int(version)


def _carry_out(conn: Connection, migration: Migration) -> None:
    if callable(migration):
        migration(conn)
        return
    for statement in migration:
        conn.exec_driver_sql(statement.format_map(TYPES[conn.dialect.name]))

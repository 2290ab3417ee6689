"""Opens the store that the settings name. What it needs is imported here, when it is known: the server without
a database loads none."""

import re
from pathlib import Path

from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.sql.failures import StoreError
from agent_core.sessions.store import Store

_POSTGRES = re.compile(r"postgres(ql)?(\+asyncpg)?://")


def is_postgres(where: str) -> bool:
    """Whether this is the URL of a PostgreSQL database."""
    return _POSTGRES.match(where) is not None


async def open_store(where: str, data_dir: Path, *, lease_seconds: float, journal_key: str | None = None) -> Store:
    """The store `memory`, `sqlite` (a file in the data directory) or a PostgreSQL URL, with the tables of this
    version. The journal's key and anchor are files in the data directory, whichever database it is; a key
    that is given goes before the file. What of the directory is open to others is closed to them.

    Raises StoreError: one sentence, without key and URL.
    """
    if where == "memory":
        return InMemoryStore()
    if where == "sqlite" or is_postgres(where):
        from agent_core.sessions.data_dir import close_to_others

        close_to_others(data_dir)
    if where == "sqlite":
        from agent_core.sessions.sql.sqlite import SqliteBackend
        from agent_core.sessions.sql.store import make_store

        return await make_store(
            await SqliteBackend.open(data_dir),
            data_dir,
            lease_seconds=lease_seconds,
            journal_key=journal_key,
            alone=True,
        )
    if is_postgres(where):
        from agent_core.sessions.sql.postgres import PostgresBackend
        from agent_core.sessions.sql.store import make_store

        return await make_store(
            await PostgresBackend.open(where, lease_seconds=lease_seconds),
            data_dir,
            lease_seconds=lease_seconds,
            journal_key=journal_key,
            alone=False,
        )
    raise StoreError("There is no such store: use 'sqlite', 'memory' or a postgresql:// URL.")

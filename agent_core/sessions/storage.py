"""The place where sessions are stored, as an operator names it. It can be opened, verified, or accepted after a
restore.

Each verb imports what it needs when it is called. So a server without a database loads no SQLAlchemy.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from agent_core.errors import StoreError
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.journal.report import Accepted, Report
from agent_core.sessions.store import Store

_POSTGRES = re.compile(r"postgres(ql)?(\+asyncpg)?://")


def is_postgres(where: str) -> bool:
    """Whether this is the URL of a PostgreSQL database."""
    return _POSTGRES.match(where) is not None


async def open_store(where: str, data_dir: Path, *, lease_seconds: float, journal_key: str | None = None) -> Store:
    """Open the store `memory`, `sqlite` (a file in the data directory) or a PostgreSQL URL, with its tables migrated.

    The journal's key and anchor are files in the data directory, for every database. A given key counts before the
    file. The folder and its files are closed to other users. Raises StoreError.
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


class Storage:
    """The place that `where` and `data_dir` name, as `open_store` takes them. It opens one store at most."""

    def __init__(self, where: str, data_dir: Path, *, lease_seconds: float, journal_key: str | None = None) -> None:
        self._where = where
        self._data_dir = data_dir
        self._lease_seconds = lease_seconds
        self._journal_key = journal_key
        self._store: Store | None = None

    async def open(self) -> Store:
        """The open store. Raises StoreError."""
        if self._store is None:
            self._store = await open_store(
                self._where, self._data_dir, lease_seconds=self._lease_seconds, journal_key=self._journal_key
            )
        return self._store

    def closed(self) -> None:
        """The store was closed, so the next `open` opens it again."""
        self._store = None

    @property
    def anchor(self) -> Path:
        """The file of the journal's anchor in this data directory."""
        from agent_core.sessions.journal.anchor import ANCHOR_FILE

        return self._data_dir / ANCHOR_FILE

    def verify(self, anchors: Sequence[Path]) -> Report:
        """Check the whole journal against these anchors. Servers on PostgreSQL may run meanwhile; with SQLite they must
        be stopped. Raises StoreError."""
        from agent_core.sessions.sql.offline import verify_database

        return verify_database(self._where, self._data_dir, anchors, journal_key=self._journal_key)

    def accept(self) -> Accepted:
        """Accept the database as it stands, after a restore: replace its anchor, unless they agree. Raises
        StoreError."""
        from agent_core.sessions.sql.acceptance import accept_database

        return accept_database(self._where, self._data_dir, journal_key=self._journal_key)

"""Reads a whole database for its operator, and changes nothing: its journal's key, its anchors and one state of it."""

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.exc import SQLAlchemyError

from agent_core.errors import StoreError
from agent_core.sessions.journal.anchor import Anchor
from agent_core.sessions.journal.chain import Journal
from agent_core.sessions.journal.key import read_key
from agent_core.sessions.journal.report import Report
from agent_core.sessions.journal.verify import verify
from agent_core.sessions.sql.database_file import DATABASE, LOCK
from agent_core.sessions.sql.failures import name_of
from agent_core.sessions.sql.migrations import check_version

_CONNECT = 10.0  # seconds

# The whole database is read in the order of the keys. A time limit would end that, and a sort would copy each table.
_PATIENTLY = ("statement_timeout = 0", "idle_in_transaction_session_timeout = 0", "enable_sort = off")

T = TypeVar("T")
Reading = Callable[[Connection, Journal, Sequence[Anchor]], T]


def verify_database(where: str, data_dir: Path, anchors: Sequence[Path], *, journal_key: str | None = None) -> Report:
    """Verify the database against these anchor files. Raises StoreError."""
    return read_database(where, data_dir, anchors, verify, journal_key=journal_key)


def read_database(
    where: str, data_dir: Path, anchors: Sequence[Path], read: Reading[T], *, journal_key: str | None = None
) -> T:
    """Call `read` with one state of the database, and return what it does. Raises StoreError.

    `read` also gets the journal, and copies of the anchor files. The copies are older than that state.
    """
    if where == "memory":
        raise StoreError("Sessions in memory leave no journal: there is nothing to verify.")
    database = (data_dir / DATABASE).absolute()
    if where == "sqlite" and not database.is_file():
        raise StoreError(f"{database}: there is no such file.")
    try:
        journal = Journal(read_key(data_dir, journal_key, create=False))
        with _copies(anchors) as copies:

            def read_known(conn: Connection) -> T:
                check_version(conn)
                return read(conn, journal, copies)

            if where == "sqlite":
                return _read_sqlite(database, read_known)
            return asyncio.run(_read_postgres(where, read_known))
    except (SQLAlchemyError, sqlite3.Error) as exc:
        raise StoreError(f"The database cannot be read to its end ({name_of(exc)}).") from None
    except StoreError:
        raise
    except ValueError as exc:  # of the key or the journal, and a sentence too
        raise StoreError(str(exc)) from None


@contextmanager
def _copies(paths: Sequence[Path]) -> Iterator[list[Anchor]]:
    """Copies of the anchors as they are now. Servers go on writing to theirs, which would soon be ahead of the state
    that is read."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="ostinato-")))
        copies = []
        for number, path in enumerate(paths):
            try:
                anchor = Anchor(path, write=False)
            except OSError as exc:
                raise StoreError(f"{path}: the anchor cannot be read ({exc.strerror}).") from None
            stack.callback(anchor.close)
            copy = Anchor(folder / str(number))
            stack.callback(copy.close)
            if anchor.identity:
                copy.adopt(anchor.identity)
            for row in anchor.rows():
                copy.note(row, *(anchor.read(row) or (0, b"")))
            copies.append(copy)
        yield copies


def _read_sqlite(path: Path, read: Callable[[Connection], T]) -> T:
    with _locked(path.parent):
        engine = create_engine("sqlite://", creator=lambda: _connect(path), poolclass=NullPool)
        with engine.connect() as conn:
            conn.exec_driver_sql("BEGIN")
            return read(conn)


@contextmanager
def _locked(data_dir: Path) -> Iterator[None]:
    """Keep servers from opening the database. sqlite.py tells what two connections can do to it (FIXED_IN)."""
    path = data_dir / LOCK
    if not path.exists():  # a copy
        yield
        return
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as exc:
        raise StoreError(f"{path} cannot be opened ({exc.strerror}).") from None
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(f"A server is using {data_dir}: stop it, or verify a copy of the folder.") from None
        yield
    finally:
        os.close(file)


def _connect(path: Path) -> sqlite3.Connection:
    log = Path(f"{path}-wal")
    # Without a write-ahead log the file is complete, and `immutable` makes no new files beside it.
    plain = not log.exists() or not log.stat().st_size
    uri = f"{path.as_uri()}?mode=ro{'&immutable=1' if plain else ''}"
    conn = sqlite3.connect(uri, uri=True, isolation_level=None)
    # Bytes that are no UTF-8 must become a finding, and no error here.
    conn.text_factory = lambda raw: raw.decode(errors="surrogateescape")
    return conn


async def _read_postgres(url: str, read: Callable[[Connection], T]) -> T:
    try:
        import asyncpg
        from sqlalchemy.ext.asyncio import create_async_engine
    except ImportError:
        raise StoreError('PostgreSQL needs its driver: pip install "ostinato[postgres]".') from None
    from agent_core.sessions.sql.postgres import read_url

    dsn, _ = read_url(url)

    async def connect(**options: Any) -> Any:
        return await asyncpg.connect(dsn, timeout=_CONNECT, statement_cache_size=0, **options)

    engine = create_async_engine(
        "postgresql+asyncpg://", connect_args={"async_creator_fn": connect}, poolclass=NullPool, hide_parameters=True
    )
    try:
        async with engine.connect() as conn:
            await conn.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            for setting in _PATIENTLY:
                await conn.execute(text(f"SET LOCAL {setting}"))
            return await conn.run_sync(read)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as exc:
        raise StoreError(f"The PostgreSQL database cannot be read ({name_of(exc)}).") from None
    finally:
        await engine.dispose()

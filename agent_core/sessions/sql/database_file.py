"""SQLite's database file: its folder, its lock, and whether it is still in its place."""

import fcntl
import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from agent_core.errors import StoreError

DATABASE = "sessions.db"
LOCK = "lock"

_CLOSED = -1

PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "secure_delete = ON",
    "cache_size = -16384",  # KiB
    "journal_size_limit = 16777216",
)

Identity = tuple[int, int]


class DatabaseFile:
    """The database in a data directory. It locks the directory until `close`, so no other process opens it.

    Makes the folder and the files if they are missing, for their owner alone. Raises StoreError.
    """

    def __init__(self, data_dir: Path, *, busy_timeout: float) -> None:
        self.path = (data_dir / DATABASE).absolute()
        self._busy_timeout = busy_timeout
        self._wal: Identity | None = None
        try:
            data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(data_dir / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"The data directory {data_dir} cannot be used ({error.strerror}).") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._database = self._identity(self.path)
        except BlockingIOError:
            os.close(self._lock)
            raise StoreError(f"The data directory {data_dir} is in use by another server.") from None
        except OSError as error:
            os.close(self._lock)
            raise StoreError(f"{self.path} cannot be opened ({error.strerror}).") from error

    def connect(self) -> sqlite3.Connection:
        """Open a connection that begins no transaction by itself. Raises OSError if the file is gone: it is not made
        again."""
        self.check()
        conn = sqlite3.connect(
            f"file:{quote(str(self.path))}?mode=rw", uri=True, timeout=self._busy_timeout, isolation_level=None
        )
        try:
            for pragma in PRAGMAS:
                conn.execute(f"PRAGMA {pragma}").fetchall()
            conn.execute("SELECT count(*) FROM sqlite_master").fetchall()
        except BaseException:
            conn.close()
            raise
        self._wal = None
        return conn

    def check(self) -> bool:
        """Raise OSError if the database is no longer in its place, because nobody would find what is written to it.
        False if only its write-ahead log was taken away: a new connection heals that."""
        if self._identity(self.path) != self._database:
            raise FileNotFoundError
        try:
            wal = self._identity(f"{self.path}-wal")
        except FileNotFoundError:
            return self._wal is None
        self._wal = self._wal or wal
        return self._wal == wal

    def close(self) -> None:
        """Unlock the directory. Idempotent."""
        if self._lock != _CLOSED:
            os.close(self._lock)
            self._lock = _CLOSED

    def _identity(self, path: str | Path) -> Identity:
        status = os.stat(path)
        return status.st_dev, status.st_ino

"""SQLite as a backend: one thread, one connection for writes and reads, and one commit for all work that waits.

SQLite's writers wait for each other anyway, and the commit is the expensive part. So the thread takes all the work that
has come while it was busy, does it in one transaction, and answers all of it at once. Work that need not be durable
leaves the transaction open. The next commit includes it, at most LINGER seconds later.
"""

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import StaticPool

from agent_core.errors import CoreError, RunError, StoreError
from agent_core.sessions.sql.database_file import DatabaseFile
from agent_core.sessions.sql.failures import error_of_driver, name_of, unavailable
from agent_core.sessions.sql.work import Work, look

logger = logging.getLogger(__name__)

LINGER = 1.0
"""Seconds that work may wait for a commit if it need not be durable."""

BUSY_TIMEOUT = 5.0
"""Seconds to wait for another process that holds a lock on the database."""

FIXED_IN = (3, 51, 3)
"""An older SQLite may lose a write that comes at the same time as a checkpoint of another connection."""

FAILURES = (SQLAlchemyError, sqlite3.Error, OSError)

# After these errors the connection can still be used.
_HARMLESS = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL})

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Job:
    work: Work[Any]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"
    result: Any = None
    error: BaseException | None = None

    def do(self, conn: Connection) -> None:
        """Do the work. A CoreError is an answer; any other error is raised."""
        self.result = self.error = None
        try:
            self.result = self.work.do(conn)
        except CoreError as error:
            self.error = error

    def answer(self) -> None:
        """Give the answer to the caller. Runs in the event loop."""
        try:
            if self.error is None:
                self.work.done(self.result)
        except Exception as error:
            self.error = error
        if self.future.done():  # cancelled
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class SqliteBackend:
    """A database in a data directory. No other process may use it meanwhile. Make it with `open`."""

    def __init__(self, file: DatabaseFile) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._writer = _Writer(file, self._jobs, asyncio.get_running_loop())
        self._thread = threading.Thread(target=self._writer.serve, name="sqlite")
        self._closed = False

    @classmethod
    async def open(cls, data_dir: Path, *, busy_timeout: float = BUSY_TIMEOUT) -> "SqliteBackend":
        """Open the database and start the thread. Raises StoreError with one sentence."""
        file = DatabaseFile(data_dir, busy_timeout=busy_timeout)
        if sqlite3.sqlite_version_info < FIXED_IN:
            logger.info(
                "SQLite %s has a fault where several connections write; this server uses one, and others must not",
                sqlite3.sqlite_version,
            )
        backend = cls(file)
        backend._thread.start()
        try:
            await backend.run(Work(do=look))
        except BaseException as error:
            await backend.aclose()
            if isinstance(error, RunError):
                raise StoreError(f"{file.path} cannot be used as a database ({error.detail}).") from error
            raise
        return backend

    async def run(self, work: Work[T]) -> T:
        if self._closed or self._writer.ended:
            raise RunError("store_unavailable", detail="the store is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Job(work, loop, future))
        return await future

    async def aclose(self) -> None:
        """Finish the work that waits, commit, and unlock the directory. Idempotent."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)


class _Writer:
    """The thread's side: the connection, and the transaction that is open."""

    def __init__(
        self, file: DatabaseFile, jobs: "queue.SimpleQueue[_Job | None]", loop: asyncio.AbstractEventLoop
    ) -> None:
        self.ended = False
        self._file = file
        self._jobs = jobs
        self._loop = loop
        self._conn: Connection | None = None
        self._raw: sqlite3.Connection | None = None
        self._began = monotonic()
        self._loose: list[_Job] = []  # answered, but not committed yet
        self._to_erase = False

    def serve(self) -> None:
        """Serve jobs until a None comes. End also if the main thread has ended and the loop no longer runs."""
        going_on = True
        try:
            while going_on:
                batch, going_on = _take(self._jobs)
                if batch:
                    self._carry_out(batch)
                going_on = going_on and (threading.main_thread().is_alive() or self._loop.is_running())
                if not (batch and going_on) or monotonic() - self._began > LINGER:
                    self._settle()
        finally:
            self.ended = True
            self._disconnect()
            self._file.close()
            batch, _ = _take(self._jobs, wait=0)
            for job in batch:
                job.error = RunError("store_unavailable", detail="the store is closed")
            _give_out(batch)

    def _carry_out(self, batch: list[_Job]) -> None:
        batch = [job for job in batch if not job.future.cancelled()]
        if not self._together(batch):
            self._one_by_one(batch)
        if any(job.work.erases and job.error is None for job in batch):
            self._to_erase = True
            self._erase()
        _give_out(batch)

    def _together(self, batch: Sequence[_Job]) -> bool:
        """Do all jobs in one transaction. False if that failed and each job must be tried alone."""
        try:
            conn = self._begin()
        except FAILURES as error:
            self._fail(batch, error)
            return True
        try:
            for job in batch:
                job.do(conn)
            if any(job.work.durable and job.error is None for job in batch):
                self._commit()
                return True
        except Exception as error:
            # Try each alone if another job may have been the cause.
            again = len(batch) + len(self._loose) > 1
            self._fail(batch, error)
            return not again
        self._loose += batch
        return True

    def _one_by_one(self, batch: Sequence[_Job]) -> None:
        for number, job in enumerate(batch):
            try:
                conn = self._begin()
            except FAILURES as error:
                self._fail(batch[number:], error)
                return
            try:
                job.do(conn)
                self._commit()
            except Exception as error:
                self._fail([job], error)

    def _begin(self) -> Connection:
        """A connection in a transaction. Raises FAILURES."""
        if self._raw is not None and not self._file.check():
            self._disconnect()
        if self._raw is None:
            raw = self._file.connect()
            engine = create_engine("sqlite://", creator=lambda: raw, poolclass=StaticPool, hide_parameters=True)
            self._conn = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            self._raw = raw
        assert self._conn is not None
        if not self._raw.in_transaction:
            # IMMEDIATE: if another process holds a lock, this fails here and not in the middle of the work.
            self._raw.execute("BEGIN IMMEDIATE")
            self._began = monotonic()
        return self._conn

    def _commit(self) -> None:
        assert self._raw is not None
        self._raw.execute("COMMIT")
        self._loose.clear()

    def _settle(self) -> None:
        """Commit the work that was allowed to wait."""
        try:
            if self._raw is not None and self._raw.in_transaction:
                self._commit()
        except FAILURES as error:
            logger.warning("a commit failed (%s)", name_of(error))
            self._fail((), error)
        if self._to_erase:
            self._erase()

    def _erase(self) -> None:
        """Empty the write-ahead log, because it still holds what was deleted. Try again later if somebody reads it."""
        try:
            if self._raw is not None and not self._raw.in_transaction:
                busy, _, _ = self._raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                self._to_erase = bool(busy)
        except sqlite3.Error as error:
            logger.warning("the write-ahead log could not be emptied (%s)", name_of(error))

    def _fail(self, batch: Sequence[_Job], error: Exception) -> None:
        """Set the jobs' errors and roll back. Drop the connection too, unless the error is harmless to it."""
        for job in batch:
            job.error = unavailable(error) if isinstance(error, FAILURES) else error
        self._roll_back()
        cause = error_of_driver(error)
        if isinstance(cause, sqlite3.Error) and getattr(cause, "sqlite_errorcode", 0) & 0xFF not in _HARMLESS:
            self._disconnect()

    def _roll_back(self) -> None:
        self._undo()
        try:
            if self._raw is not None and self._raw.in_transaction:
                self._raw.execute("ROLLBACK")
        except sqlite3.Error:
            self._disconnect()

    def _undo(self) -> None:
        """Tell the jobs that were answered but not committed that their results are lost."""
        for job in self._loose:
            if job.error is None:
                job.work.undone(job.result)
        self._loose.clear()

    def _disconnect(self) -> None:
        self._undo()
        raw, conn, self._raw, self._conn = self._raw, self._conn, None, None
        if raw is None:
            return
        assert conn is not None
        try:
            conn.close()
            raw.close()
        except FAILURES as error:
            logger.warning("the database could not be closed (%s)", name_of(error))


def _take(jobs: "queue.SimpleQueue[_Job | None]", *, wait: float | None = None) -> tuple[list[_Job], bool]:
    """All jobs that wait, none if none comes within LINGER; and whether more may come."""
    batch: list[_Job] = []
    try:
        job = jobs.get(timeout=LINGER if wait is None else wait)
        while job is not None:
            batch.append(job)
            job = jobs.get_nowait()
    except queue.Empty:
        return batch, True
    return batch, False


def _give_out(batch: Sequence[_Job]) -> None:
    """Answer the jobs: one call for each event loop and not for each job, since each is a system call."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in batch:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, answered in by_loop.items():
        try:
            loop.call_soon_threadsafe(_answer, answered)
        except RuntimeError:  # the loop was closed, so nobody waits
            pass


def _answer(batch: Sequence[_Job]) -> None:
    for job in batch:
        job.answer()

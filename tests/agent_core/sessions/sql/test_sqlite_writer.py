"""The thread of the store on SQLite: which work it does together, again or not at all, and when it ends."""

import asyncio
import logging
import os
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from agent_core.errors import RunError, StoreError
from agent_core.sessions.sql import sqlite
from agent_core.sessions.sql.database_file import DATABASE
from agent_core.sessions.sql.sqlite import SqliteBackend
from agent_core.sessions.sql.store import SqlStore, make_store
from agent_core.sessions.sql.work import Work
from tests.agent_core.sessions.sql.sqlite_stores import count_commits, held_up, keeper_of, opened, run_sql
from tests.agent_core.sessions.stores import KEY, entry, fails, fill, take

AWAY = RunError("store_unavailable", detail="it is away")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    made = await opened(tmp_path)
    yield made
    await made.aclose()


@pytest.fixture
def main_thread_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "main_thread", threading.Thread)
    monkeypatch.setattr(sqlite, "LINGER", 0.01)


async def test_only_what_must_be_on_disk_takes_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "LINGER", 60.0)
    store = await opened(tmp_path)
    await fill(store)
    commits = await count_commits(store)
    lease = await take(store)
    await store.load(KEY)
    await store.find(KEY)
    await store.page("u", 9)
    await store.expired(before=1, keep=1, limit=1)
    await store.renew("w")
    await store.records.recall("u", ["n"])
    await store.release(lease)
    await store.retire("w")
    assert commits() == 0
    lease = await take(store)
    for asked in (
        store.append(lease, [entry(1)]),
        store.cancel(KEY),
        store.check(),
        store.records.keep("u", "n", b"", seconds=60),
        store.records.discard("u", "n"),
        store.delete(lease),
    ):
        before = commits()
        await asked
        assert commits() == before + 1
    await store.aclose()


async def test_an_append_leaves_the_write_ahead_log_as_it_is_and_a_deletion_empties_it(
    store: SqlStore, tmp_path: Path
) -> None:
    log = tmp_path / "sessions.db-wal"
    await fill(store)
    assert log.stat().st_size > 0
    await store.delete(await take(store))
    assert log.stat().st_size == 0


async def test_a_write_ahead_log_that_could_not_be_emptied_is_emptied_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite, "LINGER", 0.01)
    store = await opened(tmp_path)
    await fill(store)
    lease, log = await take(store), tmp_path / "sessions.db-wal"

    def refuse(action: int, *_: object) -> int:
        return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_PRAGMA else sqlite3.SQLITE_OK

    async def allow(only: Any) -> None:
        await store._backend.run(Work(do=lambda _: keeper_of(store)._raw.set_authorizer(only)))

    await allow(refuse)
    await store.delete(lease)
    assert log.stat().st_size > 0
    assert "the write-ahead log could not be emptied (DatabaseError SQLITE_AUTH)" in caplog.text
    await allow(None)
    async with asyncio.timeout(30):
        while log.stat().st_size:
            await store.load(KEY)
    await store.aclose()


async def test_a_closed_store_leaves_one_file_and_no_open_anchor(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await fill(store)
    number = store._anchor._file
    await store.aclose()
    assert not [each for each in os.listdir(tmp_path) if each.startswith(f"{DATABASE}-")]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


async def test_what_is_written_while_the_store_closes_is_noted_too(store: SqlStore, tmp_path: Path) -> None:
    lease = await take(store)
    noted: list[Any] = []
    note = store._anchor.note
    store._anchor.note = lambda *about, **more: (note(*about, **more), noted.append(store._anchor.read(about[0])))  # type: ignore[assignment, method-assign, func-returns-value]
    with held_up(store):
        writing = asyncio.ensure_future(store.append(lease, [entry(1)]))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(store.aclose())
        await asyncio.sleep(0)
    await asyncio.gather(writing, closing)
    assert noted == [(lease.head, lease.tip)]


async def test_what_need_not_be_durable_is_committed_with_the_end_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LINGER", 60.0)
    store = await opened(tmp_path)
    with held_up(store):
        await asyncio.sleep(0)
        renewing = asyncio.ensure_future(store.renew("w"))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(store.aclose())
        await asyncio.sleep(0)
    await asyncio.gather(renewing, closing)
    again = sqlite3.connect(tmp_path / DATABASE)
    assert again.execute("SELECT owner FROM workers").fetchall() == [("w",)]
    again.close()


async def test_a_lease_is_lost_with_work_that_fails_though_the_connection_stays(store: SqlStore) -> None:
    def do(conn: Connection) -> None:
        raise ZeroDivisionError

    lease = await take(store)
    before = keeper_of(store)._raw
    with pytest.raises(ZeroDivisionError):
        await store._backend.run(Work(do=do))
    assert "lost with its transaction" in await fails(store.append(lease, [entry(1)]))
    assert keeper_of(store)._raw is before


async def test_work_that_fails_alone_is_not_tried_again(store: SqlStore) -> None:
    tried: list[Connection] = []

    def do(conn: Connection) -> None:
        tried.append(conn)
        raise ZeroDivisionError

    await run_sql(store, "SELECT 1")  # commits what was left
    with pytest.raises(ZeroDivisionError):
        await store._backend.run(Work(do=do))
    assert len(tried) == 1


async def test_work_that_fails_beside_one_other_is_tried_alone(store: SqlStore) -> None:
    insert = "INSERT INTO meta VALUES ('x', 'y')"
    lost: list[None] = []
    with held_up(store):
        first = asyncio.ensure_future(run_sql(store, insert))
        second = asyncio.ensure_future(run_sql(store, insert))
        await asyncio.sleep(0)
    assert await first == []
    assert await fails(second) == "IntegrityError SQLITE_CONSTRAINT_PRIMARYKEY"
    assert await run_sql(store, "SELECT value FROM meta WHERE name = 'x'") == [("y",)], "each has a commit of its own"
    await run_sql(store, "DELETE FROM meta WHERE name = 'x'")

    def do(conn: Connection) -> None:
        conn.execute(text(insert))

    await store._backend.run(Work(do=do, durable=False, undone=lost.append))
    await run_sql(store, insert)  # the work before it is undone and not this one
    assert lost == [None]
    assert await run_sql(store, "SELECT value FROM meta WHERE name = 'x'") == [("y",)]


async def test_work_that_can_no_longer_be_tried_alone_is_told_why(store: SqlStore, tmp_path: Path) -> None:
    def spoil(conn: Connection) -> None:
        (tmp_path / DATABASE).rename(tmp_path / "away")
        conn.execute(text("SELECT * FROM nothing"))

    with held_up(store):
        failing = [asyncio.ensure_future(each) for each in (store._backend.run(Work(do=spoil)), store.check())]
        await asyncio.sleep(0)
    assert [await fails(each) for each in failing] == ["FileNotFoundError"] * 2
    (tmp_path / "away").rename(tmp_path / DATABASE)
    await store.check()


async def test_work_whose_caller_has_left_before_it_began_is_not_done(store: SqlStore) -> None:
    done: list[Connection] = []
    with held_up(store):
        await asyncio.sleep(0)
        running = asyncio.ensure_future(store._backend.run(Work(do=done.append)))
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    await store.check()
    assert done == []


async def test_a_lock_of_another_leaves_the_connection_and_a_broken_one_goes(store: SqlStore, tmp_path: Path) -> None:
    await run_sql(store, "SELECT 1")
    before = keeper_of(store)._raw
    other = sqlite3.connect(tmp_path / DATABASE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert await fails(store.check()) == "OperationalError SQLITE_BUSY"
    other.execute("ROLLBACK")
    other.close()
    await store.check()
    assert keeper_of(store)._raw is before
    await fails(run_sql(store, "SELECT * FROM nothing"))
    await store.check()
    assert keeper_of(store)._raw is not before


async def test_work_behind_the_end_is_refused(store: SqlStore) -> None:
    backend: Any = store._backend
    with held_up(store):
        await asyncio.sleep(0)
        backend._jobs.put(None)
        late = [asyncio.ensure_future(store.check()) for _ in range(2)]
        await asyncio.sleep(0)
    for each in late:
        assert await fails(each) == "the store is closed"
    assert await fails(store.check()) == "the store is closed"


@pytest.mark.usefixtures("main_thread_ended")
async def test_the_thread_goes_on_as_long_as_the_loop_runs(store: SqlStore) -> None:
    for _ in range(3):
        await store.check()
        await asyncio.sleep(0.05)  # some turns of the thread without work
    assert keeper_of(store).ended is False


@pytest.mark.usefixtures("main_thread_ended")
async def test_the_thread_ends_with_the_loop_and_commits_what_is_left(tmp_path: Path) -> None:
    made: list[SqlStore] = []

    async def forget() -> None:
        made.append(await opened(tmp_path))
        await made[0].renew("w")

    await asyncio.to_thread(asyncio.run, forget())
    await asyncio.to_thread(made[0]._backend._thread.join)  # type: ignore[attr-defined]
    assert await fails(made[0].check()) == "the store is closed"
    again = sqlite3.connect(tmp_path / DATABASE)
    assert again.execute("SELECT owner FROM workers").fetchall() == [("w",)]
    again.close()
    made[0]._anchor.close()


@pytest.mark.parametrize("error", [ZeroDivisionError(), asyncio.CancelledError(), AWAY])
async def test_who_cannot_open_the_database_closes_it(
    tmp_path: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(backend: SqliteBackend, work: Work[Any]) -> Any:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(SqliteBackend, "run", refuse)
        with pytest.raises(StoreError if isinstance(error, RunError) else type(error)):
            await SqliteBackend.open(tmp_path)
    await (await SqliteBackend.open(tmp_path)).aclose()


@pytest.mark.parametrize("error", [ZeroDivisionError(), AWAY])
async def test_who_cannot_open_the_store_closes_the_anchor_and_the_database(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: list[int] = []

    def refuse(continuity: Any, conn: Connection) -> None:
        files.append(continuity._anchor._file)
        raise error

    with monkeypatch.context() as patched:
        patched.setattr("agent_core.sessions.sql.store.Continuity.begin", refuse)
        with pytest.raises(StoreError if isinstance(error, RunError) else type(error)):
            await opened(tmp_path)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(files[0])
    await (await opened(tmp_path)).aclose()


async def test_the_journal_s_folder_is_made_for_its_owner_alone_wherever_the_database_is(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "journal"
    before = os.umask(0)
    try:
        backend = await SqliteBackend.open(tmp_path / "db")
        store = await make_store(backend, folder, lease_seconds=30, journal_key="a key for the tests", alone=True)
    finally:
        os.umask(before)
    await store.aclose()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sorted(os.listdir(folder)) == ["journal.anchor"]


async def test_a_sqlite_without_the_fault_is_not_mentioned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite, "FIXED_IN", sqlite3.sqlite_version_info)
    with caplog.at_level(logging.INFO, "agent_core"):
        await (await opened(tmp_path)).aclose()
    assert caplog.records == []

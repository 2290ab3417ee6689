"""How the store on SQLite fails, and that it recovers by itself."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from agent_core.errors import StoreError
from agent_core.sessions.sql import database_file
from agent_core.sessions.sql.store import SqlStore
from agent_core.sessions.sql.work import Work
from agent_core.sessions.storage import open_store
from tests.agent_core.sessions.sql.sqlite_stores import held_up, opened, run_sql
from tests.agent_core.sessions.stores import KEY, entry, fails, fill, key, take


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    made = await opened(tmp_path)
    yield made
    await made.aclose()


async def test_work_that_fails_takes_nothing_along(store: SqlStore) -> None:
    leases = [await take(store, key(f"s{number}")) for number in range(5)]
    await store.append(leases[0], [entry("first")])  # commits the acquisitions
    with held_up(store):
        bad = asyncio.ensure_future(run_sql(store, "INSERT INTO meta VALUES ('schema_version', 'x')"))
        none = asyncio.ensure_future(run_sql(store, "SELECT * FROM nothing"))
        good = [asyncio.ensure_future(store.append(lease, [entry("x")])) for lease in leases]
        await asyncio.sleep(0)
    assert await fails(bad) == "IntegrityError SQLITE_CONSTRAINT_PRIMARYKEY"
    assert await fails(none) == "OperationalError SQLITE_ERROR"
    await asyncio.gather(*good)
    assert [len(await store.load(key(f"s{number}"))) for number in range(5)] == [2, 1, 1, 1, 1]


async def test_an_error_of_the_work_itself_comes_out_as_it_is(store: SqlStore) -> None:
    def do(conn: Connection) -> None:
        conn.execute(text("DELETE FROM entries"))
        raise ZeroDivisionError

    await fill(store)
    with pytest.raises(ZeroDivisionError):
        await store._backend.run(Work(do=do))
    assert len(await store.load(KEY)) == 1


async def test_a_lease_whose_acquisition_was_lost_is_not_said_to_be_overtaken(store: SqlStore) -> None:
    lease = await take(store)
    await fails(run_sql(store, "SELECT * FROM nothing"))  # rolls the acquisition back
    assert "lost with its transaction" in await fails(store.append(lease, [entry("x")]))
    assert "lost with its transaction" in await fails(store.delete(lease))
    await store.release(lease)
    await fill(store)


async def test_a_database_that_another_process_holds_fails_and_recovers(store: SqlStore, tmp_path: Path) -> None:
    lease = await take(store)
    await store.append(lease, [entry("one")])
    with closing(sqlite3.connect(tmp_path / "sessions.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert await fails(store.append(lease, [entry("two")])) == "OperationalError SQLITE_BUSY"
        assert await fails(store.acquire(key("t"), "w")) == "OperationalError SQLITE_BUSY"
        assert await fails(store.check()) == "OperationalError SQLITE_BUSY"
        other.execute("ROLLBACK")
    await store.check()
    await store.append(lease, [entry("three")])
    assert len(await store.load(KEY)) == 2


async def test_a_full_disk_fails_and_recovers(store: SqlStore) -> None:
    lease = await take(store)
    await store.append(lease, [entry("one")])
    pages = (await run_sql(store, "PRAGMA page_count"))[0][0]
    await run_sql(store, f"PRAGMA max_page_count = {pages}")
    for _ in range(3):
        assert await fails(store.append(lease, [entry("x" * 50_000)])) == "OperationalError SQLITE_FULL"
        assert await fails(store.check()) == "OperationalError SQLITE_FULL"
    assert len(await store.load(KEY)) == 1
    await run_sql(store, "PRAGMA max_page_count = 100000")
    await store.check()
    await store.append(lease, [entry("x" * 50_000)])
    assert len(await store.load(KEY)) == 2


async def test_a_read_only_database_fails_and_recovers(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = await take(store)
    await store.append(lease, [entry("one")])
    with monkeypatch.context() as patched:
        patched.setattr(database_file, "PRAGMAS", (*database_file.PRAGMAS, "query_only = ON"))
        await run_sql(store, "PRAGMA query_only = ON")
        for _ in range(3):  # it connects again, and finds the same
            assert await fails(store.append(lease, [entry("two")])) == "OperationalError SQLITE_READONLY"
            assert await fails(store.check()) == "OperationalError SQLITE_READONLY"
    await store.check()
    await store.append(lease, [entry("three")])
    assert len(await store.load(KEY)) == 2


async def test_a_database_that_was_moved_away_is_not_made_anew(store: SqlStore, tmp_path: Path) -> None:
    lease = await take(store)
    await store.append(lease, [entry("one")])
    path, away = tmp_path / "sessions.db", tmp_path / "away"
    path.rename(away)
    assert await fails(store.append(lease, [entry("two")])) == "FileNotFoundError"
    assert await fails(store.check()) == "FileNotFoundError"
    assert await fails(store.find(KEY)) == "FileNotFoundError"
    assert not path.exists()
    away.rename(path)
    await store.check()
    await store.append(lease, [entry("three")])
    assert len(await store.load(KEY)) == 2


async def test_a_folder_that_was_moved_away_and_back_is_as_before(tmp_path: Path) -> None:
    folder, away = tmp_path / "data", tmp_path / "away"
    store = await opened(folder)
    lease = await take(store)
    await store.append(lease, [entry("one")])
    folder.rename(away)
    await fails(store.append(lease, [entry("two")]))
    assert not folder.exists()
    away.rename(folder)
    await store.append(lease, [entry("three")])
    await store.aclose()
    store = await opened(folder)
    assert len(await store.load(KEY)) == 2
    await store.aclose()


async def test_a_database_that_was_replaced_is_not_written_to(store: SqlStore, tmp_path: Path) -> None:
    lease = await take(store)
    await store.append(lease, [entry("one")])
    path, away = tmp_path / "sessions.db", tmp_path / "away"
    path.rename(away)
    path.write_bytes(away.read_bytes())
    assert await fails(store.append(lease, [entry("two")])) == "FileNotFoundError"
    assert await fails(store.load(KEY)) == "FileNotFoundError"
    away.rename(path)
    await store.append(lease, [entry("three")])
    assert len(await store.load(KEY)) == 2


async def test_a_lease_that_goes_with_the_write_ahead_log_is_not_said_to_be_overtaken(
    store: SqlStore, tmp_path: Path
) -> None:
    await fill(store)
    lease = await take(store)
    (tmp_path / "sessions.db-wal").unlink()
    assert "lost with its transaction" in await fails(store.append(lease, [entry("x")]))
    await fill(store)
    assert len(await store.load(KEY)) == 2


async def test_a_write_ahead_log_that_was_taken_away_loses_nothing(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    lease = await take(store)
    await store.append(lease, [entry("one")])
    await store.append(lease, [entry("two")])
    (tmp_path / "sessions.db-wal").unlink()
    await store.append(lease, [entry("three")])
    await store.aclose()
    store = await opened(tmp_path)
    assert len(await store.load(KEY)) == 3
    assert await run_sql(store, "PRAGMA integrity_check") == [("ok",)]
    await store.aclose()


def write_garbage(path: Path) -> None:
    path.write_bytes(b"This is a letter and not a database. " * 500)


def write_newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as made:
        made.executescript("CREATE TABLE meta (name, value); INSERT INTO meta VALUES ('schema_version', '99')")


def write_foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as made:
        made.executescript("CREATE TABLE meta (id INTEGER, tag TEXT)")


def write_clash(path: Path) -> None:
    with closing(sqlite3.connect(path)) as made:
        made.executescript("CREATE TABLE sessions (id INTEGER)")


@pytest.mark.parametrize("make", [write_garbage, write_newer, write_foreign, write_clash, Path.mkdir])
async def test_a_file_that_is_not_ours_is_refused_in_one_sentence(tmp_path: Path, make: Any) -> None:
    path = tmp_path / "sessions.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreError) as caught:
        await open_store("sqlite", tmp_path, lease_seconds=30)
    said = str(caught.value)
    assert said.endswith(".")
    assert "\n" not in said
    assert "letter" not in said
    if before is not None and make is not write_garbage:
        with closing(sqlite3.connect(path)) as other:
            assert len(other.execute("SELECT * FROM sqlite_master").fetchall()) == 1
    assert before is None or make is not write_garbage or path.read_bytes() == before
    # The lock is given back: the same folder can be opened once the file is out of the way.
    path.rename(tmp_path / "away")
    await (await open_store("sqlite", tmp_path, lease_seconds=30)).aclose()


async def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "data"):
        with pytest.raises(StoreError, match=r"cannot be used \(\w[\w ]+\)\.$"):
            await open_store("sqlite", path, lease_seconds=30)

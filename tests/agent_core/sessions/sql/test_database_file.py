"""SQLite's file by itself: how it is opened, and what becomes of it under an open connection."""

import fcntl
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_core.errors import StoreError
from agent_core.sessions.sql.database_file import DATABASE, LOCK, DatabaseFile


@pytest.fixture
def file(tmp_path: Path) -> Iterator[DatabaseFile]:
    made = DatabaseFile(tmp_path, busy_timeout=0.01)
    yield made
    made.close()


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def test_the_folder_is_made_with_those_above_it_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    before = os.umask(0)
    try:
        DatabaseFile(folder, busy_timeout=0.01).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {each.name: stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {DATABASE: 0o600, LOCK: 0o600}


def test_a_folder_that_another_uses_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    make = os.open

    def note(*about: object) -> int:
        opened.append(make(*about))  # type: ignore[arg-type]  # as they came
        return opened[-1]

    other = os.open(tmp_path / LOCK, os.O_RDWR | os.O_CREAT)
    fcntl.flock(other, fcntl.LOCK_EX)
    monkeypatch.setattr(os, "open", note)
    with pytest.raises(StoreError, match="is in use by another server"):
        DatabaseFile(tmp_path, busy_timeout=0.01)
    assert [each.name for each in tmp_path.iterdir()] == [LOCK]
    assert list(map(is_open, opened)) == [False]
    os.close(other)


def test_a_database_that_cannot_be_opened_gives_the_folder_free(tmp_path: Path) -> None:
    (tmp_path / DATABASE).mkdir()
    for _ in range(2):
        with pytest.raises(StoreError, match=r"sessions\.db cannot be opened \(Is a directory\)\.$"):
            DatabaseFile(tmp_path, busy_timeout=0.01)


def test_closing_twice_closes_nothing_of_others(tmp_path: Path) -> None:
    file = DatabaseFile(tmp_path, busy_timeout=0.01)
    lock = file._lock
    file.close()
    assert not is_open(lock)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, lock)  # somebody else has the number now
    file.close()
    assert is_open(lock)
    os.close(lock)
    if null != lock:
        os.close(null)


def test_a_file_that_is_no_database_leaves_no_connection(file: DatabaseFile) -> None:
    file.path.write_bytes(b"no database" * 1000)
    with pytest.raises(sqlite3.DatabaseError, match="file is not a database"):
        file.connect()


def test_a_database_that_is_gone_is_not_made_again(file: DatabaseFile) -> None:
    file.path.unlink()
    with pytest.raises(FileNotFoundError):
        file.connect()
    with pytest.raises(FileNotFoundError):
        file.check()
    assert not file.path.exists()


def test_a_database_that_was_replaced_is_not_opened(file: DatabaseFile, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"")
    (tmp_path / "other").rename(file.path)
    with pytest.raises(FileNotFoundError):
        file.connect()
    with pytest.raises(FileNotFoundError):
        file.check()


def test_a_write_ahead_log_that_was_taken_away_is_told_until_there_is_a_new_connection(file: DatabaseFile) -> None:
    log = Path(f"{file.path}-wal")
    first = file.connect()
    first.execute("CREATE TABLE t (x)")
    assert [file.check(), file.check()] == [True, True]
    log.rename(log.with_name("kept"))  # its number must not come again
    assert [file.check(), file.check()] == [False, False]
    first.close()
    second = file.connect()
    assert file.check()
    second.execute("CREATE TABLE u (x)")
    assert [file.check(), file.check()] == [True, True]
    log.rename(log.with_name("away"))
    log.write_bytes(b"")
    assert not file.check()
    second.close()


def test_a_connection_has_the_settings_that_the_store_counts_on(file: DatabaseFile) -> None:
    conn = file.connect()
    names = ("journal_mode", "synchronous", "secure_delete", "cache_size", "journal_size_limit")
    assert [conn.execute(f"PRAGMA {name}").fetchone()[0] for name in names] == ["wal", 2, 1, -16384, 16777216]
    conn.execute("CREATE TABLE t (x)")
    assert not conn.in_transaction
    conn.close()


def test_a_path_with_the_signs_of_a_uri_is_taken_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "a?mode=memory#b%20c"
    file = DatabaseFile(folder, busy_timeout=0.01)
    conn = file.connect()
    conn.execute("CREATE TABLE t (x)")
    conn.close()
    file.close()
    assert (folder / DATABASE).stat().st_size > 0

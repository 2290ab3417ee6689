"""A database that is read for its operator: what is left open, made or locked by it."""

import fcntl
import gc
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_core.errors import StoreError
from agent_core.sessions.journal.anchor import ANCHOR_FILE, Anchor
from agent_core.sessions.sql.database_file import DATABASE, LOCK
from agent_core.sessions.sql.offline import read_database, verify_database
from tests.agent_core.sessions.sql.sqlite_stores import opened
from tests.agent_core.sessions.stores import KEY, entry, fill


@pytest.fixture
async def data(tmp_path: Path) -> Path:
    store = await opened(tmp_path)
    await fill(store, KEY, entry(1), entry(2))
    await store.aclose()
    return tmp_path


def falsify(data: Path, statement: str) -> None:
    conn = sqlite3.connect(data / DATABASE, isolation_level=None)
    conn.execute(statement)
    conn.close()


def lines(data: Path, *anchors: Path) -> list[str]:
    return [str(each) for each in verify_database("sqlite", data, anchors or [data / ANCHOR_FILE]).findings]


def is_locked(data: Path) -> bool:
    file = os.open(data / LOCK, os.O_RDWR)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def files_open() -> int:
    gc.collect()
    return len(os.listdir("/dev/fd"))


async def test_nothing_stays_open_behind_it(data: Path) -> None:
    assert lines(data) == []
    before = files_open()
    assert lines(data, data / ANCHOR_FILE, data / ANCHOR_FILE) == []
    assert files_open() <= before
    assert not is_locked(data)


async def test_nobody_opens_the_database_meanwhile_and_all_can_behind_it(data: Path) -> None:
    locked = read_database("sqlite", data, [], lambda *_: is_locked(data))
    assert (locked, is_locked(data)) == (True, False)
    with pytest.raises(ZeroDivisionError):
        read_database("sqlite", data, [], lambda *_: 1 // 0)
    assert not is_locked(data)


async def test_a_copy_without_a_lock_is_read_and_none_is_made(data: Path) -> None:
    (data / LOCK).unlink()
    before = sorted(os.listdir(data))
    assert lines(data) == []
    assert sorted(os.listdir(data)) == before


async def test_a_lock_that_cannot_be_opened_is_one_sentence(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = os.open

    def refuse(path: object, *about: int, **more: int) -> int:
        if path == data / LOCK:
            raise PermissionError(13, "Permission denied")
        return make(path, *about, **more)  # type: ignore[arg-type]  # as it came

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError, match=r"lock cannot be opened \(Permission denied\)\.$"):
        lines(data)


async def test_bytes_that_are_no_text_are_a_finding(data: Path) -> None:
    falsify(data, "UPDATE entries SET lane = CAST(x'ff' AS TEXT) WHERE seq = 2")
    assert lines(data) == ["u/s: entry 2 was altered"]


async def test_the_copy_of_an_anchor_knows_what_the_anchor_knows_and_is_another_file(data: Path) -> None:
    given = Anchor(data / ANCHOR_FILE, write=False)

    def compare(_conn: object, _journal: object, copies: Sequence[Anchor]) -> None:
        [copy] = copies
        given.close()
        writing = Anchor(data / ANCHOR_FILE)
        before = writing.read(1)
        writing.note(1, 9, b"t" * 32)
        assert (copy.identity, copy.read(1), list(copy.rows())) == (writing.identity, before, [1])
        writing.close()

    read_database("sqlite", data, [data / ANCHOR_FILE], compare)


@pytest.mark.parametrize("change", ["DELETE FROM meta WHERE name = 'schema_version'", "UPDATE meta SET value = 'x'"])
async def test_a_database_of_somebody_else_is_refused(data: Path, change: str) -> None:
    falsify(data, change)
    with pytest.raises(StoreError, match="that is not Ostinato's"):
        lines(data)

"""Promises of the SQLite store alone: its folder, its commits, and its data after a crash."""

import asyncio
import logging
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from agent_core.errors import StoreError
from agent_core.sessions.sql import sqlite, transactions
from agent_core.sessions.sql.database_file import DATABASE
from agent_core.sessions.sql.sqlite import SqliteBackend
from agent_core.sessions.sql.store import SqlStore
from agent_core.sessions.storage import open_store
from tests.agent_core.sessions.sql.sqlite_stores import count_commits, held_up, opened, run_sql
from tests.agent_core.sessions.stores import KEY, entry, fails, fill, key, take

ROOT = Path(__file__).parents[4]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    made = await opened(tmp_path)
    yield made
    await made.aclose()


async def test_what_was_appended_is_there_after_opening_again(tmp_path: Path) -> None:
    for number in range(3):
        store = await open_store("sqlite", tmp_path / "new" / "folder", lease_seconds=30)
        assert len(await store.load(KEY)) == number
        await fill(store)
        await store.aclose()


async def test_the_folder_and_its_files_are_the_owner_s_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = await open_store("sqlite", tmp_path / "data", lease_seconds=30)
        await fill(store)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data").iterdir()}
        await store.aclose()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert {"sessions.db", "sessions.db-wal", "lock", "journal.key", "journal.anchor"} <= set(modes)
    assert set(modes.values()) == {0o600}


async def test_a_folder_has_one_server(tmp_path: Path) -> None:
    store = await open_store("sqlite", tmp_path, lease_seconds=30)
    with pytest.raises(StoreError, match="is in use by another server"):
        await open_store("sqlite", tmp_path, lease_seconds=30)
    await fill(store)
    await store.aclose()
    await (await open_store("sqlite", tmp_path, lease_seconds=30)).aclose()


async def test_no_owner_outlives_its_server(tmp_path: Path) -> None:
    store = await open_store("sqlite", tmp_path, lease_seconds=3000)
    await store.renew("w")
    await store.append(await take(store), [entry("one")])
    await take(store, key("empty"))
    await store.aclose()
    store = await open_store("sqlite", tmp_path, lease_seconds=3000)
    assert isinstance(store, SqlStore)
    assert await store.acquire(KEY, "next") is not None
    assert await run_sql(store, "SELECT session_id FROM sessions") == [("s",)]
    await store.aclose()


async def test_a_run_takes_one_commit_for_each_durable_step(store: SqlStore) -> None:
    commits = await count_commits(store)
    lease = await take(store)
    await store.load(KEY)
    assert commits() == 0
    await store.append(lease, [entry("in")])
    assert commits() == 1
    await store.append(lease, [entry("out")], release=True)
    assert commits() == 2


async def test_what_waits_is_committed_together(store: SqlStore) -> None:
    leases = [await take(store, key(f"s{number}")) for number in range(20)]
    commits = await count_commits(store)
    with held_up(store):
        writing = [asyncio.ensure_future(store.append(lease, [entry("x")])) for lease in leases]
        await asyncio.sleep(0)
    await asyncio.gather(*writing)
    assert commits() <= 2  # those that the thread took with the work that held it up, and the rest


async def test_what_need_not_be_durable_is_committed_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LINGER", 0.01)
    store = await opened(tmp_path)
    await store.renew("w")
    with closing(sqlite3.connect(tmp_path / "sessions.db")) as other:
        async with asyncio.timeout(30):
            while other.execute("SELECT owner FROM workers").fetchall() != [("w",)]:
                await store.load(KEY)  # and it is not put off by others
    await store.aclose()


async def test_what_need_not_be_durable_is_committed_at_the_end(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.renew("w")
    await store.aclose()
    with closing(sqlite3.connect(tmp_path / "sessions.db")) as other:
        assert other.execute("SELECT owner FROM workers").fetchall() == [("w",)]


async def test_a_process_that_forgets_to_close_the_store_ends_all_the_same(tmp_path: Path) -> None:
    script = f"""
import asyncio
from pathlib import Path
from agent_core.sessions.storage import open_store
async def main():
    store = await open_store("sqlite", Path({str(tmp_path)!r}), lease_seconds=30)
    await store.renew("w")
asyncio.run(main())
"""
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script], cwd=ROOT, timeout=60, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    with closing(sqlite3.connect(tmp_path / "sessions.db")) as other:
        assert other.execute("SELECT owner FROM workers").fetchall() == [("w",)]


async def test_a_closed_store_answers_no_more(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.aclose()
    await store.aclose()
    await fails(store.load(KEY))


async def test_a_database_is_opened_with_its_own_key_only(tmp_path: Path) -> None:
    first, second = "a key of some length", "another key of some length"
    await (await open_store("sqlite", tmp_path, lease_seconds=30, journal_key=first)).aclose()
    await (await open_store("sqlite", tmp_path, lease_seconds=30, journal_key=first)).aclose()
    for other in (second, None):
        with pytest.raises(StoreError, match="another key") as caught:
            await open_store("sqlite", tmp_path, lease_seconds=30, journal_key=other)
        assert second not in str(caught.value)
    with pytest.raises(StoreError, match="at least"):
        await open_store("sqlite", tmp_path, lease_seconds=30, journal_key="short")


async def test_an_unknown_store_is_one_sentence_without_what_was_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        await open_store("mysql://me:secret@host/db", tmp_path, lease_seconds=30)
    assert "secret" not in str(caught.value)


async def test_an_old_sqlite_is_mentioned_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite, "FIXED_IN", (99, 0, 0))
    with caplog.at_level(logging.INFO, "agent_core"):
        store = await opened(tmp_path)
        await fill(store)
        await store.aclose()
    assert len(caplog.records) == 1


def test_the_store_in_memory_imports_no_database() -> None:
    script = """
import asyncio, sys
from pathlib import Path
from agent_core.sessions.storage import open_store
asyncio.run(open_store("memory", Path("unused"), lease_seconds=30))
assert not Path("unused").exists()
print([name for name in ("sqlalchemy", "asyncpg", "greenlet", "jsonpatch") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


async def test_what_was_deleted_is_in_no_file(store: SqlStore, tmp_path: Path) -> None:
    """Sessions of all sizes, written in turns, so that pages are split and filled again."""
    shuffle = random.Random(4)
    secret = "a very private sentence "
    leases = [await take(store, key(f"s{number}")) for number in range(12)]
    for round_ in range(40):
        for number in shuffle.sample(range(12), 12):
            words = secret * shuffle.choice((1, 3, 20, 200)) if number % 2 else f"harmless {round_} " * 5
            await store.append(leases[number], [entry(words)])

    def found() -> list[str]:
        return [path.name for path in tmp_path.rglob("*") if secret.encode() in path.read_bytes()]

    assert found() != []
    for lease in leases[1::2]:
        await store.delete(lease)
    assert found() == []
    assert [len(await store.load(lease.key)) for lease in leases] == [40, 0] * 6
    buried = await run_sql(store, "SELECT id, head FROM tombstones")
    assert sorted(buried) == [(lease.row, 40) for lease in leases[1::2]]


async def test_what_was_deleted_leaves_the_log_when_its_reader_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "LINGER", 0.01)
    store = await opened(tmp_path)
    await fill(store, KEY, entry("a very private sentence"))
    lease = await take(store)
    with closing(sqlite3.connect(tmp_path / "sessions.db", isolation_level=None)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM sessions").fetchall()
        await store.delete(lease)
        other.execute("COMMIT")
    files = [tmp_path / "sessions.db", tmp_path / "sessions.db-wal"]
    async with asyncio.timeout(30):
        while any(b"private" in path.read_bytes() for path in files):
            await store.load(KEY)
    await store.aclose()


KILLED = """
import asyncio, sys
from pathlib import Path
from agent_core.messages import Message
from agent_core.names import SessionKey
from tests.entries import message_entry
from agent_core.sessions.storage import open_store

async def work(store, number):
    key = SessionKey(user_id="u", session_id=f"s{number}")
    while True:
        lease = await store.acquire(key, "w")
        for last in (False, True):
            message = Message(id=f"m{lease.head}", role="user", content="x" * 300)
            await store.append(lease, [message_entry("r", "a", message)] * 2, release=last)
            sys.stdout.write(f"{number} {lease.head}\\n")
            sys.stdout.flush()

async def main():
    store = await open_store("sqlite", Path(sys.argv[1]), lease_seconds=30)
    await asyncio.gather(*(work(store, number) for number in range(5)))

asyncio.run(main())
"""


def kill_a_writer(data_dir: Path, after: int) -> dict[int, int]:
    """What a process acknowledged, by session, before it was killed in the middle of its work."""
    heads: dict[int, int] = {}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(data_dir)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        for count, line in enumerate(writer.stdout):
            if count == after:
                writer.send_signal(signal.SIGKILL)
            if line.endswith("\n"):
                number, head = map(int, line.split())
                heads[number] = head
    return heads


async def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    for after in (1, 50, 111, 222, 333):
        heads = await asyncio.to_thread(kill_a_writer, tmp_path, after)
        store = await open_store("sqlite", tmp_path, lease_seconds=30)
        assert isinstance(store, SqlStore)
        for number, head in heads.items():
            entries = await store.load(key(f"s{number}"))
            assert len(entries) >= head
            assert len(entries) % 2 == 0  # an append is there as a whole or not at all
            assert [each.seq for each in entries] == list(range(1, len(entries) + 1))
            found = await store.find(key(f"s{number}"))
            assert found is not None
            assert found.head == len(entries)
        assert await run_sql(store, "PRAGMA integrity_check") == [("ok",)]
        await store.aclose()


async def test_a_session_is_read_whole_however_many_pages_it_has(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "PAGE", 2)
    for number in range(6):
        await fill(store, key(f"s{number}"), *(entry(each) for each in range(number)))
        entries = await store.load(key(f"s{number}"))
        assert [each.seq for each in entries] == list(range(1, max(number, 1) + 1))


async def test_a_data_directory_that_cannot_be_made_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"The data directory .* cannot be used"):
        await SqliteBackend.open(tmp_path / "file" / "folder")


async def test_a_file_that_is_no_database_leaves_no_connection_and_no_lock(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match="cannot be used as a database"):
        await SqliteBackend.open(tmp_path)
    (tmp_path / DATABASE).unlink()
    await (await SqliteBackend.open(tmp_path)).aclose()

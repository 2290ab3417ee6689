"""`ostinato sessions …`, over databases that the real stores wrote."""

import asyncio
import errno
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent_core.messages import Message
from agent_core.names import SessionKey
from agent_core.sessions.storage import open_store
from agent_core.sessions.store import SessionPutBack
from app.command.sessions import sessions
from tests.entries import end_entry, message_entry, run_entry, titled_entry
from tests.postgres import PostgresServer, fresh_database, postgres_server

KEY = "a key for the journal of the tests"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data directory, from a folder without an `.env`."""
    monkeypatch.chdir(tmp_path)
    for name in ("OSTINATO_JOURNAL_KEY", "OSTINATO_STORE", "OSTINATO_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "data"


async def fill(where: str, data: Path, *, name: str = "t", key: str | None = None, deleted: bool = True) -> None:
    """Sessions t1 and t2 of five entries each, and t3, which is deleted."""
    store = await open_store(where, data, lease_seconds=30, journal_key=key)
    for number in (1, 2, 3):
        session = SessionKey(user_id="local", session_id=f"{name}{number}")
        lease = await store.acquire(session, "w1")
        assert lease is not None
        said = [message_entry("r1", "a", Message(role="user", id=f"m{n}", content=f"{n}")) for n in range(2)]
        await store.append(lease, [run_entry("r1", "a"), titled_entry("r1", "A title"), said[0]])
        await store.append(lease, [said[1], end_entry("r1", "completed")], release=number < 3)
        if number == 3 and deleted:
            await store.delete(lease)
    await store.aclose()


def verify(*arguments: object, **variables: str) -> Result:
    return CliRunner(env=variables).invoke(sessions, ["verify", *map(str, arguments)])


def accept(*arguments: object, **variables: str) -> Result:
    return CliRunner(env=variables).invoke(sessions, ["accept", *map(str, arguments)])


async def in_thread(*arguments: object, **variables: str) -> Result:
    """Beside a loop that runs; the command has one of its own."""
    return await asyncio.to_thread(verify, *arguments, **variables)


def contents(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def falsify(data: Path, statement: str) -> None:
    conn = sqlite3.connect(data / "sessions.db", isolation_level=None)
    conn.execute(statement)
    conn.close()


# SQLite


async def test_a_whole_journal_is_one_line(data: Path) -> None:
    await fill("sqlite", data)
    before = contents(data)
    done = verify("--data-dir", data)
    assert (done.exit_code, done.output) == (0, "10 entries of 2 sessions, 1 deleted: the journal is whole.\n")
    assert contents(data) == before


async def test_the_settings_come_from_the_environment_too(data: Path) -> None:
    await fill("sqlite", data, key=KEY)
    assert not (data / "journal.key").exists()
    done = verify(OSTINATO_STORE="sqlite", OSTINATO_DATA_DIR=str(data), OSTINATO_JOURNAL_KEY=KEY)
    assert (done.exit_code, done.output.split()[-1]) == (0, "whole.")


async def test_what_is_wrong_is_named_line_by_line(data: Path) -> None:
    await fill("sqlite", data)
    falsify(data, "UPDATE entries SET body = x'7b7d' WHERE session = 1 AND seq = 4")
    falsify(data, "DELETE FROM entries WHERE session = 2 AND seq = 5")
    done = verify("--data-dir", data)
    assert done.exit_code == 1
    assert done.output.splitlines() == [
        "local/t1: entry 4 was altered",
        "local/t2: entry 5 is missing",
        "9 entries of 2 sessions were read: the journal is not whole.",
    ]


async def test_only_the_first_bad_sessions_are_listed(data: Path) -> None:
    for number in range(8):
        await fill("sqlite", data, name=f"t{number}-", deleted=False)
    falsify(data, "UPDATE entries SET lane = 'x'")
    lines = verify("--data-dir", data).output.splitlines()
    assert len(lines) == 22
    assert lines[0] == "local/t0-1: entry 1 was altered or is another session's"
    assert lines[20:] == ["… and 4 more", "120 entries of 24 sessions were read: the journal is not whole."]


async def test_an_end_that_was_cut_off_is_noticed_by_the_anchor(data: Path) -> None:
    await fill("sqlite", data)
    falsify(data, "DELETE FROM entries WHERE session = 1 AND seq > 3")
    tip = "(SELECT mac FROM entries WHERE session = 1 AND seq = 3)"
    falsify(data, f"UPDATE sessions SET head = 3, tip = {tip} WHERE id = 1")
    done = verify("--data-dir", data)
    assert (done.exit_code, done.output.splitlines()[0]) == (
        1,
        "local/t1: entry 4 is missing: the anchor has seen 5",
    )


async def test_without_an_anchor_nothing_is_promised(data: Path) -> None:
    await fill("sqlite", data)
    (data / "journal.anchor").rename(data / "kept")
    done = verify("--data-dir", data)
    assert done.exit_code == 2
    assert "journal.anchor is missing" in done.output
    assert verify("--data-dir", data, "--anchor", data / "kept").exit_code == 0


async def test_an_older_copy_of_the_database_is_noticed_by_an_anchor_from_elsewhere(data: Path, tmp_path: Path) -> None:
    await fill("sqlite", data)
    shutil.copytree(data, tmp_path / "old")
    await fill("sqlite", data, name="u")
    assert verify("--data-dir", data, "--anchor", tmp_path / "old" / "journal.anchor").exit_code == 0
    assert verify("--data-dir", tmp_path / "old").exit_code == 0
    done = verify("--data-dir", tmp_path / "old", "--anchor", data / "journal.anchor")
    assert done.exit_code == 1
    assert "session number 4: the session was removed: its anchor has seen 5 entries of it" in done.output


async def test_a_database_that_a_server_uses_is_not_touched_but_a_copy_of_it_can_be_verified(
    data: Path, tmp_path: Path
) -> None:
    await fill("sqlite", data)
    store = await open_store("sqlite", data, lease_seconds=30)
    lease = await store.acquire(SessionKey(user_id="local", session_id="t1"), "w1")
    assert lease is not None
    await store.append(lease, [run_entry("r2", "a")])
    done = verify("--data-dir", data)
    assert done.exit_code == 2
    assert "A server is using" in done.output
    shutil.copytree(data, tmp_path / "copy")
    assert (tmp_path / "copy" / "sessions.db-wal").stat().st_size > 0
    await store.aclose()
    done = verify("--data-dir", tmp_path / "copy")
    assert (done.exit_code, done.output) == (0, "11 entries of 2 sessions, 1 deleted: the journal is whole.\n")


async def test_another_key_is_told_as_such(data: Path) -> None:
    await fill("sqlite", data)
    done = verify("--data-dir", data, OSTINATO_JOURNAL_KEY=KEY)
    assert (done.exit_code, done.output.splitlines()) == (
        2,
        ["Error: The journal was sealed with another key, so it could not be checked: see OSTINATO_JOURNAL_KEY."],
    )


def corrupt(data: Path) -> None:
    raw = bytearray((data / "sessions.db").read_bytes())
    raw[4096:] = b"\xff" * (len(raw) - 4096)
    (data / "sessions.db").write_bytes(raw)


def use_newer(data: Path) -> None:
    with sqlite3.connect(data / "sessions.db") as conn:
        conn.execute("UPDATE meta SET value = '99' WHERE name = 'schema_version'")
    conn.close()


CANNOT: dict[str, tuple[Callable[[Path], object], str]] = {
    "the key is gone": (lambda data: (data / "journal.key").unlink(), "journal.key: there is no such file"),
    "others can read the key": (lambda data: (data / "journal.key").chmod(0o644), "others can read"),
    "the database is gone": (lambda data: (data / "sessions.db").unlink(), "sessions.db: there is no such file"),
    "the database is none": (lambda data: (data / "sessions.db").write_bytes(b"x" * 5000), "SQLITE_NOTADB"),
    "the database is damaged": (corrupt, "cannot be read to its end"),
    "the database is another": (lambda data: (data / "sessions.db").write_bytes(b""), "cannot be read to its end"),
    "the database is newer": (
        use_newer,
        "version 99 of the schema, and this Ostinato knows 3: a newer one has used it.",
    ),
    "the anchor is none": (lambda data: (data / "journal.anchor").write_bytes(b"x" * 64), "is not a journal's anchor"),
}


@pytest.mark.parametrize("what", CANNOT)
async def test_what_cannot_be_checked_is_one_sentence(data: Path, what: str) -> None:
    await fill("sqlite", data)
    spoil, said = CANNOT[what]
    spoil(data)
    done = verify("--data-dir", data)
    assert (done.exit_code, len(done.output.splitlines())) == (2, 1)
    assert said in done.output


async def test_an_anchor_that_is_not_there_is_one_sentence(data: Path) -> None:
    await fill("sqlite", data)
    done = verify("--data-dir", data, "--anchor", data / "nowhere")
    assert (done.exit_code, done.output.splitlines()) == (
        2,
        [f"Error: {data}/nowhere: the anchor cannot be read (No such file or directory)."],
    )


def test_sessions_in_memory_cannot_be_verified(data: Path) -> None:
    done = verify("--store", "memory")
    assert (done.exit_code, done.output) == (
        2,
        "Error: Sessions in memory leave no journal: there is nothing to verify.\n",
    )


def test_a_store_that_is_none_and_a_bad_setting_are_sentences(data: Path) -> None:
    for arguments in (["--store", "redis://x"], ["--store", "sqlite", "--data-dir", str(data)]):
        done = verify(*arguments, OSTINATO_PORT="no" if arguments[1] == "sqlite" else "1")
        assert (done.exit_code, len(done.output.splitlines())) == (2, 1)


def test_a_database_without_a_session_is_not_made(data: Path) -> None:
    assert verify("--data-dir", data).exit_code == 2
    assert not data.exists()


def test_the_command_imports_nothing_heavy_before_it_is_used() -> None:
    code = (
        "import sys, app.command.sessions;"
        "print(sorted({'sqlalchemy', 'asyncpg', 'pydantic', 'fastapi', 'asyncio'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


# After a restore


async def restored(data: Path, tmp_path: Path) -> None:
    """The data directory has the database of a backup, in which t2 lacks an entry and u1 to u3 are missing."""
    await fill("sqlite", data)
    shutil.copytree(data, tmp_path / "backup")
    await fill("sqlite", data, name="u")
    store = await open_store("sqlite", data, lease_seconds=30)
    lease = await store.acquire(SessionKey(user_id="local", session_id="t2"), "w1")
    assert lease is not None
    await store.append(lease, [run_entry("r2", "a")], release=True)
    await store.aclose()
    shutil.copy(tmp_path / "backup" / "sessions.db", data / "sessions.db")


def evidence(data: Path) -> list[Path]:
    return sorted(data.glob("journal.anchor.*"))


async def test_a_restored_database_is_accepted_and_what_is_given_up_is_named(data: Path, tmp_path: Path) -> None:
    await restored(data, tmp_path)
    before, database = (data / "journal.anchor").read_bytes(), (data / "sessions.db").read_bytes()
    assert verify("--data-dir", data).exit_code == 1
    done = accept("--data-dir", data)
    [kept] = evidence(data)
    assert (done.exit_code, done.output.splitlines()) == (
        0,
        [
            "local/t2: entry 6 is missing: the anchor has seen 6",
            "session number 4: the session was removed: its anchor has seen 5 entries of it",
            "session number 5: the session was removed: its anchor has seen 5 entries of it",
            "session number 6: the session was removed: its anchor has seen 6 entries of it",
            "10 entries of 2 sessions are taken as they stand.",
            f"The anchor of before is kept as {kept}.",
        ],
    )
    assert kept.read_bytes() == before
    assert (data / "sessions.db").read_bytes() == database
    assert stat.S_IMODE((data / "journal.anchor").stat().st_mode) == 0o600
    done = verify("--data-dir", data)
    assert (done.exit_code, done.output) == (0, "10 entries of 2 sessions, 1 deleted: the journal is whole.\n")
    assert verify("--data-dir", data, "--anchor", kept).exit_code == 1, "it is evidence still"
    await fill("sqlite", data, name="v")
    assert verify("--data-dir", data).exit_code == 0


async def test_a_deletion_of_before_is_in_the_new_anchor_too(data: Path, tmp_path: Path) -> None:
    await restored(data, tmp_path)
    assert accept("--data-dir", data).exit_code == 0
    falsify(data, "DELETE FROM tombstones")
    assert "session number 3: the session was removed" in verify("--data-dir", data).output


async def test_there_is_nothing_to_accept_where_the_database_is_not_behind(data: Path) -> None:
    await fill("sqlite", data)
    before = contents(data)
    done = accept("--data-dir", data)
    assert (done.exit_code, done.output) == (
        0,
        "The database is not behind its anchor: there is nothing to accept.\n",
    )
    assert contents(data) == before


async def test_each_anchor_that_was_given_up_is_kept(data: Path, tmp_path: Path) -> None:
    await restored(data, tmp_path)
    for _ in range(2):
        assert accept("--data-dir", data).exit_code == 0
        await fill("sqlite", data, name="w")
        shutil.copy(tmp_path / "backup" / "sessions.db", data / "sessions.db")
    assert accept("--data-dir", data).exit_code == 0
    assert len(evidence(data)) == 3


async def test_without_an_anchor_a_database_is_given_one(data: Path) -> None:
    await fill("sqlite", data)
    (data / "journal.anchor").unlink()
    done = accept("--data-dir", data)
    assert (done.exit_code, done.output) == (0, "10 entries of 2 sessions are taken as they stand.\n")
    assert verify("--data-dir", data).exit_code == 0


async def test_a_new_database_in_the_place_of_another_is_accepted(data: Path) -> None:
    await fill("sqlite", data)
    for name in contents(data):
        if name.startswith("sessions.db"):
            (data / name).unlink()
    await (await open_store("sqlite", data, lease_seconds=30)).aclose()
    done = verify("--data-dir", data)
    assert (done.exit_code, done.output.splitlines()[0]) == (
        1,
        "this is not the database that the anchor knows: it was deleted or replaced",
    )
    assert accept("--data-dir", data).exit_code == 0
    await fill("sqlite", data)
    assert verify("--data-dir", data).exit_code == 0


async def test_an_anchor_on_another_volume_stays_there(data: Path, tmp_path: Path) -> None:
    await restored(data, tmp_path)
    elsewhere = tmp_path / "volume"
    elsewhere.mkdir()
    (data / "journal.anchor").rename(elsewhere / "anchor")
    (data / "journal.anchor").symlink_to(elsewhere / "anchor")
    assert accept("--data-dir", data).exit_code == 0
    assert (data / "journal.anchor").is_symlink()
    assert sorted(each.name.split(".")[0] for each in elsewhere.iterdir()) == ["anchor", "anchor"]
    assert verify("--data-dir", data).exit_code == 0


async def test_where_a_file_can_have_no_second_name_the_anchor_is_moved(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    await restored(data, tmp_path)
    before = (data / "journal.anchor").read_bytes()
    monkeypatch.setattr(os, "link", link)
    assert accept("--data-dir", data).exit_code == 0
    assert [each.read_bytes() for each in evidence(data)] == [before]
    assert verify("--data-dir", data).exit_code == 0


async def test_a_database_that_is_not_whole_by_itself_is_not_accepted(data: Path, tmp_path: Path) -> None:
    await restored(data, tmp_path)
    falsify(data, "UPDATE entries SET body = x'7b7d' WHERE session = 1 AND seq = 4")
    before = (data / "journal.anchor").read_bytes()
    done = accept("--data-dir", data)
    assert (done.exit_code, done.output.splitlines()) == (
        1,
        [
            "local/t1: entry 4 was altered",
            "10 entries of 2 sessions were read: the journal is not whole.",
            "Nothing was changed.",
        ],
    )
    assert ((data / "journal.anchor").read_bytes(), evidence(data)) == (before, [])


async def test_what_a_server_uses_is_not_accepted(data: Path, tmp_path: Path) -> None:
    await restored(data, tmp_path)
    store = await open_store("sqlite", data, lease_seconds=30)
    done = accept("--data-dir", data)
    await store.aclose()
    assert (done.exit_code, evidence(data)) == (2, [])
    assert "A server is using" in done.output


async def test_with_another_key_nothing_is_accepted(data: Path, tmp_path: Path) -> None:
    await restored(data, tmp_path)
    done = accept("--data-dir", data, OSTINATO_JOURNAL_KEY=KEY)
    assert (done.exit_code, evidence(data)) == (2, [])
    assert "another key" in done.output
    assert accept("--store", "memory").exit_code == 2


async def test_an_anchor_that_cannot_be_replaced_is_one_sentence(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    await restored(data, tmp_path)
    monkeypatch.setattr(os, "replace", replace)
    done = accept("--data-dir", data)
    assert (done.exit_code, done.output) == (
        2,
        f"Error: {data}/journal.anchor: the anchor cannot be replaced (No space left on device).\n",
    )
    assert not [each for each in contents(data) if each.startswith(".")], "no draft is left"


# PostgreSQL


@pytest.fixture
def server() -> Iterator[tuple[PostgresServer, str]]:
    with fresh_database() as url:
        yield postgres_server(), url


async def test_postgresql_is_verified_while_servers_write(data: Path, server: tuple[PostgresServer, str]) -> None:
    postgres, url = server
    await fill(url, data)
    store = await open_store(url, data, lease_seconds=30)
    try:
        done = await in_thread("--store", url, "--data-dir", data)
        assert (done.exit_code, done.output) == (0, "10 entries of 2 sessions, 1 deleted: the journal is whole.\n")
    finally:
        await store.aclose()
    database = url.rpartition("/")[2]
    postgres.sql("UPDATE entries SET run_id = 'r2' WHERE session = 1 AND seq = 3", database)
    done = await in_thread("--store", url.replace("postgresql:", "postgresql+asyncpg:"), "--data-dir", data)
    assert (done.exit_code, done.output.splitlines()[0]) == (1, "local/t1: entry 3 was altered")


async def test_workers_with_an_anchor_each_are_verified_together(
    data: Path, tmp_path: Path, server: tuple[PostgresServer, str]
) -> None:
    postgres, url = server
    await fill(url, data, key=KEY)
    await fill(url, tmp_path / "other", name="u", key=KEY)
    both = ("--store", url, "--data-dir", data, "--anchor", tmp_path / "other" / "journal.anchor")
    done = await in_thread(*both, OSTINATO_JOURNAL_KEY=KEY)
    assert (done.exit_code, done.output) == (0, "20 entries of 4 sessions, 2 deleted: the journal is whole.\n")
    database = url.rpartition("/")[2]
    postgres.sql("DELETE FROM entries WHERE session = (SELECT id FROM sessions WHERE session_id = 'u1')", database)
    postgres.sql("DELETE FROM sessions WHERE session_id = 'u1'", database)
    assert (await in_thread(*both[:4], OSTINATO_JOURNAL_KEY=KEY)).exit_code == 0
    done = await in_thread(*both, OSTINATO_JOURNAL_KEY=KEY)
    assert done.exit_code == 1
    assert "the session was removed" in done.output


async def test_a_postgresql_that_is_not_there_is_one_sentence_without_its_password(data: Path) -> None:
    url = "postgresql://ann:swordfish@127.0.0.1:1/x"
    done = await in_thread("--store", url, "--data-dir", data, OSTINATO_JOURNAL_KEY=KEY)
    assert (done.exit_code, len(done.output.splitlines())) == (2, 1)
    assert "cannot be read" in done.output
    assert "swordfish" not in done.output


async def test_servers_on_postgresql_go_on_with_the_anchor_that_was_accepted(
    data: Path, server: tuple[PostgresServer, str]
) -> None:
    postgres, url = server
    await fill(url, data)
    store = await open_store(url, data, lease_seconds=30)
    session = SessionKey(user_id="local", session_id="t1")
    try:
        database = url.rpartition("/")[2]
        postgres.sql("DELETE FROM entries WHERE session = 1 AND seq = 5", database)
        tip = "(SELECT mac FROM entries WHERE session = 1 AND seq = 4)"
        postgres.sql(f"UPDATE sessions SET head = 4, tip = {tip} WHERE id = 1", database)
        with pytest.raises(SessionPutBack):
            await store.acquire(session, "w")
        done = await asyncio.to_thread(accept, "--store", url, "--data-dir", data)
        assert (done.exit_code, done.output.splitlines()[:2]) == (
            0,
            ["local/t1: entry 5 is missing: the anchor has seen 5", "9 entries of 2 sessions are taken as they stand."],
        )
        lease = await store.acquire(session, "w")
        assert lease is not None
        await store.append(lease, [run_entry("r3", "a")], release=True)
    finally:
        await store.aclose()
    assert (await in_thread("--store", url, "--data-dir", data)).exit_code == 0

"""A database that was put back to an older state, deleted or replaced under its anchor; and what only looks so."""

import asyncio
import logging
import shutil
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, NullPool, create_engine

from agent_core.sessions.journal.accept import write_anchor
from agent_core.sessions.journal.anchor import ANCHOR_FILE, Anchor
from agent_core.sessions.journal.chain import Journal
from agent_core.sessions.journal.key import read_key
from agent_core.sessions.journal.verify import verify
from agent_core.sessions.sql import continuity
from agent_core.sessions.sql.migrations import MIGRATIONS, migrate
from agent_core.sessions.sql.store import SqlStore
from agent_core.sessions.sql.work import Work
from agent_core.sessions.storage import open_store
from agent_core.sessions.store import Lease, LeaseLost, SessionPutBack
from tests.agent_core.sessions.sql.sqlite_stores import opened, run_sql
from tests.agent_core.sessions.stores import KEY, entry, fails, fill, key, take, texts
from tests.postgres import postgres_server, postgres_url

__all__ = ["postgres_url"]

OTHER = key("other")
DATABASE = ("sessions.db", "sessions.db-wal", "sessions.db-shm")


@asynccontextmanager
async def on(folder: Path, where: str = "") -> AsyncIterator[SqlStore]:
    """The store of the data directory: SQLite, or a PostgreSQL."""
    if where:
        store = await open_store(where, folder, lease_seconds=30, journal_key="a key for the tests")
        assert isinstance(store, SqlStore)
    else:
        store = await opened(folder)
    try:
        yield store
    finally:
        await store.aclose()


def copy_database(source: Path, target: Path) -> None:
    """Put the database of one folder, and nothing else, in the place of the other's."""
    target.mkdir(exist_ok=True)
    for name in DATABASE:
        (target / name).unlink(missing_ok=True)
        if (source / name).exists():
            shutil.copy(source / name, target / name)


async def put_back(folder: Path, *, other: bool = True) -> None:
    """`folder` is at a state from before: KEY has 2 entries of 5 then, and a session is missing."""
    old = folder.with_name("old")
    async with on(folder) as store:
        await fill(store, KEY, entry(1), entry(2))
        if other:
            await fill(store, OTHER, entry(1))
    copy_database(folder, old)
    async with on(folder) as store:
        for number in (3, 4, 5):
            await fill(store, KEY, entry(number))
        await fill(store, key("later"), entry(1))
    copy_database(old, folder)


async def refused(awaited: Awaitable[object]) -> None:
    with pytest.raises(SessionPutBack) as caught:
        await awaited
    assert caught.value.code == "store_unavailable"


async def findings(store: SqlStore, folder: Path, journal: Journal | None = None) -> list[str]:
    journal = journal or Journal(read_key(folder, None))
    anchor = Anchor(folder / ANCHOR_FILE, write=False)
    try:
        report = await store._backend.run(Work(do=lambda conn: verify(conn, journal, [anchor])))
    finally:
        anchor.close()
    return [str(each) for each in report.findings]


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


async def test_an_older_database_under_a_newer_anchor_is_refused_session_by_session(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data"
    await put_back(data)
    async with on(data) as store:
        assert errors(caplog) == [
            "the database was put back to an older state: of the sessions that the journal's anchor knows, 1 are "
            "behind it and 1 are gone; see `ostinato sessions accept` in docs/journal.md"
        ]
        caplog.clear()
        for _ in range(3):
            await refused(store.acquire(KEY, "w"))
            await refused(store.load(KEY))
        await fill(store, OTHER, entry(2))
        await fill(store, key("new"), entry(1))
        assert await texts(store, OTHER) == ["text 1", "text 2"]
        [line] = errors(caplog)
        assert "'s' of user 'u'" in line
        assert "it has 2 entries, and the anchor has seen 5" in line
        await refused(store.acquire(KEY, "w"))
        assert await findings(store, data) == [
            "u/s: entry 3 is missing: the anchor has seen 5",
            "session number 3: the session was removed: its anchor has seen 1 entries of it",
        ]
        assert await run_sql(store, "SELECT head, owner FROM sessions WHERE session_id = 's'") == [(2, None)]
        await store.check()


async def test_what_the_anchor_knew_outlives_as_many_runs_as_were_lost(tmp_path: Path) -> None:
    data = tmp_path / "data"
    await put_back(data)
    for _ in range(3):
        async with on(data) as store:
            for _ in range(4):
                await refused(store.acquire(KEY, "w"))
            assert "u/s: entry 3 is missing: the anchor has seen 5" in await findings(store, data)


async def test_sessions_that_were_lost_do_not_lend_their_numbers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data"
    await put_back(data, other=False)
    async with on(data) as store:
        caplog.clear()
        for name in ("later", "new"):  # one under the same name, and one under another
            await fill(store, key(name), entry(7), entry(8))
            await fill(store, key(name), entry(9))
            assert await texts(store, key(name)) == ["text 7", "text 8", "text 9"]
        assert errors(caplog) == []
        rows = [row for (row,) in await run_sql(store, "SELECT id FROM sessions ORDER BY id")]
        assert rows == [1, 3, 4], "2 was the number of the one that was lost"
        assert "session number 2: the session was removed" in (await findings(store, data))[1]


@pytest.mark.parametrize("more", [0, 2], ids=["as long", "longer"])
async def test_a_copy_that_went_on_elsewhere_is_no_longer_the_same_session(tmp_path: Path, more: int) -> None:
    data, away = tmp_path / "data", tmp_path / "away"
    await put_back(data)
    copy_database(data, away)
    shutil.copy(data / "journal.key", away / "journal.key")
    async with on(away) as store:
        for number in range(3 + more):
            await fill(store, KEY, entry(f"other {number}"))
    copy_database(away, data)
    async with on(data) as store:
        for _ in range(2):
            await refused(store.acquire(KEY, "w"))
        await fill(store, OTHER, entry(2))
        assert "u/s: entry 5 is not the one that the anchor has seen" in await findings(store, data)


async def test_a_session_that_was_deleted_does_not_come_back(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with on(data) as store:
        await fill(store, KEY, entry(1))
    copy_database(data, tmp_path / "old")
    async with on(data) as store:
        await store.delete(await take(store))
    copy_database(tmp_path / "old", data)
    async with on(data) as store:
        await refused(store.acquire(KEY, "w"))
        await refused(store.load(KEY))


async def test_deletions_and_names_that_come_again_are_no_loss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        async with on(tmp_path) as store:
            await fill(store, KEY, entry(1), entry(2))
            await store.delete(await take(store))
            await fill(store, KEY, entry(3))
            lease = await take(store, key("empty"))
            await store.release(lease)
            await store.delete(await take(store))
    async with on(tmp_path) as store:
        assert await findings(store, tmp_path) == []
    assert errors(caplog) == []


async def test_a_crash_between_a_commit_and_its_note_is_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with on(tmp_path) as store:
        await fill(store, KEY, entry(1))
        monkeypatch.setattr(Anchor, "note", lambda *_, **__: None)
        await fill(store, KEY, entry(2))
        await fill(store, OTHER, entry(1))
    monkeypatch.undo()
    async with on(tmp_path) as store:
        assert await texts(store) == ["text 1", "text 2"]
        await fill(store, KEY, entry(3))
        await fill(store, OTHER, entry(2))
        assert await findings(store, tmp_path) == []
    assert errors(caplog) == []


async def test_an_anchor_that_cannot_be_written_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with on(tmp_path) as store:
        await fill(store, KEY, entry(1))
        store._anchor.close()
        store._anchor = store._continuity._anchor = Anchor(tmp_path / ANCHOR_FILE, write=False)
        for number in (2, 3):
            await fill(store, KEY, entry(number))
        assert await texts(store) == ["text 1", "text 2", "text 3"]


@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_a_database_that_is_another_is_not_used_at_all(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data"
    async with on(data) as store:
        await fill(store, KEY, entry(1))
    if how == "replaced":
        (tmp_path / "another").mkdir()
        shutil.copy(data / "journal.key", tmp_path / "another" / "journal.key")
        async with on(tmp_path / "another") as store:
            await fill(store, KEY, entry(1))
            await fill(store, OTHER, entry(1))
    copy_database(tmp_path / "another" if how == "replaced" else tmp_path, data)
    for _ in range(2):
        async with on(data) as store:
            before = await run_sql(store, "SELECT session_id, head, owner FROM sessions")
            for name in ("s", "other", "new"):
                assert "another database" in await fails(store.acquire(key(name), "w"))
            assert "another database" in await fails(store.check())
            assert await run_sql(store, "SELECT name FROM meta WHERE name = 'probe'") == []
            assert await run_sql(store, "SELECT session_id, head, owner FROM sessions") == before
            assert "this is not the database that the anchor knows" in (await findings(store, data))[0]
        [line] = errors(caplog)
        assert "it was deleted or replaced" in line
        caplog.clear()
    (data / ANCHOR_FILE).rename(data / "kept")  # as of old: without an anchor the database is taken as it is
    async with on(data) as store:
        await fill(store, key("new"), entry(1))
        await store.check()
        assert await findings(store, data) == []


def age(folder: Path) -> None:
    """Make the anchor one of the version before, and the database too, with the first migration alone."""
    raw = bytearray((folder / ANCHOR_FILE).read_bytes())
    raw[:64] = b"ostinato journal anchor 1\n".ljust(64, b"\0")
    (folder / ANCHOR_FILE).write_bytes(raw)
    path = folder / "sessions.db"
    path.rename(folder / "newer")
    engine = create_engine(f"sqlite:///{path}", poolclass=NullPool)
    with engine.begin() as conn:
        migrate(conn, MIGRATIONS[:1])
    engine.dispose()
    made = sqlite3.connect(path, isolation_level=None)
    made.execute("ATTACH ? AS newer", (str(folder / "newer"),))
    for table in ("sessions", "entries", "tombstones", "sqlite_sequence"):
        made.execute(f"INSERT INTO main.{table} SELECT * FROM newer.{table}")
    made.execute("INSERT INTO main.meta SELECT * FROM newer.meta WHERE name = 'journal'")
    made.close()


@pytest.mark.parametrize("left", ["a session", "a deletion", "a deletion that was not noted", "nothing"])
async def test_data_of_the_version_before_goes_on(tmp_path: Path, left: str, caplog: pytest.LogCaptureFixture) -> None:
    async with on(tmp_path) as store:
        if left != "nothing":
            await fill(store, KEY, entry(1), entry(2))
        noted = (tmp_path / ANCHOR_FILE).read_bytes()
        if left.startswith("a deletion"):
            await store.delete(await take(store))
    if left.endswith("not noted"):
        (tmp_path / ANCHOR_FILE).write_bytes(noted)
    age(tmp_path)
    for number in (2, 3):
        async with on(tmp_path) as store:
            await fill(store, KEY, entry(number))
            await store.check()
            assert await findings(store, tmp_path) == []
    assert errors(caplog) == []


async def test_an_anchor_of_the_version_before_notices_another_database_too(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with on(data) as store:
        await fill(store, KEY, entry(1))
    age(data)
    copy_database(tmp_path / "nowhere", data)
    for _ in range(2):
        async with on(data) as store:
            assert "another database" in await fails(store.acquire(KEY, "w"))


@pytest.mark.parametrize(("probed", "taken"), [(1, False), (2, True)])
async def test_so_many_slots_are_tried_to_find_an_old_anchor_s_database(
    tmp_path: Path, probed: int, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(continuity, "PROBED", probed)
    async with on(tmp_path) as store:
        await fill(store, KEY, entry(1))
        await fill(store, OTHER, entry(1))
        await run_sql(store, "DELETE FROM sessions WHERE session_id = 's'")
        await run_sql(store, "DELETE FROM entries WHERE session = 1")
    age(tmp_path)
    async with on(tmp_path) as store:
        if taken:
            await fill(store, OTHER, entry(2))
        else:
            assert "another database" in await fails(store.acquire(OTHER, "w"))


# What is said when a store opens


def surveyed(behind: int, gone: int) -> str:
    return f"of the sessions that the journal's anchor knows, {behind} are behind it and {gone} are gone"


@pytest.mark.parametrize(("most", "behind"), [(1, 1), (2, 2), (3, 3), (9, 3)])
async def test_only_the_newest_sessions_are_compared_when_a_store_opens(
    tmp_path: Path, most: int, behind: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with on(tmp_path) as store:
        for name in "abc":
            await fill(store, key(name), entry(1), entry(2))
        rows = [row for (row,) in await run_sql(store, "SELECT id FROM sessions")]
        for row in rows:  # the last entry is lost
            await run_sql(store, f"DELETE FROM entries WHERE session = {row} AND seq = 2")
            tip = f"(SELECT mac FROM entries WHERE session = {row})"
            await run_sql(store, f"UPDATE sessions SET head = 1, tip = {tip} WHERE id = {row}")
    monkeypatch.setattr(continuity, "SURVEYED", most)
    async with on(tmp_path):
        [line] = errors(caplog)
    assert surveyed(behind, 0) in line


async def test_a_session_of_the_same_length_and_another_seal_is_behind_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with on(tmp_path) as store:
        await fill(store, KEY, entry(1), entry(2))
        await fill(store, OTHER, entry(1))
        await run_sql(store, "UPDATE sessions SET tip = x'00' WHERE id = 1")
    async with on(tmp_path) as store:
        [line] = errors(caplog)
        await refused(store.acquire(KEY, "w"))
        await refused(store.delete(Lease(key=KEY, owner="w", fence=1, head=2, row=1, tip=b"")))
    assert surveyed(1, 0) in line


async def test_only_so_many_sessions_have_a_line_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(continuity, "MOST_SAID", 2)
    async with on(tmp_path) as store:
        for name in "abc":
            await fill(store, key(name), entry(1), entry(2))
            await behind(store, name)
        caplog.clear()
        for name in "aabbcc":
            await refused(store.load(key(name)))
    assert [line.split()[1] for line in errors(caplog)] == ["'a'", "'b'"]


# Under a running store


async def behind(store: SqlStore, whose: str = "s") -> None:
    """Take the last entry out of the database, as a restore does that nobody told the server of."""
    row = (await run_sql(store, f"SELECT id FROM sessions WHERE session_id = '{whose}'"))[0][0]
    await run_sql(store, f"DELETE FROM entries WHERE session = {row} AND seq = (SELECT max(seq) FROM entries)")
    tip = f"(SELECT mac FROM entries WHERE session = {row} ORDER BY seq DESC LIMIT 1)"
    await run_sql(store, f"UPDATE sessions SET head = head - 1, tip = {tip} WHERE id = {row}")


Way = Callable[[SqlStore, Lease], Awaitable[object]]
WAYS: dict[str, Way] = {
    "append": lambda store, lease: store.append(lease, [entry(9)]),
    "append of the end": lambda store, lease: store.append(lease, [entry(9)], release=True),
    "delete": lambda store, lease: store.delete(lease),
    "load": lambda store, lease: store.load(lease.key),
    "read": lambda store, lease: store.read(lease.key),
    "acquire": lambda store, lease: store.acquire(lease.key, "w2"),
    "open": lambda store, lease: store.open(lease.key, "w2"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_what_is_lost_under_an_open_lease_is_noticed_at_the_next_step(
    tmp_path: Path, way: str, kind: str, request: pytest.FixtureRequest
) -> None:
    async with on(tmp_path, request.getfixturevalue("postgres_url") if kind == "postgres" else "") as store:
        await fill(store, OTHER, entry(1))
        lease = await take(store)
        await store.append(lease, [entry(1)])
        await store.append(lease, [entry(2)], release=way in ("acquire", "open"))
        await behind(store)
        for _ in range(2):
            await refused(WAYS[way](store, lease))
        await fill(store, OTHER, entry(2))
        assert await run_sql(store, "SELECT head FROM sessions WHERE session_id = 's'") == [(1,)]


async def test_a_session_that_is_gone_without_a_trace_is_not_said_to_be_somebody_elses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with on(tmp_path) as store:
        lease = await take(store)
        await store.append(lease, [entry(1)])
        await run_sql(store, "DELETE FROM entries")
        await run_sql(store, "DELETE FROM sessions")
        await refused(store.append(lease, [entry(2)]))
        await refused(store.delete(lease))
    assert "it has 0 entries, and the anchor has seen 1" in errors(caplog)[0]


def accept(store: SqlStore, folder: Path) -> Awaitable[object]:
    """What an operator does: put an anchor of the database as it stands in the place of the one of before."""

    def do(conn: Connection) -> None:
        write_anchor(conn, folder / "new")
        (folder / "new").rename(folder / ANCHOR_FILE)

    return store._backend.run(Work(do=do))


@pytest.mark.parametrize("way", WAYS)
async def test_what_was_accepted_is_gone_on_with_at_once(tmp_path: Path, way: str) -> None:
    async with on(tmp_path) as store:
        await fill(store, KEY, entry(1), entry(2))
        await behind(store)
        await refused(store.load(KEY))
        await accept(store, tmp_path)
        if way in ("acquire", "open"):
            assert (await take(store)).head == 1
            return
        # The lease is of before the loss.
        lease = await take(store)
        await store.append(lease, [entry(3), entry(4)])
        await behind(store)
        lease.head, lease.tip = (await run_sql(store, "SELECT head, tip FROM sessions"))[0]
        await refused(store.load(KEY))
        await accept(store, tmp_path)
        await WAYS[way](store, lease)


async def test_a_database_that_was_accepted_in_the_place_of_another_is_used_at_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with on(data) as store:
        await fill(store, KEY, entry(1))
    copy_database(tmp_path, data)
    async with on(data) as store:
        assert "another database" in await fails(store.find(KEY))
        assert "another database" in await fails(store.page("u", 9))
        await accept(store, data)
        assert await store.find(KEY) is None
        await fill(store, KEY, entry(1))


async def test_another_anchor_is_another_reason_to_say_what_is_wrong(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with on(tmp_path) as store:
        await fill(store, KEY, entry(1), entry(2))
        await behind(store)
        caplog.clear()
        for _ in range(2):
            for _ in range(2):
                await refused(store.acquire(KEY, "w"))
            shutil.copy(tmp_path / ANCHOR_FILE, tmp_path / "same")
            (tmp_path / "same").rename(tmp_path / ANCHOR_FILE)
        await refused(store.acquire(KEY, "w"))
    said = [line for line in errors(caplog) if "it has 1 entries, and the anchor has seen 2" in line]
    assert len(said) == 3


# Several servers on one PostgreSQL, each with an anchor of its own


async def test_servers_that_write_in_turn_do_not_take_each_others_entries_for_a_loss(
    tmp_path: Path, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        on(tmp_path / "one", postgres_url) as one,
        on(tmp_path / "two", postgres_url) as two,
        on(tmp_path / "two", postgres_url) as three,  # shares its anchor
    ):
        for number in range(6):
            for store, whose in ((one, KEY), (two, KEY), (three, KEY), (two, OTHER), (one, key(f"n{number}"))):
                await fill(store, whose, entry(number))
        await two.delete(await take(two))
        await fill(one, KEY, entry(1))
        await three.delete(await take(three, OTHER))
        await fill(one, OTHER, entry(1))
        assert len(await one.load(KEY)) == 1
    async with on(tmp_path / "one", postgres_url) as one, on(tmp_path / "two", postgres_url) as two:
        await fill(two, KEY, entry(2))
        await fill(one, KEY, entry(3))
    assert errors(caplog) == []


async def test_servers_that_write_at_once_raise_no_false_alarm(
    tmp_path: Path, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(store: SqlStore, owner: str) -> None:
        for number in range(25):
            try:
                lease = await store.acquire(KEY, owner)
                assert lease is not None
                await store.load(KEY)
                await store.append(lease, [entry(f"{owner} {number}")])
                await store.append(lease, [entry(f"{owner} {number} b")])
            except LeaseLost:
                pass

    async with on(tmp_path, postgres_url) as one, on(tmp_path, postgres_url) as two:
        # No heartbeat: each acquisition takes the session from whoever has it.
        await asyncio.gather(*(work(store, f"w{n}") for n, store in enumerate((one, two, one, two))))
        assert await findings(one, tmp_path, one._journal) == []
    assert errors(caplog) == []


async def test_a_server_whose_lease_was_taken_is_told_so_and_no_more(tmp_path: Path, postgres_url: str) -> None:
    async with on(tmp_path, postgres_url) as one, on(tmp_path, postgres_url) as two:
        late = await take(one, owner="w1")
        await one.append(late, [entry(1)])
        for number in (2, 3):
            await two.append(await take(two, owner="w2"), [entry(number)])
        with pytest.raises(LeaseLost):
            await one.append(late, [entry(9)])
        with pytest.raises(LeaseLost):
            await one.delete(late)


async def test_a_postgresql_that_was_put_back_is_noticed_by_whoever_wrote_what_is_lost(
    tmp_path: Path, postgres_url: str
) -> None:
    postgres, name = postgres_server(), postgres_url.rpartition("/")[2]
    async with on(tmp_path / "one", postgres_url) as one:
        await fill(one, KEY, entry(1))
        await fill(one, OTHER, entry(1))
    postgres.sql(f"CREATE DATABASE {name}_old TEMPLATE {name}")
    try:
        async with on(tmp_path / "one", postgres_url) as one, on(tmp_path / "two", postgres_url) as two:
            await fill(two, KEY, entry(2))
            await fill(one, key("later"), entry(1))
        old = f"{postgres_url}_old"
        async with on(tmp_path / "one", old) as one, on(tmp_path / "two", old) as two:
            await fill(one, KEY, entry("another"))  # it knows of nothing that is lost here
            await refused(two.acquire(KEY, "w"))
            await refused(two.acquire(KEY, "w"))
            await fill(one, key("new"), entry(1))
            await fill(two, key("newer"), entry(1))
            await fill(two, OTHER, entry(2))
            found = await findings(one, tmp_path / "one", one._journal)
            assert found == ["session number 3: the session was removed: its anchor has seen 1 entries of it"]
    finally:
        postgres.sql(f"DROP DATABASE {name}_old WITH (FORCE)")


async def test_another_postgresql_is_noticed(tmp_path: Path, postgres_url: str) -> None:
    postgres, name = postgres_server(), postgres_url.rpartition("/")[2]
    async with on(tmp_path, postgres_url) as store:
        await fill(store, KEY, entry(1))
    postgres.sql(f"CREATE DATABASE {name}_new")
    try:
        async with on(tmp_path, f"{postgres_url}_new") as store:
            assert "another database" in await fails(store.acquire(KEY, "w"))
            assert "another database" in await fails(store.check())
    finally:
        postgres.sql(f"DROP DATABASE {name}_new WITH (FORCE)")

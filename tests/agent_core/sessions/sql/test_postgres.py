"""What only the store on PostgreSQL promises: several workers, lost connections, and URLs."""

import asyncio
import gc
import sys
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from agent_core.errors import RunError, StoreError
from agent_core.names import SessionKey
from agent_core.sessions.entries import Entry
from agent_core.sessions.journal.chain import Journal
from agent_core.sessions.sql import postgres, transactions
from agent_core.sessions.sql.postgres import PostgresBackend
from agent_core.sessions.sql.store import SqlStore
from agent_core.sessions.sql.work import Work
from agent_core.sessions.storage import open_store
from agent_core.sessions.store import LeaseLost
from tests.agent_core.sessions.stores import KEY, entry, fails, key, take
from tests.postgres import PostgresServer, postgres_server, postgres_url

__all__ = ["postgres_url"]  # a fixture


COUNT = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ostinato'"


async def opened(url: str, data_dir: Path, lease_seconds: float = 30) -> SqlStore:
    store = await open_store(url, data_dir, lease_seconds=lease_seconds)
    assert isinstance(store, SqlStore)
    return store


@pytest.fixture
async def store(postgres_url: str, tmp_path: Path) -> AsyncIterator[SqlStore]:
    made = await opened(postgres_url, tmp_path)
    yield made
    await made.aclose()


@pytest.fixture
async def other(postgres_url: str, tmp_path: Path, store: SqlStore) -> AsyncIterator[SqlStore]:
    """Another worker's store on the same database."""
    made = await opened(postgres_url, tmp_path)
    yield made
    await made.aclose()


@pytest.fixture
def server(postgres_url: str) -> PostgresServer:
    return postgres_server()


def backend_of(store: SqlStore) -> PostgresBackend:
    assert isinstance(store._backend, PostgresBackend)
    return store._backend


async def ask(store: SqlStore, statement: str) -> Any:
    return await store._backend.run(Work(do=lambda conn: conn.execute(text(statement)).scalar()))


async def test_workers_share_sessions_and_keep_each_other_out(store: SqlStore, other: SqlStore) -> None:
    await store.renew("a")
    await other.renew("b")
    lease = await take(store, owner="a")
    await store.append(lease, [entry("one")])
    assert await other.acquire(KEY, "b") is None
    assert await other.cancel(KEY) is True
    assert list(await other.renew("b")) == []
    assert [each.key for each in await store.renew("a")] == [KEY]
    await store.append(lease, [entry("two")], release=True)
    taken = await take(other, owner="b")
    assert (taken.head, len(await other.load(KEY))) == (2, 2)
    assert await store.acquire(KEY, "a") is None


async def test_a_worker_that_was_stopped_past_its_lease_writes_nothing(store: SqlStore, other: SqlStore) -> None:
    await store.renew("a")
    asleep = await take(store, owner="a")
    await ask(other, "UPDATE workers SET expires_at = 0 RETURNING 1")
    awake = await take(other, owner="b")
    assert awake.fence == asleep.fence + 1
    writing = [store.append(asleep, [entry("stale")]) for _ in range(5)]
    fresh = other.append(awake, [entry("fresh")])
    *stale, wrote = await asyncio.gather(*writing, fresh, return_exceptions=True)
    assert wrote is None
    assert {type(each) for each in stale} == {LeaseLost}
    assert len(await other.load(KEY)) == 1


async def test_a_worker_that_stops_in_the_middle_of_a_transaction_does_not_block_its_successor(
    postgres_url: str, tmp_path: Path, store: SqlStore
) -> None:
    stopped = await opened(postgres_url, tmp_path, lease_seconds=0.1)
    await take(stopped, owner="a")
    async with backend_of(stopped)._engine.connect() as conn:
        await conn.execute(text("UPDATE sessions SET title = 'locked'"))
        # Here it stops. PostgreSQL ends its transaction well before anybody gives up.
        lease = await take(store, owner="b")
        await store.append(lease, [entry("one")])
        with pytest.raises(DBAPIError):
            await conn.execute(text("SELECT 1"))
    await stopped.aclose()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_restarted_server_does_not_fail_the_next_step(
    store: SqlStore, server: PostgresServer, mode: str
) -> None:
    lease = await take(store)
    await asyncio.gather(*(store.load(KEY) for _ in range(8)))  # several connections in the pool
    for number in range(3):
        await asyncio.to_thread(server.stop, mode)
        await asyncio.to_thread(server.start)
        await asyncio.gather(store.append(lease, [entry("one")]), *(store.check() for _ in range(4)))
        assert len(await store.load(KEY)) == number + 1


async def test_a_server_that_is_down_fails_and_recovers(store: SqlStore, server: PostgresServer) -> None:
    lease = await take(store)
    await store.append(lease, [entry("one")])
    await asyncio.to_thread(server.stop)
    try:
        for _ in range(2):
            for asking in (store.append(lease, [entry("two")]), store.check(), store.load(KEY), store.renew("w")):
                await fails(asking)
    finally:
        await asyncio.to_thread(server.start)
    await store.check()
    await store.append(lease, [entry("three")])
    assert len(await store.load(KEY)) == 2


async def test_connections_that_the_server_ended_are_made_anew(store: SqlStore, server: PostgresServer) -> None:
    lease = await take(store)
    for number in range(5):
        server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ostinato'")
        await store.append(lease, [entry("x")])
        assert lease.head == number + 1


async def test_a_connection_that_is_lost_in_the_middle_of_a_transaction_is_tried_once_more(store: SqlStore) -> None:
    lease = await take(store)
    ended: list[bool] = []

    def end(conn: Any) -> int:
        if not ended:
            ended.append(True)
            conn.execute(text("UPDATE sessions SET title = 'half'"))
            conn.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
        return 7

    assert await store._backend.run(Work(do=end)) == 7
    assert await ask(store, "SELECT title FROM sessions") == ""
    await store.append(lease, [entry("x")])


def lose_commits(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the answer to the first commit of each piece of work is lost."""
    backend = backend_of(store)
    once = backend._once
    lost = []

    async def lose(work: Work[Any]) -> Any:
        result = await once(work)
        if work not in lost:
            lost.append(work)
            raise DBAPIError("COMMIT", None, ConnectionResetError(), connection_invalidated=True)
        return result

    monkeypatch.setattr(backend, "_once", lose)


async def test_a_commit_whose_answer_was_lost_is_found_and_not_made_twice(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_commits(store, monkeypatch)
    lease = await take(store)
    await store.append(lease, [entry("one"), entry("two")])
    await store.append(lease, [entry("three")], release=True)
    assert lease.head == 3
    assert [each.seq for each in await store.load(KEY)] == [1, 2, 3]
    lease = await take(store, owner="next")
    await store.release(lease)
    empty = await take(store, key("empty"))
    await store.release(empty)
    assert await ask(store, "SELECT count(*) FROM sessions") == 1
    assert await ask(store, "SELECT count(*) FROM sessions WHERE owner IS NOT NULL") == 0


async def test_a_deletion_whose_answer_was_lost_is_found_and_noted(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = await take(store)
    await store.append(lease, [entry("one"), entry("two")])
    lose_commits(store, monkeypatch)
    await store.delete(lease)
    assert await store.find(KEY) is None
    assert store._anchor.read(lease.row) == (3, await ask(store, "SELECT mac FROM tombstones"))


async def test_somebody_elses_deletion_is_not_taken_for_ones_own(store: SqlStore, other: SqlStore) -> None:
    asleep = await take(store, owner="a")
    await store.append(asleep, [entry("one")])
    awake = await take(other, owner="b")
    await other.delete(awake)
    await ask(store, "UPDATE tombstones SET deleted_at = deleted_at - 1 RETURNING 1")  # not in the same millisecond
    with pytest.raises(LeaseLost):
        await store.delete(asleep)


async def test_a_server_that_does_not_answer_is_given_up(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "PATIENCE", 0.2)
    assert await fails(ask(store, "SELECT pg_sleep(30)")) == "TimeoutError"
    monkeypatch.undo()
    await asyncio.gather(*(store.check() for _ in range(10)))


async def test_callers_that_give_up_leave_the_store_well(store: SqlStore, server: PostgresServer) -> None:
    async def give_up(number: int) -> None:
        whose = key(f"s{number}")
        lease = await take(store, whose)
        writing = asyncio.create_task(store.append(lease, [entry("x" * 1000)] * 5))
        for _ in range(number % 7):
            await asyncio.sleep(0)
        writing.cancel()
        await asyncio.wait({writing})
        # What had begun is carried to its end, and the lease knows it.
        lease = await take(store, whose)
        await store.append(lease, [entry("y")])
        assert len(await store.load(whose)) == lease.head

    await asyncio.gather(*(give_up(number) for number in range(40)))
    await store.check()
    idle = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ostinato' AND state <> 'idle'"
    assert server.sql(idle) == "0"


async def test_closing_leaves_no_connection(postgres_url: str, tmp_path: Path, server: PostgresServer) -> None:
    store = await opened(postgres_url, tmp_path)
    await asyncio.gather(*(store.check() for _ in range(30)))
    await store.aclose()
    await store.aclose()
    # The server needs a moment to notice.
    async with asyncio.timeout(30):
        while await asyncio.to_thread(server.sql, COUNT) != "0":
            pass
    await fails(store.check())


async def test_a_database_that_takes_no_writes_fails_and_recovers(
    store: SqlStore, server: PostgresServer, postgres_url: str
) -> None:
    name = postgres_url.rpartition("/")[2]
    lease = await take(store)
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ostinato'"
    server.sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on; {end}")
    for asking in (store.append(lease, [entry("x")]), store.check()):
        assert "25006" in await fails(asking)
    server.sql(f"ALTER DATABASE {name} RESET default_transaction_read_only; {end}")
    await store.check()
    await store.append(lease, [entry("x")])


async def test_an_error_shows_nothing_of_what_was_to_be_stored(store: SqlStore) -> None:
    lease = await take(store)
    bad = Entry(run_id="secret\0run", kind="message", body=b"secret body", lane="secret lane")
    with pytest.raises(RunError) as caught:
        await store.append(lease, [bad])
    assert caught.value.code == "store_unavailable"
    assert "secret" not in "".join(traceback.format_exception(caught.value))
    assert "secret" not in caught.value.detail
    await store.append(lease, [entry("x")])


@pytest.mark.parametrize(
    ("scheme", "query"),
    [
        ("postgresql", ""),
        ("postgres", "?sslmode=disable"),
        ("postgresql+asyncpg", "?ssl=disable&application_name=mine"),
        ("postgres", "?sslmode=prefer&channel_binding=prefer&connect_timeout=10"),
        ("postgresql", "?pgbouncer=true"),
        ("postgresql", "?options=-c%20statement_timeout%3D1000"),
    ],
)
async def test_urls_as_people_write_them_are_understood(
    postgres_url: str, tmp_path: Path, scheme: str, query: str
) -> None:
    store = await opened(f"{scheme}://{postgres_url.partition('://')[2]}{query}", tmp_path)
    lease = await take(store)
    await store.append(lease, [entry("one")])
    await store.append(lease, [entry("two")], release=True)
    assert len(await store.load(KEY)) == 2
    assert await ask(store, "SHOW application_name") == ("mine" if "mine" in query else "ostinato")
    for limit in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
        assert await ask(store, f"SHOW {limit}") in ("8s", "5s")
    await store.aclose()


@pytest.mark.parametrize(
    ("lease_seconds", "lock", "idle"),
    [(0.1, 1000, 1000), (3.0, 1000, 1000), (3.3, 1100, 1100), (9.0, 3000, 3000), (18.0, 5000, 6000), (60, 5000, 8000)],
)
def test_a_stopped_worker_keeps_its_locks_for_a_third_of_a_lease_and_not_long(
    lease_seconds: float, lock: int, idle: int
) -> None:
    assert postgres._limits(lease_seconds) == {
        "statement_timeout": "8000",
        "lock_timeout": str(lock),
        "idle_in_transaction_session_timeout": str(idle),
    }


@pytest.mark.parametrize("said", ["true", "True", "1", "yes", "on", "false", "0", "no", "", None])
def test_a_pool_of_connections_is_one_where_the_url_says_so(said: str | None) -> None:
    query = {} if said is None else {"pgbouncer": said}
    assert postgres._is_pooled(query) == (said in ("true", "True", "1", "yes", "on"))


def test_a_url_is_read_as_asyncpg_takes_it() -> None:
    url = "postgres+asyncpg://me:p%40ss@host:1/db?ssl=require&pgbouncer=on&connect_timeout=3&application_name=x#y"
    dsn, query = postgres.read_url(url)
    assert dsn == "postgresql://me:p%40ss@host:1/db?sslmode=require&application_name=x"
    assert (query["pgbouncer"], query["ssl"]) == ("on", "require")


async def test_the_limits_of_a_transaction_end_with_it_behind_a_pool(postgres_url: str, tmp_path: Path) -> None:
    store = await opened(f"{postgres_url}?pgbouncer=true", tmp_path)
    backend, show = backend_of(store), text("SHOW statement_timeout")
    async with backend._engine.connect() as conn:
        assert await conn.run_sync(backend._do, Work(do=lambda conn: conn.execute(show).scalar())) == "8s"
        await conn.commit()
        assert (await conn.execute(show)).scalar() == "0"
    await store.aclose()


async def test_work_that_has_begun_is_finished_before_the_store_is_closed(store: SqlStore) -> None:
    lease = await take(store)
    writing = asyncio.create_task(store.append(lease, [entry("one")]))
    await asyncio.sleep(0)
    await store.aclose()
    assert lease.head == 1
    await writing


async def test_work_that_fails_for_nobody_is_not_reported_as_an_error_of_the_loop(store: SqlStore) -> None:
    reported: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, about: reported.append(about))
    asking = asyncio.create_task(ask(store, "SELECT * FROM nothing"))
    await asyncio.sleep(0)
    asking.cancel()
    backend = backend_of(store)
    await asyncio.wait(backend._tasks)
    await asyncio.sleep(0)
    assert asking.cancelled()
    assert backend._tasks == set()
    del asking  # what was raised in it holds the work's task
    gc.collect()
    assert reported == []


async def test_behind_a_pool_of_connections_nothing_stays_prepared_or_set(
    postgres_url: str, tmp_path: Path, server: PostgresServer
) -> None:
    store = await opened(f"{postgres_url}?pgbouncer=true", tmp_path)
    await take(store)
    async with backend_of(store)._engine.connect() as conn:
        assert (await conn.execute(text("SHOW statement_timeout"))).scalar() == "0"
        names = (await conn.execute(text("SELECT name FROM pg_prepared_statements"))).scalars().all()
        assert all(name.startswith("ostinato_") for name in names)
        assert len(names) <= 1  # the one that asks
    await store.aclose()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hidden@127.0.0.1:1/nowhere",
        "postgresql://me:hidden@[::1/nowhere",
        "postgresql://me:hidden@127.0.0.1:port/nowhere",
        "postgresql://me:hid/den@host:1/nowhere",
        "postgresql://me:hidden@127.0.0.1:1/nowhere?sslmode=nonsense",
        "postgresql://me@127.0.0.1:1/nowhere?password=hidden&port=x",
        "postgresql://me:hidden@127.0.0.1:1/nowhere?target_session_attrs=nonsense",
        "postgresql://",
    ],
)
async def test_a_database_that_cannot_be_reached_is_one_sentence_without_the_password(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "1")
    with pytest.raises(StoreError) as caught:
        await open_store(url, tmp_path, lease_seconds=30)
    said = "".join(traceback.format_exception(caught.value))
    assert "hid" not in said
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


async def test_an_unknown_database_is_refused(postgres_url: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="3D000"):
        await open_store(f"{postgres_url}_not", tmp_path, lease_seconds=30)


async def test_a_table_of_somebody_else_s_is_refused(postgres_url: str, tmp_path: Path, server: PostgresServer) -> None:
    server.sql("CREATE TABLE sessions (id integer)", postgres_url.rpartition("/")[2])
    with pytest.raises(StoreError, match="42P07"):
        await open_store(postgres_url, tmp_path, lease_seconds=30)
    count = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
    assert server.sql(count, postgres_url.rpartition("/")[2]) == "1"


async def test_without_its_driver_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(StoreError, match=r'pip install "ostinato\[postgres\]"'):
        await open_store("postgresql://localhost/x", tmp_path, lease_seconds=30)


async def test_workers_must_have_the_same_key(postgres_url: str, tmp_path: Path, store: SqlStore) -> None:
    with pytest.raises(StoreError, match="another key"):
        await open_store(postgres_url, tmp_path / "another", lease_seconds=30)


async def test_a_session_that_is_deleted_while_it_is_read_is_empty(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "PAGE", 2)
    await store.append(await take(store), [entry(n) for n in range(4)], release=True)
    read = transactions._entries

    def late(conn: Connection, whose: SessionKey, behind: int) -> Any:
        if behind == 2:
            conn.execute(text("DELETE FROM entries"))
            conn.execute(text("DELETE FROM sessions"))
        return read(conn, whose, behind)

    monkeypatch.setattr(transactions, "_entries", late)
    assert list(await store.load(KEY)) == []


@pytest.mark.parametrize("error", [RunError("store_unavailable", detail="it is away"), ZeroDivisionError("it is away")])
async def test_a_database_that_cannot_be_used_is_left_without_connections(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    closed: list[PostgresBackend] = []
    close = PostgresBackend.aclose

    async def note(backend: PostgresBackend) -> None:
        await close(backend)
        closed.append(backend)

    async def refuse(backend: PostgresBackend, work: Work[Any]) -> Any:
        raise error

    monkeypatch.setattr(PostgresBackend, "aclose", note)
    monkeypatch.setattr(PostgresBackend, "run", refuse)
    with pytest.raises(StoreError if isinstance(error, RunError) else ZeroDivisionError, match="it is away"):
        await PostgresBackend.open("postgresql://nowhere/x", lease_seconds=30)
    assert len(closed) == 1


async def test_a_long_append_is_sealed_in_pieces_between_which_others_have_a_turn(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "PAGE", 10)
    lease, turns, sealed_in = await take(store), [0], list[int]()
    seal = Journal.seal

    async def count() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    def note(*about: Any) -> bytes:
        sealed_in.append(turns[0])
        return seal(*about)

    monkeypatch.setattr(Journal, "seal", note)
    counting = asyncio.create_task(count())
    await store.append(lease, [entry(number) for number in range(35)])
    counting.cancel()
    assert len(sealed_in) == 35
    assert max(map(sealed_in.count, sealed_in)) <= 10

"""What the statements leave in the tables, looked at from beside the store."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from agent_core.sessions.sql import transactions
from agent_core.sessions.sql.continuity import Continuity
from agent_core.sessions.sql.store import SqlStore
from agent_core.sessions.sql.work import Work
from agent_core.sessions.store import LeaseLost
from tests.agent_core.sessions.sql.sqlite_stores import run_sql
from tests.agent_core.sessions.stores import KEY, die, entry, fill, key, opened, stop_clock, take


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqlStore]:
    async with opened(request.param, tmp_path) as made:
        assert isinstance(made, SqlStore)
        yield made


async def test_a_check_leaves_the_facts_of_the_database_as_they_are(store: SqlStore) -> None:
    before = await run_sql(store, "SELECT name, value FROM meta ORDER BY name")
    await store.check()
    assert await run_sql(store, "SELECT name, value FROM meta ORDER BY name") == before
    assert [name for name, _ in before] == ["identity", "journal", "schema_version"]


async def test_a_deletion_that_is_made_again_finds_its_own_tombstone(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_clock(monkeypatch, 1_000)  # all tombstones have the same time
    leases = []
    for number in (1, 2, 3):
        await fill(store, key(f"s{number}"), *(entry(each) for each in range(number)))
        leases.append(await take(store, key(f"s{number}")))
    for lease in leases:
        await store.delete(lease)

    async def again(row: int, at: int) -> tuple[int, bytes]:
        lease = leases[row - 1]
        return await store._backend.run(
            Work(do=lambda conn: transactions.remove(conn, store._journal, store._continuity, lease, at=at))
        )

    macs = dict(await run_sql(store, "SELECT id, mac FROM tombstones"))
    for row in (1, 2, 3):
        assert await again(row, 1_000) == (row + 1, macs[row]) == store._anchor.read(row)
    with pytest.raises(LeaseLost):
        await again(2, 1_001)


async def test_a_session_without_entries_leaves_nothing_when_it_is_deleted(store: SqlStore) -> None:
    lease = await take(store)
    await store.delete(lease)
    assert await run_sql(store, "SELECT id FROM tombstones") == []
    assert store._anchor.read(lease.row) is None


async def test_tidying_removes_what_is_long_dead_and_nothing_else(store: SqlStore) -> None:
    for owner in ("alive", "late", "dead"):
        await store.renew(owner)
        await fill(store, key(f"{owner}-written"))
        for name in ("written", "empty"):
            await take(store, key(f"{owner}-{name}"), owner=owner)
    await die(store, "late")
    await die(store, "dead")
    await run_sql(store, "UPDATE workers SET expires_at = expires_at - 1000 WHERE owner = 'dead'")
    await store._backend.run(Work(do=lambda conn: transactions.tidy(conn, alone=False)))
    assert await run_sql(store, "SELECT owner FROM workers ORDER BY owner") == [("alive",), ("late",)]
    left = {name for (name,) in await run_sql(store, "SELECT session_id FROM sessions")}
    assert left == {"alive-written", "alive-empty", "late-written", "dead-written"}
    await store._backend.run(Work(do=lambda conn: transactions.tidy(conn, alone=True)))
    assert await run_sql(store, "SELECT owner FROM workers") == []
    assert await run_sql(store, "SELECT session_id FROM sessions WHERE head = 0") == []


async def test_without_a_time_no_session_is_too_old(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in (-1, 0, 1):
        stop_clock(monkeypatch, at)
        await fill(store, key(f"at {at}"))
    assert await store.expired(before=None, keep=None, limit=9) == []
    assert await store.expired(before=None, keep=3, limit=9) == []
    assert await store.expired(before=None, keep=2, limit=9) == [key("at -1")]
    assert await store.expired(before=1, keep=None, limit=9) == [key("at -1"), key("at 0")]


async def test_a_session_that_reaches_its_slot_is_not_looked_at_once_more(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Any] = []
    monkeypatch.setattr(Continuity, "examine", lambda *about: looked.append(about))
    lease = await take(store)
    for number in (1, 2):
        await store.append(lease, [entry(number), entry(number + 10)])
        assert len(await store.load(KEY)) == 2 * number
    assert looked == []
    store._anchor.note(lease.row, 5, b"t" * 32)
    await store.load(KEY)
    await store.append(lease, [entry(3)])
    assert len(looked) == 2


async def test_an_append_behind_another_seal_than_the_anchor_has_seen_is_looked_at(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Any] = []
    monkeypatch.setattr(Continuity, "examine", lambda *about: looked.append(about))
    lease = await take(store)
    await store.append(lease, [entry(1)])
    lease.tip = b"t" * 32
    await store.append(lease, [entry(2)])
    assert len(looked) == 1


async def test_the_same_claim_is_made_once_however_often_it_comes(store: SqlStore) -> None:
    await store.renew("w")
    for _ in range(3):
        assert await store.records.claim("u", "n", b"one", owner="w", seconds=60) is None
    assert await run_sql(store, "SELECT count(*) FROM records") == [(1,)]


async def test_a_record_that_comes_and_goes_is_not_said_to_be_claimed(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_core.sessions.sql.records.CLAIM", text("SELECT 1 WHERE 1 = 0"))
    with pytest.raises(RuntimeError, match="comes and goes"):
        await store.records.claim("u", "n", b"one", owner="w", seconds=60)

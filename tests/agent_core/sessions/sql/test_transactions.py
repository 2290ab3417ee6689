"""What the stores' methods ask of the database, and what they leave in it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from agent_core.sessions.sql.continuity import Continuity
from agent_core.sessions.sql.store import SqlStore
from tests.agent_core.sessions.sql.sqlite_stores import run_sql
from tests.agent_core.sessions.stores import KEY, entry, opened, take


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


async def test_a_session_without_entries_leaves_nothing_when_it_is_deleted(store: SqlStore) -> None:
    lease = await take(store)
    await store.delete(lease)
    assert await run_sql(store, "SELECT id FROM tombstones") == []
    assert store._anchor.read(lease.row) is None


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

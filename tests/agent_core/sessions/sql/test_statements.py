"""Each statement finds the rows that it is for, among others that are nearly the same."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent_core.sessions.entries import Entry
from agent_core.sessions.sql import transactions
from agent_core.sessions.sql.store import SqlStore
from agent_core.sessions.sql.work import Work
from agent_core.sessions.store import Cancel, Lease, LeaseLost, SessionPutBack
from tests.agent_core.sessions.sql.sqlite_stores import run_sql
from tests.agent_core.sessions.stores import KEY, die, entry, fill, key, names, opened, stop_clock, take, texts
from tests.entries import end_entry, run_entry

NEAR = (KEY, key("s", "v"), key("t"))
"""Two have the same name, two the same user."""


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqlStore]:
    async with opened(request.param, tmp_path) as made:
        assert isinstance(made, SqlStore)
        yield made


async def test_a_session_is_written_read_and_deleted_beside_its_neighbours(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = [await take(store, whose) for whose in NEAR]
    for at, lease in enumerate(leases, 1_000):
        stop_clock(monkeypatch, at)
        await store.append(lease, [entry(at), entry(at + 10)])
        stop_clock(monkeypatch, at + 500)
        await store.append(lease, [entry(at + 20)])
    for at, whose in enumerate(NEAR, 1_000):
        assert await texts(store, whose) == [f"text {at}", f"text {at + 10}", f"text {at + 20}"]
        found = await store.find(whose)
        assert found is not None
        assert (found.session_id, found.head) == (whose.session_id, 3)
        assert (found.created_at, found.updated_at) == (at, at + 500)
    assert (await names(store, "u"), await names(store, "v")) == (["t", "s"], ["s"])
    await store.delete(leases[0])
    assert await run_sql(store, "SELECT session, count(*) FROM entries GROUP BY session ORDER BY session") == [
        (2, 3),
        (3, 3),
    ]
    assert (await names(store, "u"), await names(store, "v")) == (["t"], ["s"])


async def again(store: SqlStore, lease: Lease, entries: list[Entry], *, free: bool = False) -> int:
    """Make an append that may have been made before."""
    head, _ = await store._backend.run(
        Work(
            do=lambda conn: transactions.append(
                conn, store._journal, store._continuity, lease, entries, at=9, free=free
            )
        )
    )
    return head


async def test_an_append_that_is_made_again_is_found_in_its_own_session_and_under_its_own_lease(
    store: SqlStore,
) -> None:
    for whose in NEAR:
        lease = await take(store, whose)
        before = replace(lease)
        await store.append(lease, [entry(1), entry(2)])
        assert [await again(store, before, [entry(1), entry(2)]) for _ in range(2)] == [2, 2]
        with pytest.raises(LeaseLost):
            await again(store, before, [entry(1), entry(3)])
        assert await again(store, lease, [entry(3)], free=True) == 3
        assert await again(store, lease, [entry(3)], free=True) == 3
        await take(store, whose)
        with pytest.raises(LeaseLost):
            await again(store, lease, [entry(3)], free=True)
        assert len(await store.load(whose)) == 3


async def test_an_owner_that_is_dead_loses_what_it_holds_whoever_else_is_alive(store: SqlStore) -> None:
    for owner in ("a", "b", "c"):
        await store.renew(owner)
        await take(store, key(owner), owner=owner)
    await die(store, "a")
    assert [await store.acquire(key(name), "d") is not None for name in ("a", "b", "c")] == [True, False, False]
    assert [await store.cancel(key(name)) for name in ("a", "b", "c", "nobody")] == [False, True, True, False]
    assert list(await store.renew("b")) == [Cancel(key=key("b"), fence=1)]
    assert list(await store.renew("a")) == []
    await store.retire("b")
    assert await store.acquire(key("b"), "d") is not None
    assert await store.acquire(key("c"), "d") is None
    assert list(await store.renew("c")) == [Cancel(key=key("c"), fence=1)]


async def test_a_run_is_cancelled_in_its_own_session(store: SqlStore) -> None:
    await store.renew("w")
    leases = [await take(store, whose) for whose in NEAR]
    await store.append(leases[0], [run_entry("r1", "a"), end_entry("r1", "completed"), run_entry("r2", "a"), entry(1)])
    await store.append(leases[1], [run_entry("r1", "a"), entry(1)])
    await store.append(leases[2], [run_entry("r3", "a"), end_entry("r3", "completed")])
    found = {whose: [await store.cancel(whose, f"r{number}") for number in (1, 2, 3)] for whose in NEAR}
    assert found == {NEAR[0]: [False, True, False], NEAR[1]: [True, False, False], NEAR[2]: [False] * 3}
    assert sorted(each.key.user_id for each in await store.renew("w")) == ["u", "v"]


async def test_a_release_drops_an_empty_session_alone(store: SqlStore) -> None:
    await fill(store, NEAR[0])
    leases = [await take(store, whose) for whose in NEAR]
    for lease in leases[:2]:
        await store.release(lease)
    assert await run_sql(store, "SELECT id, owner, fence FROM sessions ORDER BY id") == [(1, None, 2), (3, "w", 1)]
    await store.retire("w")
    assert await run_sql(store, "SELECT id FROM sessions") == [(1,)]


async def test_a_session_is_held_against_its_own_slot(store: SqlStore) -> None:
    async def examine(row: int) -> None:
        whose = NEAR[row - 1]
        await store._backend.run(Work(do=lambda conn: store._continuity.examine(conn, whose, row)))

    for number, whose in enumerate(NEAR, 1):
        await fill(store, whose, *(entry(each) for each in range(number)))
    await store.delete(await take(store, NEAR[1]))
    for row in (1, 2, 3):
        await examine(row)
    store._anchor.note(3, 4, b"t" * 32)
    await examine(1)
    await examine(2)
    with pytest.raises(SessionPutBack):
        await examine(3)
    await run_sql(store, "DELETE FROM tombstones")
    await examine(1)
    with pytest.raises(SessionPutBack):
        await examine(2)


async def test_a_session_that_went_on_holds_what_its_slot_has_seen(store: SqlStore) -> None:
    """Another worker, with another anchor, has written to it."""
    for whose in NEAR:
        await fill(store, whose, entry(1), entry(2), entry(3))
    macs = await run_sql(store, "SELECT session, mac FROM entries WHERE seq = 2 ORDER BY session")

    def holds(row: int, mac: bytes) -> Work[bool]:
        return Work(do=lambda conn: store._continuity._holds(conn, row, 3, b"", (2, mac)))

    found = [[await store._backend.run(holds(row, mac)) for _, mac in macs] for row, _ in macs]
    assert found == [[True, False, False], [False, True, False], [False, False, True]]


async def test_the_newest_of_each_user_are_kept(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_clock(monkeypatch, 1_000)
    for user in ("u", "v"):
        for number in range(4):
            await fill(store, key(f"s{number}", user))
    assert await store.expired(before=None, keep=3, limit=9) == [key("s0"), key("s0", "v")]
    assert await store.expired(before=1_000, keep=4, limit=9) == []
    assert len(await store.expired(before=1_001, keep=4, limit=9)) == 8
    page = await store.page("u", 2)
    assert page.next is not None
    assert [each.session_id for each in page.sessions] == ["s3", "s2"]
    assert [each.session_id for each in (await store.page("u", 2, page.next)).sessions] == ["s1", "s0"]


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

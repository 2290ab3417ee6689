"""What the stores promise that several owners share: leases, heartbeats and cancels. (The store in memory knows
only its own process.)"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent_core.sessions.sql.store import SqlStore
from agent_core.sessions.store import Cancel, LeaseLost
from tests.agent_core.sessions.stores import KEY, die, entry, fill, key, opened, take, texts
from tests.entries import end_entry, run_entry


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqlStore]:
    async with opened(request.param, tmp_path) as made:
        assert isinstance(made, SqlStore)
        yield made


async def test_a_session_that_a_living_owner_holds_cannot_be_acquired_by_another(store: SqlStore) -> None:
    await store.renew("a")
    lease = await take(store, owner="a")
    assert await store.acquire(KEY, "b") is None
    await store.append(lease, [entry(1)])
    assert await store.acquire(KEY, "b") is None
    again = await take(store, owner="a")
    assert again.fence == lease.fence + 1  # those that were refused have moved nothing
    await store.release(again)
    assert (await take(store, owner="b")).head == 1


async def test_a_session_is_free_after_an_append_that_releases(store: SqlStore) -> None:
    await store.renew("a")
    await store.append(await take(store, owner="a"), [entry(1)], release=True)
    assert await store.acquire(KEY, "b") is not None


async def test_the_session_of_an_owner_that_died_is_taken_over_and_it_cannot_write_when_it_wakes_up(
    store: SqlStore,
) -> None:
    await store.renew("a")
    asleep = await take(store, owner="a")
    await store.append(asleep, [entry(1)])
    await die(store, "a")
    new = await take(store, owner="b")
    assert new.head == 1
    for _ in range(2):
        with pytest.raises(LeaseLost):
            await store.append(asleep, [entry(2)])
        with pytest.raises(LeaseLost):
            await store.delete(asleep)
        await store.release(asleep)
        await store.renew("a")  # alive again, and its lease is lost all the same
    await store.append(new, [entry(3)])
    assert await texts(store) == ["text 1", "text 3"]


async def test_an_owner_that_was_late_but_not_overtaken_goes_on(store: SqlStore) -> None:
    await store.renew("a")
    lease = await take(store, owner="a")
    await die(store, "a")
    await store.append(lease, [entry(1)])
    await store.renew("a")
    assert await store.acquire(KEY, "b") is None


async def test_a_lease_lasts_as_long_as_the_store_says(store: SqlStore) -> None:
    store._lease_seconds = -0.001
    await store.renew("a")
    await take(store, owner="a")
    assert await store.acquire(KEY, "b") is not None
    store._lease_seconds = 30
    await store.renew("b")
    assert await store.acquire(KEY, "a") is None


@pytest.mark.parametrize("before", [0, 1])
async def test_a_session_is_released_also_where_the_answer_to_an_append_was_lost(store: SqlStore, before: int) -> None:
    """The lease does not know of the new head."""
    await store.renew("a")
    lease = await take(store, owner="a")
    if before:
        await store.append(lease, [entry(0)])
    await store.append(replace(lease), [entry(1)])
    await store.release(lease)
    assert (await take(store, owner="b")).head == before + 1


async def test_what_an_owner_held_is_free_when_it_retires(store: SqlStore) -> None:
    await store.renew("a")
    lease = await take(store, owner="a")
    await store.append(lease, [entry(1)])
    await take(store, key("empty"), owner="a")
    await take(store, key("b's"), owner="b")
    await store.retire("a")
    with pytest.raises(LeaseLost):
        await store.append(lease, [entry(2)])
    assert (await take(store, owner="b")).head == 1
    assert (await take(store, key("empty"), owner="b")).head == 0


async def test_who_retires_is_not_alive_any_more_and_the_others_are(store: SqlStore) -> None:
    for owner in ("a", "b"):
        await store.renew(owner)
        await take(store, key(owner), owner=owner)
    await store.retire("a")
    assert await store.acquire(key("b"), "c") is None
    await take(store, key("a"), owner="a")  # without a heartbeat
    assert await store.acquire(key("a"), "b") is not None


async def test_a_cancel_reaches_the_owner_at_each_heartbeat_until_its_lease_ends(store: SqlStore) -> None:
    await store.renew("a")
    await store.renew("b")
    lease = await take(store, owner="a")
    await store.append(lease, [entry(1)])
    await take(store, key("other"), owner="a")
    assert await store.cancel(KEY) is True
    assert await store.cancel(KEY) is True
    for _ in range(2):
        assert list(await store.renew("b")) == []
        assert list(await store.renew("a")) == [Cancel(key=KEY, fence=lease.fence)]
    await store.release(lease)
    assert list(await store.renew("a")) == []
    await take(store, owner="a")
    assert list(await store.renew("a")) == []


async def test_a_cancel_that_names_a_run_is_for_one_that_has_begun_and_not_ended(store: SqlStore) -> None:
    await store.renew("a")
    lease = await take(store, owner="a")
    assert await store.cancel(KEY, "r1") is False
    await store.append(lease, [run_entry("r1", "a"), entry(1)])
    assert await store.cancel(KEY, "r2") is False
    assert await store.cancel(KEY, "r1") is True
    await store.append(lease, [end_entry("r1", "completed"), run_entry("r2", "a")])
    assert await store.cancel(KEY, "r1") is False
    assert await store.cancel(KEY, "r2") is True
    await store.append(lease, [run_entry("r1", "a")])
    assert await store.cancel(KEY, "r1") is True, "an id may come again"


async def test_a_dead_owner_cannot_be_asked_to_cancel(store: SqlStore) -> None:
    await store.renew("a")
    await take(store, owner="a")
    await die(store, "a")
    assert await store.cancel(KEY) is False


async def test_a_cancel_is_for_the_run_of_its_time_and_not_for_the_next(store: SqlStore) -> None:
    await store.renew("a")
    lease = await take(store, owner="a")
    assert await store.cancel(KEY) is True
    await store.append(lease, [entry(1)], release=True)
    assert await store.cancel(KEY) is False
    await take(store, owner="a")
    assert list(await store.renew("a")) == []


async def test_acquiring_again_and_again_uses_up_no_ids(store: SqlStore) -> None:
    await store.renew("a")
    await fill(store, KEY)
    for _ in range(20):
        await store.release(await take(store))
    rows = [(await take(store, key(name))).row for name in ("s", "x", "y")]
    assert rows == [1, 2, 3]


async def test_a_caller_that_gave_up_does_not_hurt_the_next(store: SqlStore) -> None:
    lease = await take(store)
    task = asyncio.create_task(store.append(lease, [entry(1)]))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # Whether it was written or not, the store is well, and a new lease sees what there is.
    lease = await take(store)
    await store.append(lease, [entry(2)])
    assert (await texts(store))[-1] == "text 2"
    assert lease.head == len(await store.load(KEY))

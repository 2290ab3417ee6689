"""Sessions that are opened and read by somebody who knows the beginning of them: what every store promises."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent_core.sessions.store import Mark, Opened, Store
from tests.agent_core.sessions.stores import KEY, entry, fill, opened, take

SHARED = pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
"""Stores that others can write to."""


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with opened(request.param, tmp_path) as made:
        yield made


async def open_it(store: Store, known: Mark | None = None) -> Opened:
    found = await store.open(KEY, "w", known)
    assert found is not None
    return found


async def test_a_session_that_is_opened_can_be_written_to(store: Store) -> None:
    await fill(store, KEY, entry(1), entry(2))
    found = await open_it(store)
    assert ([each.seq for each in found.entries], found.after, found.lease.head) == ([1, 2], 0, 2)
    await store.append(found.lease, [entry(3)], release=True)
    assert [each.seq for each in await store.load(KEY)] == [1, 2, 3]


async def test_a_new_session_is_opened_without_entries_and_leaves_no_trace(store: Store) -> None:
    found = await open_it(store)
    assert (list(found.entries), found.after, found.lease.head) == ([], 0, 0)
    await store.release(found.lease)
    assert await store.find(KEY) is None
    read = await store.read(KEY)
    assert (list(read.entries), read.after, read.mark.row, read.mark.head) == ([], 0, 0, 0)


async def test_only_what_is_behind_a_known_mark_is_read(store: Store) -> None:
    lease = await take(store)
    await store.append(lease, [entry(1), entry(2)])
    known = lease.mark
    assert [each.seq for each in (await open_it(store, known)).entries] == []
    await fill(store, KEY, entry(3))
    found, read = await open_it(store, known), await store.read(KEY, known)
    assert ([each.seq for each in found.entries], found.after, found.lease.head) == ([3], 2, 3)
    assert ([each.seq for each in read.entries], read.after, read.mark) == ([3], 2, found.lease.mark)


async def test_what_was_read_can_be_read_on_from_its_mark(store: Store) -> None:
    await fill(store, KEY, entry(1))
    mark = (await store.read(KEY)).mark
    assert list((await store.read(KEY, mark)).entries) == []
    await fill(store, KEY, entry(2))
    assert [each.seq for each in (await store.read(KEY, mark)).entries] == [2]


async def test_a_session_that_was_deleted_and_begun_again_is_read_whole(store: Store) -> None:
    await fill(store, KEY, entry(1), entry(2))
    lease = await take(store)
    known = lease.mark
    await store.delete(lease)
    await fill(store, KEY, entry(7), entry(8), entry(9))
    found, read = await open_it(store, known), await store.read(KEY, known)
    assert ([each.seq for each in found.entries], found.after) == ([1, 2, 3], 0)
    assert ([each.seq for each in read.entries], read.after) == ([1, 2, 3], 0)


async def test_a_mark_that_is_ahead_of_the_session_is_not_believed(store: Store) -> None:
    await fill(store, KEY, entry(1), entry(2))
    lease = await take(store)
    found = await open_it(store, replace(lease.mark, head=3))
    assert ([each.seq for each in found.entries], found.after) == ([1, 2], 0)


@SHARED
@pytest.mark.parametrize("behind", [0, 1])
async def test_a_mark_whose_seal_is_not_the_session_s_is_not_believed(store: Store, behind: int) -> None:
    await fill(store, KEY, entry(1), entry(2))
    lease = await take(store)
    known = replace(lease.mark, tip=b"another" * 4)
    await store.release(lease)
    if behind:
        await fill(store, KEY, entry(3))
    found = await open_it(store, known)
    assert (len(found.entries), found.after) == (found.lease.head, 0)


@SHARED
async def test_a_session_that_another_living_owner_holds_is_not_opened(store: Store) -> None:
    await store.renew("other")
    held = await take(store, owner="other")
    await store.append(held, [entry(1)])
    assert await store.open(KEY, "w") is None
    assert [each.seq for each in (await store.read(KEY)).entries] == [1]

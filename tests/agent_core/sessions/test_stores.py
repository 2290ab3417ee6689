"""What every store promises; each store that exists is held to it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_core.errors import InvalidRequest
from agent_core.messages import Message, ToolCall
from agent_core.sessions.entries import Entry
from agent_core.sessions.history import history_of
from agent_core.sessions.sql import transactions
from agent_core.sessions.store import Lease, LeaseLost, Store
from tests.agent_core.sessions.stores import KEY, entry, fill, key, names, opened, said, stop_clock, take, texts
from tests.entries import end_entry, message_entry, run_entry, titled_entry


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with opened(request.param, tmp_path) as made:
        yield made


async def test_an_unknown_session_is_empty_and_reading_it_leaves_no_trace(store: Store) -> None:
    assert list(await store.load(KEY)) == []
    lease = await take(store)
    assert (lease.head, list(await store.load(KEY))) == (0, [])
    assert await store.find(KEY) is None
    assert await names(store) == []
    await store.release(lease)
    assert (await take(store)).head == 0


async def test_entries_come_back_in_order_numbered_from_one(store: Store) -> None:
    lease = await take(store)
    await store.append(lease, [run_entry("r", "a"), entry(1)])
    await store.append(lease, [entry(2), end_entry("r", "completed")])
    entries = await store.load(KEY)
    assert [(each.seq, each.kind) for each in entries] == [(1, "run"), (2, "message"), (3, "message"), (4, "end")]
    assert lease.head == 4
    assert history_of(entries, "a").messages == [said(1), said(2)]


async def test_entries_come_back_as_they_were(store: Store) -> None:
    given = [
        Entry(run_id="r", kind="message", body=b'{"any":"\\u0000 bytes \xf0\x9f\x8e\xb5"}'),
        Entry(run_id="r:2", kind="state", body=b"", lane="call-1"),
        Entry(run_id="r", kind="message", body=bytes(range(256)) * 4000),
    ]
    await fill(store, KEY, *given)
    loaded = await store.load(KEY)
    assert [(each.run_id, each.kind, each.body, each.lane) for each in loaded] == [
        (each.run_id, each.kind, each.body, each.lane) for each in given
    ]


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
async def test_a_session_of_several_pages_comes_back_whole(
    store: Store, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "PAGE", 2)
    await fill(store, KEY, *(entry(n) for n in range(number)))
    await fill(store, KEY, entry(number))
    assert [each.seq for each in await store.load(KEY)] == list(range(1, number + 2))
    assert await texts(store) == [f"text {n}" for n in range(number + 1)]


async def test_a_session_that_is_acquired_again_goes_on_where_it_ended(store: Store) -> None:
    await fill(store, KEY, entry(1), entry(2))
    lease = await take(store)
    assert lease.head == 2
    await store.append(lease, [entry(3)])
    assert await texts(store) == ["text 1", "text 2", "text 3"]


async def test_a_writer_that_was_overtaken_cannot_write(store: Store) -> None:
    old = await take(store, owner="old")
    new = await take(store, owner="new")
    assert new.fence > old.fence
    with pytest.raises(LeaseLost):
        await store.append(old, [entry(1)])
    assert list(await store.load(KEY)) == []
    await store.append(new, [entry(2)])
    await store.release(old)  # too late: changes nothing
    await store.append(new, [entry(3)])


async def test_a_writer_that_acquired_twice_writes_under_the_later_lease_only(store: Store) -> None:
    old = await take(store)
    new = await take(store)
    with pytest.raises(LeaseLost):
        await store.append(old, [entry(1)])
    await store.append(new, [entry(2)])
    assert await texts(store) == ["text 2"]


async def test_a_session_that_was_left_empty_does_not_let_an_old_writer_in_again(store: Store) -> None:
    first = await take(store, owner="first")
    await store.release(await take(store, owner="second"))
    third = await take(store, owner="third")
    with pytest.raises(LeaseLost):
        await store.append(first, [entry(1)])
    await store.append(third, [entry(2)])


async def test_a_writer_with_an_outdated_head_cannot_write(store: Store) -> None:
    lease = await take(store)
    await store.append(lease, [entry(1)])
    lease.head = 0
    with pytest.raises(LeaseLost):
        await store.append(lease, [entry(2)])
    assert await texts(store) == ["text 1"]


async def test_what_is_refused_moves_nothing(store: Store) -> None:
    lease = await take(store)
    await store.append(lease, [entry(1)])
    new = await take(store, owner="new")
    before = await store.find(KEY)
    with pytest.raises(LeaseLost):
        await store.append(lease, [entry(2), titled_entry("r", "no")])
    assert (lease.head, await store.find(KEY)) == (1, before)
    await store.append(new, [entry(3)])


async def test_the_last_append_can_give_the_session_free(store: Store) -> None:
    lease = await take(store)
    await store.append(lease, [entry(1)])
    await store.append(lease, [entry(2)], release=True)
    with pytest.raises(LeaseLost):
        await store.append(lease, [entry(3)])
    await store.release(lease)  # nothing left to release
    assert await texts(store) == ["text 1", "text 2"]


async def test_appending_nothing_writes_nothing_but_wants_the_lease_too(store: Store) -> None:
    lease = await take(store)
    await store.append(lease, [])
    assert await store.find(KEY) is None
    await store.append(lease, [entry(1)])
    before = await store.find(KEY)
    await store.append(lease, [])
    assert await store.find(KEY) == before
    await store.append(lease, [], release=True)
    with pytest.raises(LeaseLost):
        await store.append(lease, [])


async def test_giving_an_empty_session_free_with_an_append_of_nothing_leaves_no_trace(store: Store) -> None:
    await store.append(await take(store), [], release=True)
    assert await store.find(KEY) is None
    assert (await take(store)).head == 0


async def test_users_and_sessions_are_apart(store: Store) -> None:
    for number, (user, session) in enumerate([("u", "s"), ("v", "s"), ("u", "t")]):
        await fill(store, key(session, user), entry(number))
    assert history_of(await store.load(KEY), "a").messages == [said(0)]
    assert await names(store, "v") == ["s"]
    assert await names(store, "w") == []
    assert await store.find(key("t", "v")) is None


async def test_each_agent_has_its_own_history_in_a_session_and_call_ids_are_the_session_s(store: Store) -> None:
    lease = await take(store)
    asking = Message(id="x", role="assistant", tool_calls=(ToolCall(id="c1", name="t"),))
    await store.append(lease, [entry(1), message_entry("r", "b", asking)])
    history = history_of(await store.load(KEY), "a")
    assert history.messages == [said(1)]
    assert history.call_ids == {"c1"}


async def test_a_session_is_found_with_its_title_and_times(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = await take(store)
    stop_clock(monkeypatch, 1_000)
    await store.append(lease, [entry(1)])
    stop_clock(monkeypatch, 2_000)
    await store.append(lease, [titled_entry("r", "First"), titled_entry("r", "第二 🎵")])
    await store.append(lease, [entry(2)])
    found = await store.find(KEY)
    assert found is not None
    assert (found.session_id, found.title, found.head) == ("s", "第二 🎵", 4)
    assert (found.created_at, found.updated_at) == (1_000, 2_000)


async def test_pages_begin_with_the_session_that_was_written_to_last(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at, name in enumerate(["a", "b", "c", "a"], 1_000):
        stop_clock(monkeypatch, at)
        await fill(store, key(name))
    assert await names(store) == ["a", "c", "b"]


async def test_pages_show_each_session_once_also_where_their_times_are_equal(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_clock(monkeypatch, 1_000)
    for number in range(7):
        await fill(store, key(f"s{number}"))
    seen: list[str] = []
    page = await store.page("u", 3)
    lengths = [len(page.sessions)]
    while page.next is not None:
        seen += [each.session_id for each in page.sessions]
        page = await store.page("u", 3, page.next)
        lengths.append(len(page.sessions))
    seen += [each.session_id for each in page.sessions]
    assert lengths == [3, 3, 1]
    assert seen == [f"s{number}" for number in reversed(range(7))]


async def test_a_page_that_ends_with_the_last_session_has_none_after_it(store: Store) -> None:
    for number in range(4):
        await fill(store, key(f"s{number}"))
    first = await store.page("u", 2)
    assert first.next is not None
    second = await store.page("u", 2, first.next)
    assert (len(second.sessions), second.next) == (2, None)
    assert (await store.page("nobody", 2)).sessions == ()


@pytest.mark.parametrize("after", ["", "x", "1-", "-1", "1-2-3", "1" * 17 + "-1", "1 OR 1=1-1"])
async def test_a_cursor_that_is_none_is_an_invalid_request(store: Store, after: str) -> None:
    with pytest.raises(InvalidRequest):
        await store.page("u", 3, after)


async def test_the_largest_cursor_is_read(store: Store) -> None:
    await fill(store, KEY)
    assert len((await store.page("u", 3, "9" * 16 + "-" + "9" * 18)).sessions) == 1


async def test_a_deleted_session_is_gone(store: Store) -> None:
    await fill(store, KEY, entry(1), titled_entry("r", "T"))
    await fill(store, key("other"))
    await store.delete(await take(store))
    assert await store.find(KEY) is None
    assert list(await store.load(KEY)) == []
    assert await names(store) == ["other"]
    assert await texts(store, key("other")) == ["text 1"]


async def test_the_lease_on_a_deleted_session_fits_no_later_one_of_the_same_name(store: Store) -> None:
    lease = await take(store)
    await store.append(lease, [entry(1)])
    await store.delete(lease)
    with pytest.raises(LeaseLost):
        await store.append(lease, [entry(2)])
    with pytest.raises(LeaseLost):
        await store.delete(lease)
    new = await take(store)
    assert new.head == 0
    await store.append(new, [entry(3)])
    for old_head in (0, 1):
        lease.head = old_head
        with pytest.raises(LeaseLost):
            await store.append(lease, [entry(4)])
        with pytest.raises(LeaseLost):
            await store.delete(lease)
    await store.release(lease)
    await store.append(new, [entry(5)])
    assert await texts(store) == ["text 3", "text 5"]


async def test_a_session_without_entries_can_be_deleted(store: Store) -> None:
    await store.delete(await take(store))
    assert (await take(store)).head == 0


async def test_a_writer_that_was_overtaken_cannot_delete(store: Store) -> None:
    await fill(store, KEY)
    old = await take(store, owner="old")
    await take(store, owner="new")
    with pytest.raises(LeaseLost):
        await store.delete(old)
    assert await texts(store) == ["text 1"]


async def test_sessions_expire_by_age_the_oldest_first(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for at, name in enumerate(["a", "b", "c", "d"], 1_000):
        stop_clock(monkeypatch, at)
        await fill(store, key(name, user_id=name))
    await take(store, key("unwritten"))
    assert await store.expired(before=1_000, keep=None, limit=10) == []
    assert await store.expired(before=1_003, keep=None, limit=2) == [key("a", "a"), key("b", "b")]
    assert len(await store.expired(before=9_999, keep=None, limit=10)) == 4
    assert await store.expired(before=None, keep=None, limit=10) == []


async def test_sessions_expire_beyond_so_many_of_each_user(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for at, name in enumerate(["a", "b", "c", "d"], 1_000):
        stop_clock(monkeypatch, at)
        await fill(store, key(name))
        await fill(store, key("only", user_id=name))
    assert await store.expired(before=None, keep=2, limit=10) == [key("a"), key("b")]
    assert await store.expired(before=None, keep=2, limit=1) == [key("a")]
    both = await store.expired(before=1_001, keep=2, limit=10)
    assert sorted(each.session_id for each in both) == ["a", "b", "only"]


async def test_a_store_that_is_well_says_so_and_keeps_nothing_of_it(store: Store) -> None:
    await store.check()
    await store.check()
    assert await names(store) == []


async def test_nobody_to_cancel_is_told(store: Store) -> None:
    assert await store.cancel(KEY) is False
    await fill(store, KEY)
    assert await store.cancel(KEY) is False
    assert list(await store.renew("w")) == []
    await store.retire("w")
    await store.retire("never seen")


async def test_fifty_sessions_are_written_at_once(store: Store) -> None:
    async def write(number: int) -> None:
        lease = await take(store, key(f"s{number}"))
        for each in range(4):
            await store.append(lease, [entry(each), entry(each + 100)], release=each == 3)

    await asyncio.gather(*(write(number) for number in range(50)))
    wanted = [f"text {each + more}" for each in range(4) for more in (0, 100)]
    for number in range(50):
        assert await texts(store, key(f"s{number}")) == wanted
    assert len(await names(store)) == 50


async def test_of_a_hundred_that_race_for_a_session_exactly_the_last_can_write(store: Store) -> None:
    leases = await asyncio.gather(*(take(store, owner=f"w{number}") for number in range(100)))
    assert len({lease.fence for lease in leases}) == 100
    last = max(leases, key=lambda lease: lease.fence)

    async def write(lease: Lease) -> bool:
        try:
            await store.append(lease, [entry(lease.fence)])
        except LeaseLost:
            return False
        return True

    wrote = await asyncio.gather(*map(write, leases))
    assert [lease for lease, done in zip(leases, wrote, strict=True) if done] == [last]
    assert await texts(store) == [f"text {last.fence}"]

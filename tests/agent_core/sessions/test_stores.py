"""What every store promises; each store that exists is held to it."""

from collections.abc import AsyncIterator

import pytest

from agent_core.messages import Message
from agent_core.sessions.entries import SessionKey, end_entry, history_of, message_entry, run_entry
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.store import LeaseLost, Store

KEY = SessionKey(user_id="u", session_id="s")


def said(number: int) -> Message:
    return Message(id=f"m{number}", role="user", content=f"text {number}")


@pytest.fixture(params=[InMemoryStore])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    made: Store = request.param()
    yield made
    await made.aclose()


async def test_an_unknown_session_is_empty_and_reading_it_leaves_no_trace(store: Store) -> None:
    assert list(await store.load(KEY)) == []
    lease = await store.acquire(KEY, "w")
    assert (lease.head, list(await store.load(KEY))) == (0, [])
    await store.release(lease)
    assert (await store.acquire(KEY, "w")).head == 0


async def test_entries_come_back_in_order_numbered_from_one(store: Store) -> None:
    lease = await store.acquire(KEY, "w")
    await store.append(lease, [run_entry("r", "a"), message_entry("r", "a", said(1))])
    await store.append(lease, [message_entry("r", "a", said(2)), end_entry("r", "completed")])
    entries = await store.load(KEY)
    assert [(entry.seq, entry.kind) for entry in entries] == [(1, "run"), (2, "message"), (3, "message"), (4, "end")]
    assert lease.head == 4
    assert history_of(entries, "a").messages == [said(1), said(2)]


async def test_a_writer_that_was_overtaken_cannot_write(store: Store) -> None:
    old = await store.acquire(KEY, "old")
    new = await store.acquire(KEY, "new")
    assert new.fence > old.fence
    with pytest.raises(LeaseLost):
        await store.append(old, [message_entry("r", "a", said(1))])
    assert list(await store.load(KEY)) == []
    await store.append(new, [message_entry("r", "a", said(2))])
    await store.release(old)  # too late: changes nothing
    await store.append(new, [message_entry("r", "a", said(3))])


async def test_a_session_that_was_left_empty_does_not_let_an_old_writer_in_again(store: Store) -> None:
    first = await store.acquire(KEY, "first")
    await store.release(await store.acquire(KEY, "second"))
    third = await store.acquire(KEY, "third")
    with pytest.raises(LeaseLost):
        await store.append(first, [message_entry("r", "a", said(1))])
    await store.append(third, [message_entry("r", "a", said(2))])


async def test_a_writer_with_an_outdated_head_cannot_write(store: Store) -> None:
    lease = await store.acquire(KEY, "w")
    await store.append(lease, [message_entry("r", "a", said(1))])
    lease.head = 0
    with pytest.raises(LeaseLost):
        await store.append(lease, [message_entry("r", "a", said(2))])


async def test_users_and_sessions_are_apart(store: Store) -> None:
    for number, (user, session) in enumerate([("u", "s"), ("v", "s"), ("u", "t")]):
        lease = await store.acquire(SessionKey(user_id=user, session_id=session), "w")
        await store.append(lease, [message_entry("r", "a", said(number))])
        await store.release(lease)
    assert history_of(await store.load(KEY), "a").messages == [said(0)]


async def test_each_agent_has_its_own_history_in_a_session_and_call_ids_are_the_session_s(store: Store) -> None:
    from agent_core.messages import ToolCall

    lease = await store.acquire(KEY, "w")
    asking = Message(id="x", role="assistant", tool_calls=(ToolCall(id="c1", name="t"),))
    await store.append(lease, [message_entry("r", "a", said(1)), message_entry("r", "b", asking)])
    history = history_of(await store.load(KEY), "a")
    assert history.messages == [said(1)]
    assert history.call_ids == {"c1"}

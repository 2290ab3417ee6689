"""Runs that are cut off together store what they have a few at a time, and all of them do."""

import asyncio

import pytest

from agent_core.agent import Agent
from agent_core.engine import Engine
from agent_core.names import SessionKey
from agent_core.react.turn import COPIES
from agent_core.room import Room
from agent_core.sessions.in_memory import InMemoryStore
from tests.doubles import Collected, ScriptedModel, says


async def hold(room: Room, size: int, leave: asyncio.Event, order: list[int]) -> None:
    async with room.of(size):
        order.append(size)
        await leave.wait()


async def test_who_does_not_fit_waits_and_all_go_in_the_order_in_which_they_came() -> None:
    room, order, leave = Room(100), list[int](), asyncio.Event()
    tasks = [asyncio.create_task(hold(room, size, leave, order)) for size in (60, 30, 20, 10)]
    await asyncio.sleep(0)
    assert (order, room.taken) == ([60, 30], 90), "the small one does not overtake"
    leave.set()
    await asyncio.gather(*tasks)
    assert (order, room.taken) == ([60, 30, 20, 10], 0)


async def test_who_asks_for_more_than_there_is_goes_alone() -> None:
    room, order, leave = Room(100), list[int](), asyncio.Event()
    tasks = [asyncio.create_task(hold(room, size, leave, order)) for size in (1_000, 1)]
    await asyncio.sleep(0)
    assert (order, room.taken) == ([1_000], 100)
    leave.set()
    await asyncio.gather(*tasks)
    assert room.taken == 0


async def test_who_leaves_while_it_waits_takes_nothing_with_it() -> None:
    room, order, leave = Room(100), list[int](), asyncio.Event()
    first, waiting, last = (asyncio.create_task(hold(room, size, leave, order)) for size in (100, 50, 60))
    await asyncio.sleep(0)
    waiting.cancel()
    leave.set()
    await asyncio.gather(first, last)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (order, room.taken) == ([100, 60], 0)


async def test_who_is_cancelled_in_the_moment_of_its_turn_gives_it_back() -> None:
    room, order, leave = Room(100), list[int](), asyncio.Event()
    async with room.of(100):
        second = asyncio.create_task(hold(room, 50, leave, order))
        await asyncio.sleep(0)
    assert room.taken == 50
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert (order, room.taken) == ([], 0)


async def test_answers_that_break_off_together_are_stored_a_few_at_a_time() -> None:
    text, count = "x" * 10_000, 12
    writing, most = 0, 0

    class Slow(InMemoryStore):
        async def append(self, lease, entries, *, release=False):  # type: ignore[no-untyped-def]
            nonlocal writing, most
            size = sum(len(entry.body) for entry in entries)
            writing += size
            most = max(most, writing)
            for _ in range(3):
                await asyncio.sleep(0)
            writing -= size
            await super().append(lease, entries, release=release)

    store = Slow()
    async with Engine(store=store) as engine:
        engine._runner._admission._room = Room(3 * COPIES * len(text))
        models = [ScriptedModel([[*says(text), asyncio.Event()]]) for _ in range(count)]
        runs = [
            engine.admit(Agent("a", model), "go", user_id="u", session_id=f"s{n}") for n, model in enumerate(models)
        ]
        tasks = [engine.start(run, Collected([])) for run in runs]
        for model in models:
            await model.streaming.wait()
        for run in runs:
            run.stop("disconnect")
        await asyncio.gather(*tasks)
        assert 2 * len(text) < most < 5 * len(text)
        for n in range(count):
            entries = await store.load(SessionKey(user_id="u", session_id=f"s{n}"))
            assert any(text.encode() in entry.body for entry in entries)

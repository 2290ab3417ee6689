"""The gate: no overlap, first come first served, and nothing left behind."""

import asyncio
import random

import pytest

from agent_core.errors import QueueFull, RunError, SessionBusy
from agent_core.gate import Gate
from agent_core.names import SessionKey

KEY = SessionKey(user_id="u", session_id="s")


async def test_the_first_holds_and_the_others_follow_in_their_order() -> None:
    gate = Gate()
    order: list[int] = []

    async def use(number: int) -> None:
        ticket = gate.enter(KEY, f"run{number}")
        try:
            await ticket.wait()
            order.append(number)
            await asyncio.sleep(0)
        finally:
            ticket.leave()

    await asyncio.gather(*(use(number) for number in range(9)))
    assert order == list(range(9))
    assert len(gate) == 0


async def test_different_sessions_and_users_do_not_wait_for_each_other() -> None:
    gate = Gate()
    tickets = [gate.enter(SessionKey(user_id=u, session_id=s), "r") for u in "ab" for s in "xy"]
    assert all(ticket.holds for ticket in tickets)
    for ticket in tickets:
        ticket.leave()
    assert len(gate) == 0


async def test_one_too_many_is_refused_and_leaves_no_trace() -> None:
    gate = Gate(max_waiting=2)
    tickets = [gate.enter(KEY, f"run{n}") for n in range(3)]
    with pytest.raises(QueueFull) as refused:
        gate.enter(KEY, "late")
    assert refused.value.retry_after >= 1
    for ticket in tickets:
        ticket.leave()
    assert len(gate) == 0


async def test_reject_names_the_run_that_holds() -> None:
    gate = Gate(when_busy="reject")
    holder = gate.enter(KEY, "first")
    with pytest.raises(SessionBusy) as refused:
        gate.enter(KEY, "second")
    assert refused.value.run_id == "first"
    holder.leave()
    assert gate.enter(KEY, "third").holds


async def test_waiting_too_long_ends_with_its_own_code() -> None:
    gate = Gate(wait_seconds=0.01)
    holder = gate.enter(KEY, "holder")
    waiter = gate.enter(KEY, "waiter")
    with pytest.raises(RunError) as failed:
        await waiter.wait()
    assert failed.value.code == "session_busy_timeout"
    waiter.leave()
    holder.leave()
    assert len(gate) == 0


async def test_a_waiter_that_is_cancelled_as_its_turn_comes_passes_it_on() -> None:
    gate = Gate()
    holder, waiter, last = (gate.enter(KEY, name) for name in ("holder", "waiter", "last"))
    waiting = asyncio.create_task(waiter.wait())
    patient = asyncio.create_task(last.wait())
    await asyncio.sleep(0)
    holder.leave()  # the turn is the waiter's now …
    waiting.cancel()  # … and in the same tick it is cancelled
    with pytest.raises(asyncio.CancelledError):
        await waiting
    waiter.leave()
    await patient
    assert last.holds
    last.leave()
    assert len(gate) == 0


async def test_a_waiter_that_leaves_the_middle_of_the_line_disturbs_nobody() -> None:
    gate = Gate()
    holder, middle, last = (gate.enter(KEY, name) for name in ("holder", "middle", "last"))
    middle.leave()
    middle.leave()  # again: no harm
    assert [ticket.run_id for ticket in (holder, last) if ticket.holds] == ["holder"]
    holder.leave()
    assert [ticket.run_id for ticket in (holder, last) if ticket.holds] == ["last"]
    last.leave()


async def test_20_000_users_with_cancels_never_overlap_and_leave_an_empty_registry() -> None:
    gate = Gate(max_waiting=20_000, wait_seconds=60)
    chance = random.Random(7)
    inside: dict[SessionKey, int] = {}
    served: dict[SessionKey, list[int]] = {}

    async def use(number: int, key: SessionKey) -> None:
        ticket = gate.enter(key, str(number))
        try:
            await ticket.wait()
            inside[key] = inside.get(key, 0) + 1
            assert inside[key] == 1
            served.setdefault(key, []).append(number)
            await asyncio.sleep(0)
            inside[key] -= 1
        finally:
            if inside.get(key) and served[key][-1] == number:
                inside[key] = 0  # cancelled while inside
            ticket.leave()

    keys = [SessionKey(user_id="u", session_id=str(n)) for n in range(50)]
    tasks = [asyncio.create_task(use(number, chance.choice(keys))) for number in range(20_000)]
    for _ in range(40):
        await asyncio.sleep(0)
        for task in chance.sample(tasks, 150):
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    errors = [task.exception() for task in tasks if not task.cancelled() and task.exception()]
    assert errors == []
    assert all(numbers == sorted(numbers) for numbers in served.values())
    assert sum(task.cancelled() for task in tasks) > 3_000
    assert len(gate) == 0


@pytest.mark.parametrize(
    ("wait_seconds", "max_waiting", "seconds"), [(30.0, 8, 4), (27.0, 8, 3), (0.0, 8, 1), (5.0, 0, 5)]
)
def test_who_is_refused_is_told_when_a_place_may_be_free(wait_seconds: float, max_waiting: int, seconds: int) -> None:
    gate = Gate(max_waiting=max_waiting, wait_seconds=wait_seconds)
    for number in range(max_waiting + 1):
        gate.enter(KEY, f"r{number}")
    with pytest.raises(QueueFull) as refused:
        gate.enter(KEY, "one more")
    assert refused.value.retry_after == seconds


def test_who_is_refused_is_told_which_run_holds_the_session() -> None:
    gate = Gate(when_busy="reject")
    gate.enter(KEY, "first")
    gate.enter(KEY, "rename", always=True)
    with pytest.raises(SessionBusy) as refused:
        gate.enter(KEY, "second")
    assert refused.value.run_id == "first"

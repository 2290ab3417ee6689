"""The order in which a worker gets, keeps and gives up its leases."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import MsgspecError

from agent_core.aside import Aside
from agent_core.errors import RunError
from agent_core.histories import Histories
from agent_core.names import SessionKey
from agent_core.sessions.entries import Entry
from agent_core.sessions.heartbeat import Heartbeat
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.leases import Leases
from agent_core.sessions.store import Cancel, LeaseLost
from tests.agent_core.sessions.stores import fill
from tests.app.doubles import until
from tests.safety.recording import KEY, Clock, RecordingStore, Steps, sqlite, stop_clock_of

LEASE = 30.0
HEARTBEAT = "agent_core.sessions.heartbeat"


class SlowStore(InMemoryStore):
    """A store in which each heartbeat takes some seconds. `free` is from when on others may take its sessions."""

    def __init__(self, clock: Clock, *, takes: float) -> None:
        super().__init__()
        self.clock = clock
        self.takes = takes
        self.free = 0.0
        self.broken = False
        self.beats = 0

    async def renew(self, owner: str) -> Sequence[Cancel]:
        self.beats += 1
        if self.broken:
            self.clock.forward(self.takes)
            raise RunError("store_unavailable")
        self.free = self.clock() + LEASE  # the store's answer is what takes so long
        self.clock.forward(self.takes)
        return ()


def _heartbeat(store: SlowStore, lost: list[float], *, lease_seconds: float = LEASE) -> Heartbeat:
    return Heartbeat(
        store, "w", lease_seconds, busy=lambda: True, cancel=lambda _: None, lost=lambda: lost.append(store.clock())
    )


async def test_the_clock_is_read_before_the_renewal_and_not_when_its_answer_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = stop_clock_of(monkeypatch.setattr, HEARTBEAT)
    store = SlowStore(clock, takes=9.0)
    heart = _heartbeat(store, [])
    await heart.ensure()
    clock.forward(LEASE * 2 / 3 - 9.0)
    heart.check()
    clock.forward(0.5)
    with pytest.raises(LeaseLost):
        heart.check()
    assert clock() < store.free
    await heart.aclose()


@pytest.mark.parametrize("takes", [0.0, 4.0, 9.0])
async def test_nothing_begins_under_a_lease_that_another_may_have(
    monkeypatch: pytest.MonkeyPatch, takes: float
) -> None:
    clock = stop_clock_of(monkeypatch.setattr, HEARTBEAT)
    store = SlowStore(clock, takes=takes)
    heart = _heartbeat(store, [])
    with pytest.raises(LeaseLost):
        heart.check()  # nothing was renewed yet
    await heart.ensure()
    clock.now = store.free - LEASE / 3 + 0.1
    with pytest.raises(LeaseLost):
        heart.check()  # a third of the time before others may
    await heart.aclose()


async def test_runs_are_stopped_before_others_may_take_their_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = stop_clock_of(monkeypatch.setattr, HEARTBEAT)
    store, lost = SlowStore(clock, takes=0.0), list[float]()
    # The beats are those of a short lease; the time in between is the clock's.
    heart = _heartbeat(store, lost, lease_seconds=0.03)
    await heart.ensure()
    free = clock() + 0.03
    store.takes, store.broken = 0.004, True
    await until(lambda: bool(lost))
    assert lost[0] < free
    beats = store.beats
    await until(lambda: store.beats > beats + 3)
    assert len(lost) == 1, "once"
    await heart.aclose()


async def test_a_process_that_was_stopped_takes_its_leases_for_lost_before_it_renews_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = stop_clock_of(monkeypatch.setattr, HEARTBEAT)
    store, lost = SlowStore(clock, takes=0.0), list[float]()
    heart = _heartbeat(store, lost, lease_seconds=0.03)
    await heart.ensure()
    beats = store.beats
    clock.forward(1_000.0)  # the next heartbeat is a good one, and comes too late
    await until(lambda: store.beats > beats)
    assert len(lost) == 1
    await heart.aclose()


async def test_a_lease_is_released_where_its_opening_is_cancelled(tmp_path: Path) -> None:
    store = RecordingStore(await sqlite(tmp_path))
    leases = Leases(store, "a")
    await store.renew("a")
    go_on = store.hold("opened")
    opening = asyncio.create_task(leases.open(KEY, wait=0))
    await until(lambda: "opened" in store.steps)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    go_on.set()
    await leases.aclose()
    assert store.steps.in_order("opened", "release", "released")
    assert await store.inner.acquire(KEY, "b") is not None, "another worker need not wait"
    await store.aclose()


async def test_a_lease_is_released_where_its_session_cannot_be_read(tmp_path: Path) -> None:
    store = RecordingStore(await sqlite(tmp_path))
    await store.renew("a")
    await fill(store, KEY, Entry(run_id="r", kind="message", body=b"no body"))
    with pytest.raises(MsgspecError):
        await Histories(store, Aside()).open(Leases(store, "a"), KEY, ("a", "root"), wait=0)
    assert await store.inner.acquire(KEY, "b") is not None
    await store.aclose()


async def test_a_late_acquisition_is_released_before_the_session_is_acquired_anew() -> None:
    store = RecordingStore(InMemoryStore())
    leases = Leases(store, "w")
    go_on = store.hold("opened")
    opening = asyncio.create_task(leases.open(KEY, wait=1))
    await until(lambda: "opened" in store.steps)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    again = asyncio.create_task(leases.open(KEY, wait=1))
    other = asyncio.create_task(leases.open(SessionKey(user_id="u", session_id="other"), wait=1))
    await until(lambda: store.steps.count("open") == 2)
    assert store.steps == Steps(["open", "opened", "open", "opened"]), "only the other session is acquired"
    go_on.set()
    lease = (await again).lease
    assert store.steps.index("released") < len(store.steps) - 1 - store.steps[::-1].index("open")
    await leases.writer(lease).append()
    await leases.release((await other).lease)
    await leases.release(lease)
    await leases.aclose()


async def test_signing_off_waits_for_what_is_still_being_released() -> None:
    store = RecordingStore(InMemoryStore())
    heart = Heartbeat(store, "w", LEASE, busy=lambda: False, cancel=lambda _: None, lost=lambda: None)
    leases = Leases(store, "w", heart)
    go_on = store.hold("opened")
    opening = asyncio.create_task(leases.open(KEY, wait=1))
    await until(lambda: "opened" in store.steps)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    closing = asyncio.create_task(leases.aclose())
    await asyncio.sleep(0)
    go_on.set()
    await closing
    assert store.steps.in_order("opened", "release", "released", "retire")

"""Heartbeats, and how a worker becomes a session's writer."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agent_core import Agent, Engine
from agent_core.errors import RunError
from agent_core.events import AgentEnd, AgentStart, RunFailed
from agent_core.gate import Gate
from agent_core.messages import Message
from agent_core.models.base import TextPiece
from agent_core.names import SessionKey
from agent_core.sessions import leases as leases_module
from agent_core.sessions.entries import Addition
from agent_core.sessions.heartbeat import Heartbeat
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.leases import Leases
from agent_core.sessions.store import Cancel, LeaseLost, Mark, Opened
from tests.app.doubles import until
from tests.doubles import ScriptedModel, events_of, says
from tests.entries import message_entry

KEY = SessionKey(user_id="u", session_id="s")
CANCEL = Cancel(key=KEY, fence=1)


class SharedStore(InMemoryStore):
    """A store that other workers use too: sessions can be held, heartbeats can fail, cancels can come."""

    def __init__(self) -> None:
        super().__init__()
        self.held = 0
        self.broken = False
        self.beats = 0
        self.asked: list[Cancel] = []
        self.retired: list[str] = []
        self.slow: asyncio.Event | None = None

    async def open(
        self, key: SessionKey, owner: str, known: Mark | None = None
    ) -> Opened:  # the protocol's None is what is tested
        if self.held:
            self.held -= 1
            return None  # type: ignore[return-value]
        opened = await super().open(key, owner, known)
        if self.slow is not None:
            await self.slow.wait()
        return opened

    async def renew(self, owner: str) -> Sequence[Cancel]:
        self.beats += 1
        if self.broken:
            raise RunError("store_unavailable")
        asked, self.asked = self.asked, []
        return asked

    async def retire(self, owner: str) -> None:
        self.retired.append(owner)


def _ignore(_: Cancel) -> None:
    pass


def heartbeat(store: SharedStore, lost: asyncio.Event, *, lease_seconds: float = 0.06) -> Heartbeat:
    return Heartbeat(store, "w", lease_seconds, busy=lambda: True, cancel=_ignore, lost=lost.set)


async def test_the_heart_beats_while_a_run_is_under_way_and_signs_off_at_the_end() -> None:
    store, lost = SharedStore(), asyncio.Event()
    heart = heartbeat(store, lost)
    await heart.ensure()
    await until(lambda: store.beats > 3)
    heart.check()
    assert not lost.is_set()
    await heart.aclose()
    assert store.retired == ["w"]


async def test_a_worker_that_cannot_beat_gives_its_leases_up_before_others_may_take_them() -> None:
    store, lost = SharedStore(), asyncio.Event()
    heart = heartbeat(store, lost)
    await heart.ensure()
    store.broken = True
    await lost.wait()
    with pytest.raises(LeaseLost):
        heart.check()
    store.broken = False
    lost.clear()
    beats = store.beats
    await until(lambda: store.beats > beats)
    await until(lambda: _alive(heart))
    await heart.aclose()


def _alive(heart: Heartbeat) -> bool:
    try:
        heart.check()
    except LeaseLost:
        return False
    return True


async def test_a_run_whose_worker_has_lost_its_leases_ends_as_worker_lost() -> None:
    store = SharedStore()
    model = ScriptedModel([[TextPiece("so"), asyncio.Event()]])
    async with Engine(store=store, lease_seconds=0.06) as engine:
        running = asyncio.create_task(events_of(engine, Agent("a", model), "go"))
        await model.streaming.wait()
        store.broken = True
        end = (await running)[-1]
        assert isinstance(end, RunFailed)
        assert end.code == "worker_lost"
        store.broken = False
        assert isinstance((await events_of(engine, Agent("a", ScriptedModel([says("ok")])), "go"))[-1], AgentEnd)


async def test_a_cancel_that_another_worker_left_in_the_store_stops_the_run() -> None:
    store = SharedStore()
    model = ScriptedModel([[TextPiece("so"), asyncio.Event()]])
    async with Engine(store=store, lease_seconds=0.06) as engine:
        running = asyncio.create_task(events_of(engine, Agent("a", model), "go"))
        await model.streaming.wait()
        store.asked = [Cancel(key=KEY, fence=store._sessions[KEY].fence)]
        end = (await running)[-1]
        assert isinstance(end, AgentEnd)
        assert end.status == "cancelled"


class LateStore(SharedStore):
    """Hears of a cancel at one heartbeat, and answers that one late."""

    def __init__(self) -> None:
        super().__init__()
        self.late = asyncio.Event()
        self.answer = asyncio.Event()

    async def renew(self, owner: str) -> Sequence[Cancel]:
        asked = await super().renew(owner)
        if asked:
            self.late.set()
            await self.answer.wait()
        return asked


async def test_a_cancel_is_heard_also_where_the_heartbeat_that_brings_it_is_given_up() -> None:
    store, heard, lost = LateStore(), list[Cancel](), asyncio.Event()
    heart = Heartbeat(store, "w", 0.06, busy=lambda: True, cancel=heard.append, lost=lost.set)
    await heart.ensure()
    store.asked = [CANCEL]
    await store.late.wait()
    beats = store.beats
    await until(lambda: store.beats > beats)  # the late one has timed out
    assert heard == []
    store.answer.set()
    await until(lambda: heard == [CANCEL])
    await heart.aclose()


async def test_a_session_that_another_worker_holds_is_waited_for_and_the_run_says_that_it_began() -> None:
    store = SharedStore()
    store.held = 3
    async with Engine(store=store) as engine:
        events = await events_of(engine, Agent("a", ScriptedModel([says("hi")])), "go")
        assert isinstance(events[-1], AgentEnd)


@pytest.mark.parametrize(
    ("gate", "code"),
    [(Gate(wait_seconds=0.1), "session_busy_timeout"), (Gate(when_busy="reject"), "session_busy")],
)
async def test_a_session_that_stays_held_ends_the_run_as_the_gate_would(gate: Gate, code: str) -> None:
    store = SharedStore()
    store.held = 1000
    async with Engine(store=store, gate=gate) as engine:
        end = (await events_of(engine, Agent("a", ScriptedModel([says("hi")])), "go"))[-1]
        assert isinstance(end, RunFailed)
        assert end.code == code


async def test_a_session_that_is_acquired_when_nobody_waits_any_more_is_given_free() -> None:
    store = SharedStore()
    store.slow = asyncio.Event()
    leases = Leases(store, "w")
    opening = asyncio.create_task(leases.open(KEY, wait=1))
    await until(lambda: KEY in store._sessions)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert KEY in store._sessions
    store.slow.set()
    await leases.aclose()
    assert KEY not in store._sessions, "released, and without a trace"


async def test_a_silent_store_is_unavailable_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases_module, "SAVING", 0.05)
    store = SharedStore()
    store.slow = asyncio.Event()
    leases = Leases(store, "w")
    with pytest.raises(RunError, match="store_unavailable"):
        await leases.open(KEY, wait=1)
    store.slow.set()
    await leases.aclose()


async def test_what_is_opened_holds_the_entries_as_they_stood() -> None:
    store = SharedStore()
    leases = Leases(store, "w")
    writer = leases.writer((await leases.open(KEY, wait=1)).lease)
    await writer.append()
    await writer.append(Addition(message_entry("r", "a", Message(id="m", role="user", content="hi"))))
    await leases.release(writer.lease)
    assert [entry.seq for entry in (await leases.open(KEY, wait=1)).entries] == [1]


class Paced:
    """asyncio for the leases: pauses are over at once, and the loop's clock has moved by them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    def get_running_loop(self) -> Any:
        return self

    def create_task(self, work: Any) -> Any:
        return asyncio.get_running_loop().create_task(work)

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def paced(monkeypatch: pytest.MonkeyPatch) -> Paced:
    made = Paced()
    monkeypatch.setattr(leases_module, "asyncio", made)
    return made


async def test_a_held_session_is_tried_again_ever_more_rarely_and_at_last_each_second(paced: Paced) -> None:
    store, waited = SharedStore(), list[str]()
    store.held = 8
    await Leases(store, "w").open(KEY, wait=30, waiting=lambda: waited.append("waiting"))
    assert paced.pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]
    assert waited, "and it says that it waits"


@pytest.mark.parametrize(("wait", "pauses"), [(0.15, 2), (0.34, 2), (0.35, 3), (0.04, 0)])
async def test_no_pause_is_begun_that_would_end_too_late(wait: float, pauses: int, paced: Paced) -> None:
    store = SharedStore()
    store.held = 1000
    with pytest.raises(RunError, match="session_busy_timeout"):
        await Leases(store, "w").open(KEY, wait=wait + 1e-9)
    assert len(paced.pauses) == pauses


async def test_a_run_that_waits_for_another_worker_says_that_it_began() -> None:
    store = SharedStore()
    store.held = 10**9
    async with Engine(store=store) as engine:
        stream = engine.stream_events(Agent("a", ScriptedModel([says("hi")])), "go", user_id="u", session_id="s")
        assert isinstance(await anext(stream), AgentStart)
        store.held = 0
        assert isinstance([event async for event in stream][-1], AgentEnd)


async def test_what_was_released_late_is_forgotten() -> None:
    store = SharedStore()
    store.slow = asyncio.Event()
    leases = Leases(store, "w")
    for _ in range(2):
        opening = asyncio.create_task(leases.open(KEY, wait=1))
        await until(lambda: KEY in store._sessions)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert KEY in leases._late
        store.slow.set()
        await until(lambda: not leases._late)
        store.slow.clear()


async def test_a_worker_without_a_heartbeat_loses_nothing_and_one_with_asks_it() -> None:
    store, lost = SharedStore(), asyncio.Event()
    Leases(store, "w").check()
    with pytest.raises(LeaseLost):
        Leases(store, "w", heartbeat(store, lost)).check()

"""The heart's rhythm, on a clock that only the test moves."""

import asyncio
import gc
from collections.abc import Sequence
from typing import Any

import pytest

from agent_core.errors import RunError
from agent_core.sessions import heartbeat as heartbeat_module
from agent_core.sessions.heartbeat import Heartbeat
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.store import Cancel, LeaseLost
from tests.app.doubles import until

LEASE = 30.0
BEGAN = 1_000.0


class Rhythm:
    """The heartbeat's clock, and its asyncio, in which a pause passes when the test says so."""

    def __init__(self) -> None:
        self.now = BEGAN
        self.pauses: list[float] = []
        self._passed: asyncio.Queue[None] = asyncio.Queue()
        self._over = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await self._passed.get()
        self.now += seconds

    async def pass_pause(self) -> None:
        """Let the pause that the heart makes be over, and wait for its next one."""
        await until(lambda: len(self.pauses) > self._over)
        self._over += 1
        self._passed.put_nowait(None)
        await until(lambda: len(self.pauses) > self._over)


class Beaten(InMemoryStore):
    """Notes when it was renewed, and may fail, be slow by the clock, or be silent."""

    def __init__(self, rhythm: Rhythm) -> None:
        super().__init__()
        self.beats: list[float] = []
        self.retired: list[str] = []
        self.broken = False
        self.takes = 0.0
        self.silent: asyncio.Event | None = None
        self.cut = False
        self._rhythm = rhythm

    async def renew(self, owner: str) -> Sequence[Cancel]:
        self.beats.append(self._rhythm.now - BEGAN)
        self._rhythm.now += self.takes
        if self.silent is not None:
            try:
                await self.silent.wait()
            except asyncio.CancelledError:
                self.cut = True
                raise
        if self.broken:
            raise RunError("store_unavailable")
        return ()

    async def retire(self, owner: str) -> None:
        self.retired.append(owner)


class Heart:
    """A heartbeat with all that it is given."""

    def __init__(self, rhythm: Rhythm) -> None:
        self.rhythm = rhythm
        self.store = Beaten(rhythm)
        self.busy = True
        self.lost: list[float] = []
        self.heart = Heartbeat(
            self.store,
            "w",
            LEASE,
            busy=lambda: self.busy,
            cancel=lambda _: None,
            lost=lambda: self.lost.append(rhythm.now - BEGAN),
        )


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Heart:
    rhythm = Rhythm()
    monkeypatch.setattr(heartbeat_module, "monotonic", rhythm.monotonic)
    monkeypatch.setattr(heartbeat_module, "asyncio", rhythm)
    return Heart(rhythm)


async def test_it_beats_each_third_of_the_lease_time(made: Heart) -> None:
    await made.heart.ensure()
    for _ in range(3):
        await made.rhythm.pass_pause()
    assert made.store.beats == [0, 10, 20, 30]
    assert made.rhythm.pauses == [10, 10, 10, 10]
    assert made.lost == []
    await made.heart.aclose()


async def test_it_stops_where_nobody_is_busy_and_begins_anew_for_the_next_run(made: Heart) -> None:
    await made.heart.ensure()
    made.busy = False
    await until(lambda: made.rhythm.pauses == [10])
    made.rhythm._passed.put_nowait(None)
    await until(lambda: made.heart._task is not None and made.heart._task.done())
    made.rhythm._over, made.busy = 1, True
    made.rhythm.now = BEGAN + 100
    await made.heart.ensure()
    assert made.lost == [], "nobody held anything"
    await made.rhythm.pass_pause()
    assert made.store.beats == [0, 100, 110]
    await made.heart.aclose()


async def test_a_run_that_begins_within_a_third_of_the_last_beat_needs_none(made: Heart) -> None:
    await made.heart.ensure()
    made.rhythm.now += 10
    await made.heart.ensure()
    assert made.store.beats == [0]
    made.rhythm.now += 0.5
    await made.heart.ensure()
    assert made.store.beats == [0, 10.5]
    await made.heart.aclose()


async def test_a_beat_that_fails_is_tried_again_ten_times_as_often_until_the_leases_are_lost_once(made: Heart) -> None:
    await made.heart.ensure()
    made.store.broken = True
    while made.rhythm.now - BEGAN < 20:
        made.heart.check()
        await made.rhythm.pass_pause()
    assert made.store.beats == [0, *range(10, 21)]
    assert made.rhythm.pauses == [10, *[1] * 11]
    made.heart.check()
    assert made.lost == [], "not yet: two thirds are not over"
    for _ in range(3):
        await made.rhythm.pass_pause()
    assert made.lost == [21]
    with pytest.raises(LeaseLost):
        made.heart.check()
    made.store.broken = False
    await made.rhythm.pass_pause()
    made.heart.check()
    assert made.lost == [21]
    made.store.broken = True
    for _ in range(14):
        await made.rhythm.pass_pause()
    assert len(made.lost) == 2, "lost again"
    await made.heart.aclose()


async def test_leases_are_lost_as_soon_as_a_slow_beat_has_failed(made: Heart) -> None:
    await made.heart.ensure()
    made.store.broken, made.store.takes = True, 5.5
    await made.rhythm.pass_pause()
    assert made.lost == []
    await made.rhythm.pass_pause()
    assert made.lost == [22], "10, 5.5 for a beat that fails, a pause of 1, and 5.5 for another"
    await made.heart.aclose()


async def test_a_heart_that_never_beat_has_nothing_to_sign_off(made: Heart) -> None:
    await made.heart.aclose()
    assert made.store.retired == []


async def test_a_heart_that_is_closed_beats_no_more(made: Heart) -> None:
    await made.heart.ensure()
    await until(lambda: bool(made.rhythm.pauses))
    await made.heart.aclose()
    assert made.heart._task is not None
    assert made.heart._task.cancelled()
    assert made.store.retired == ["w"]


async def test_a_worker_that_tried_to_beat_signs_off_since_it_may_have_been_heard(made: Heart) -> None:
    made.store.broken = True
    with pytest.raises(RunError):
        await made.heart.ensure()
    await made.heart.aclose()
    assert made.store.retired == ["w"]


async def test_a_beat_without_an_answer_is_broken_off_before_the_worker_signs_off(made: Heart) -> None:
    made.store.silent = asyncio.Event()
    beating = asyncio.create_task(made.heart.ensure())
    await until(lambda: made.store.beats == [0])
    beating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beating
    assert not made.store.cut, "it may still bring a cancel"
    await made.heart.aclose()
    await until(lambda: made.store.cut)
    assert not made.heart._renewing


async def test_a_beat_that_fails_when_nobody_waits_for_it_any_more_is_not_reported_as_forgotten(made: Heart) -> None:
    reported: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    made.store.silent, made.store.broken = asyncio.Event(), True
    beating = asyncio.create_task(made.heart.ensure())
    await until(lambda: made.store.beats == [0])
    beating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beating
    made.store.silent.set()
    await until(lambda: not made.heart._renewing)
    gc.collect()
    await asyncio.sleep(0)
    assert reported == []
    await made.heart.aclose()

"""Nothing that is accepted holds the event loop for long: the heaviest requests that there are, by CPU time."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest

from agent_core import Agent, Engine
from agent_core.names import SessionKey
from agent_core.react.scope import Nowhere
from app.settings import Settings
from tests.doubles import ScriptedModel, says
from tests.entries import end_entry, run_entry, state_entry
from tests.live.heavy import SESSIONS, Sent, heavy_agents, heavy_cases
from tests.postgres import fresh_database
from tests.serving import serving
from tests.turns import LONGEST_TURN, Turns, collected_as_served, each_time, watched

CASES = dict(heavy_cases())


async def turns_of(sent: Sequence[Sent], settings: Settings) -> list[tuple[float, object]]:
    """The turns that took too long, each with the request that was under way."""
    now: list[str] = []
    async with serving(*heavy_agents(), settings=settings) as up, watched(lambda: now[-1:]) as turns:
        for each in sent:
            now.append(f"{each.method} {each.path}")
            await asyncio.to_thread(each.to, up.port)
    assert turns.looks > len(sent)
    return turns.too_long


def hold_nobody(sent: Sequence[Sent], store: str, folder: Path) -> None:
    uvloop = pytest.importorskip("uvloop")

    def too_long() -> list[tuple[float, object]]:
        with empty(store, folder) as settings, collected_as_served():
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                return runner.run(turns_of(sent, settings))

    assert each_time(too_long) == []


@contextmanager
def empty(store: str, folder: Path) -> Iterator[Settings]:
    """Such a store, with nothing in it."""
    data = Path(mkdtemp(dir=folder))
    if store != "postgres":
        yield Settings(store=store, data_dir=data)
        return
    with fresh_database() as url:
        yield Settings(store=url, data_dir=data)


@pytest.mark.parametrize("name", CASES)
def test_the_heaviest_that_is_accepted_holds_up_nobody(name: str, tmp_path: Path) -> None:
    hold_nobody(CASES[name], "sqlite", tmp_path)


@pytest.mark.parametrize("store", ["memory", "postgres"])
@pytest.mark.parametrize("name", SESSIONS)
def test_nor_does_a_long_session_in_another_store(name: str, store: str, tmp_path: Path) -> None:
    hold_nobody(CASES[name], store, tmp_path)


def test_an_old_session_whose_patches_move_long_lists_can_be_read() -> None:
    """Such a one is refused today; it may have been brought in before."""
    inserts = [{"op": "add", "path": "/0", "value": 0} for _ in range(2_400)]

    async def too_long() -> list[tuple[float, object]]:
        async with Engine() as engine:
            lease = await engine.store.acquire(SessionKey(user_id="u", session_id="s"), "o")
            assert lease is not None
            entries = [run_entry("r", "a"), state_entry("r", value=[]), end_entry("r", "completed")]
            patches = [state_entry("r", patch=inserts) for _ in range(50)]
            await engine.store.append(lease, [*entries, *patches], release=True)
            run = engine.admit(Agent("a", ScriptedModel([says("hi")])), "hello", user_id="u", session_id="s")
            with collected_as_served():
                async with watched() as turns:
                    await engine.start(run, Nowhere())
        assert run.state == [0] * 120_000
        return turns.too_long

    assert each_time(lambda: asyncio.run(too_long())) == []


async def test_a_turn_that_is_too_long_would_be_noticed_on_the_loop_and_in_its_threads() -> None:
    def work(turns: Turns) -> int:
        before, count = turns.looks, 0
        for number in range(30_000_000):
            count += number & 1
        return before

    async with watched(lambda: "this") as turns:
        work(turns)
        await asyncio.sleep(0.01)
        assert turns.worst > LONGEST_TURN
        assert turns.too_long[0][1] == "this"
        turns.forget()
        assert turns.too_long == []

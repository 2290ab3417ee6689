"""The registry: runs are known by name while they are kept, and never more of them than there may be."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent_core import Agent, Engine
from agent_core.messages import Message, new_id
from agent_core.run_input import RunInput
from app.runs.log import RUN
from app.runs.registry import Runs
from app.runs.run import Manner, ServedRun
from app.settings import Settings
from tests.app.doubles import until
from tests.app.runs.test_log import there
from tests.app.runs.test_run import read, status_of
from tests.doubles import ScriptedModel, Step, says

KEPT = Manner(keep=True, timed=True)


@asynccontextmanager
async def runs(*steps: Step, **settings: float) -> AsyncIterator[tuple[Runs, Agent, ScriptedModel]]:
    model = ScriptedModel(steps)
    async with Engine() as engine:
        registry = Runs(engine, Settings(**settings))  # type: ignore[arg-type]
        yield registry, Agent("a", model), model
        await registry.aclose()


def start(
    registry: Runs, agent: Agent, run_id: str = "r", session_id: str = "s", manner: Manner = KEPT, user_id: str = "u"
) -> ServedRun:
    given = RunInput(messages=(Message(id=new_id("m"), role="user", content="go"),))
    return registry.start(agent, given, user_id=user_id, session_id=session_id, run_id=run_id, manner=manner)


async def finish(run: ServedRun) -> None:
    attached = run.attach()
    await read(attached)
    attached.leave()
    await run.task
    await asyncio.sleep(0)


async def test_a_run_is_known_by_its_user_session_and_id_while_it_lasts_and_afterwards() -> None:
    async with runs(says("hi")) as (registry, agent, _):
        run = start(registry, agent)
        assert registry.find("u", "s", "r") is run
        await finish(run)
        assert registry.find("u", "s", "r") is run
        assert len(registry) == 0
        for name in (("v", "s", "r"), ("u", "t", "r"), ("u", "s", "q")):
            assert registry.find(*name) is None


async def test_a_run_that_is_not_kept_is_known_only_while_it_lasts() -> None:
    async with runs(says("hi")) as (registry, agent, _):
        run = start(registry, agent, manner=Manner())
        assert registry.find("u", "s", "r") is run
        await finish(run)
        assert registry.find("u", "s", "r") is None
        assert len(registry.retention) == 0


async def test_after_its_time_a_run_is_forgotten_with_its_events() -> None:
    async with runs(says("hi"), log_seconds=0.01) as (registry, agent, _):
        made = [start(registry, agent, session_id=f"s{n}") for n in range(5)]
        for run in made:
            await finish(run)
        await until(lambda: len(registry.retention) == 0)
        assert registry._known == {}
        assert registry.retention.weight == 0
        assert all(there(run.log) == 0 for run in made), "although somebody holds them"


async def test_a_run_without_a_time_stays_until_it_is_dropped() -> None:
    async with runs(says("hi"), log_seconds=0.01) as (registry, agent, _):
        stays, goes = start(registry, agent, "stays", "s1", Manner(keep=True)), start(registry, agent, "goes", "s2")
        await finish(stays)
        await finish(goes)
        await until(lambda: registry.find("u", "s2", "goes") is None)
        assert registry.find("u", "s1", "stays") is stays
        stays.drop()
        assert registry.find("u", "s1", "stays") is None
        assert registry.retention.weight == 0


async def test_where_all_logs_weigh_too_much_the_oldest_run_that_has_ended_goes_first() -> None:
    async with runs(says("x" * 30_000), log_bytes=210_000) as (registry, agent, _):
        made = []
        for n in range(6):
            made.append(start(registry, agent, session_id=f"s{n}"))
            await finish(made[n])
            assert registry.retention.weight <= 210_000
        assert [registry.find("u", f"s{n}", "r") is not None for n in range(6)] == [False] * 3 + [True] * 3
        assert [there(run.log) > 0 for run in made] == [False] * 3 + [True] * 3


async def test_a_run_that_said_little_counts_with_what_it_takes_itself() -> None:
    async with runs(says("hi"), log_bytes=20_000) as (registry, agent, _):
        for number in range(20):
            await finish(start(registry, agent, session_id=f"s{number}"))
        assert len(registry.retention) <= 20_000 // RUN
        assert registry.find("u", "s19", "r") is not None


async def test_where_only_live_runs_are_left_the_largest_log_is_trimmed() -> None:
    never = asyncio.Event()
    steps: list[Step] = [
        [*says(letter * size), never] for letter, size in zip("xyz", (60_000, 20_000, 60_000), strict=True)
    ]
    async with runs(*steps, log_bytes=100_000) as (registry, agent, model):
        made = []
        for number in range(3):
            model.streaming.clear()
            made.append(start(registry, agent, session_id=f"s{number}"))
            made[-1].attach()
            await model.streaming.wait()
        assert [run.log.whole for run in made].count(False) == 1
        assert made[1].log.whole
        trimmed = next(run for run in made if not run.log.whole)
        snapshot = trimmed.attach().source.missed()
        assert snapshot is not None


async def test_an_id_that_comes_again_is_the_latest_attempts() -> None:
    async with runs(says("one"), says("two")) as (registry, agent, _):
        first = start(registry, agent)
        await finish(first)
        second = start(registry, agent)
        assert registry.find("u", "s", "r") is second
        await finish(second)
        assert registry.find("u", "s", "r") is second
        assert there(first.log) == 0
        assert len(registry.retention) == 1


async def test_an_earlier_attempt_that_ends_later_does_not_come_back() -> None:
    go_on = asyncio.Event()
    async with runs([go_on, *says("one")], says("two")) as (registry, agent, model):
        first = start(registry, agent)
        reading = asyncio.create_task(finish(first))
        await model.streaming.wait()
        second = start(registry, agent)
        go_on.set()
        await reading
        assert status_of(first) == "completed"
        assert registry.find("u", "s", "r") is second
        await finish(second)
        assert len(registry.retention) == 1


async def test_nothing_is_left_of_runs_that_were_forgotten() -> None:
    async with runs(says("hi"), log_seconds=0) as (registry, agent, _):
        gone = []
        for number in range(20):
            run = start(registry, agent, session_id=f"s{number}")
            gone.append(weakref.ref(run))
            await finish(run)
        del run
        await until(lambda: len(registry.retention) == 0)
        gc.collect()
        assert [each() for each in gone] == [None] * 20

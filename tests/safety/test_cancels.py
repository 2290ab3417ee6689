"""A cancel through the store reaches the run that it was meant for, and no other."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from agent_core import Agent, Engine
from agent_core.events import AgentEnd
from agent_core.models.base import TextPiece
from agent_core.sessions.sql.postgres import PostgresBackend
from agent_core.sessions.sql.store import SqlStore
from agent_core.sessions.sql.work import Work
from agent_core.sessions.store import Cancel
from tests.agent_core.sessions.stores import opened, take
from tests.app.doubles import until
from tests.doubles import ScriptedModel
from tests.entries import run_entry
from tests.safety.recording import KEY, RecordingStore


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqlStore]:
    async with opened(request.param, tmp_path) as made:
        assert isinstance(made, SqlStore)
        yield made


class Worker:
    """An engine on a store that it shares, with an agent that says nothing until it is let. Its heart beats when the
    test says so."""

    def __init__(self, store: SqlStore) -> None:
        self.store = RecordingStore(store)
        self.engine = Engine(store=self.store)
        self.models: list[ScriptedModel] = []
        self.lets: list[asyncio.Event] = []

    async def begin(self, run_id: str) -> "asyncio.Task[AgentEnd]":
        """Start a run; return when its model is asked."""
        self.lets.append(asyncio.Event())
        self.models.append(ScriptedModel([[TextPiece("so"), self.lets[-1]]]))
        running = asyncio.create_task(self._run(Agent("a", self.models[-1]), run_id))
        await self.models[-1].streaming.wait()
        return running

    async def beat(self) -> None:
        await self.engine._runner.heartbeat._renew()

    async def _run(self, agent: Agent, run_id: str) -> AgentEnd:
        stream = self.engine.stream_events(agent, "go", user_id="u", session_id="s", run_id=run_id)
        end = [event async for event in stream][-1]
        assert isinstance(end, AgentEnd)
        return end


async def test_an_interrupt_of_another_worker_s_run_does_not_stop_the_run_behind_it(store: SqlStore) -> None:
    one, two = Worker(store), Worker(store)
    first = await one.begin("r1")
    go_on = two.store.hold("cancel")
    asked = asyncio.create_task(two.engine.interrupt(user_id="u", session_id="s", run_id="r1"))
    await until(lambda: "cancel" in two.store.steps)
    one.lets[0].set()
    assert (await first).status == "completed"
    second = await one.begin("r2")
    go_on.set()
    assert await asked is False
    await one.beat()
    one.lets[1].set()
    assert (await second).status == "completed"
    await one.engine.aclose()
    await two.engine.aclose()


async def test_a_cancel_that_is_heard_late_does_not_stop_the_run_behind_the_one_that_it_was_for(
    store: SqlStore,
) -> None:
    one, two = Worker(store), Worker(store)
    first = await one.begin("r1")
    go_on = one.store.hold("heard")
    assert await two.engine.interrupt(user_id="u", session_id="s", run_id="r1") is True
    beating = asyncio.create_task(one.beat())
    await until(lambda: "heard" in one.store.steps)
    one.lets[0].set()
    assert (await first).status == "completed"
    second = await one.begin("r2")
    go_on.set()
    await beating
    await one.beat()
    one.lets[1].set()
    assert (await second).status == "completed"
    await one.engine.aclose()
    await two.engine.aclose()


async def test_a_run_is_interrupted_through_another_worker(store: SqlStore) -> None:
    one, two = Worker(store), Worker(store)
    for run_id in ("r1", None):
        running = await one.begin("r1")
        assert await two.engine.interrupt(user_id="u", session_id="s", run_id=run_id) is True
        await one.beat()
        assert (await running).status == "cancelled"
    assert await two.engine.interrupt(user_id="u", session_id="s", run_id="r1") is False
    await one.engine.aclose()
    await two.engine.aclose()


async def test_a_renewal_that_is_done_again_loses_no_cancel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL has committed the first, and its answer was lost with the connection."""
    async with opened("postgres", tmp_path) as store:
        assert isinstance(store, SqlStore)
        backend = store._backend
        assert isinstance(backend, PostgresBackend)
        await store.renew("w")
        lease = await take(store)
        await store.append(lease, [run_entry("r", "a")])
        assert await store.cancel(KEY) is True
        once, tries = backend._once, list[Work[Any]]()

        async def cut(work: Work[Any]) -> Any:
            tries.append(work)
            result = await once(work)
            if len(tries) == 1:
                raise DBAPIError("COMMIT", None, OSError("gone"), connection_invalidated=True)
            return result

        monkeypatch.setattr(backend, "_once", cut)
        assert list(await store.renew("w")) == [Cancel(key=KEY, fence=lease.fence)]
        assert len(tries) == 2

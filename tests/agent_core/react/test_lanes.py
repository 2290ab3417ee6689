"""Two lanes of one run that only emit and append."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from agent_core import Agent, Engine
from agent_core.errors import RunError
from agent_core.events import Custom, Event
from agent_core.messages import Message
from agent_core.react.lane import Lane
from agent_core.run import Run
from agent_core.sessions.entries import body_of
from agent_core.sessions.kinds import MessageBody
from agent_core.sessions.store import LeaseLost, Store
from tests.agent_core.sessions.stores import KEY, opened, take
from tests.doubles import Collected, ScriptedModel, says

EACH = 40
"""What each lane says."""


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store, None]:
    async with opened(request.param, tmp_path) as store:
        yield store


async def held(engine: Engine, events: list[Event]) -> Run:
    """A run that has its session, and does nothing of its own."""
    run = engine.admit(Agent("parent", ScriptedModel([says("hi")])), "go", user_id="u", session_id="s")
    run.lane.attach(Collected(events))
    run.lane.scope.acquire(await engine._runner.histories.open(engine._runner._leases, KEY, ("parent", "root"), wait=1))
    run.lane.begin_on(run.lane.scope.writing.fold.standing)
    return run


def lane_of(run: Run, lane_id: str) -> Lane:
    """A lane for a subagent, in the run's own scope."""
    agent = Agent("child", run.agent.model)
    lane = Lane(scope=run.lane.scope, id=lane_id, agent=agent, model=run.lane.model, input=run.input)
    lane.begin_on(run.lane.scope.writing.fold.standing)
    return lane


async def talk(lane: Lane) -> None:
    for number in range(EACH):
        lane.emit(Custom, name="said", value=number)
        await lane.commit(Message(id=f"{lane.id}-{number}", role="assistant", content=str(number)))
        await asyncio.sleep(0)


async def test_two_lanes_append_side_by_side_under_one_lease(store: Store) -> None:
    events: list[Event] = []
    async with Engine(store=store) as engine:
        run = await held(engine, events)
        lanes = run.lane, lane_of(run, "call_1")
        await asyncio.gather(*(talk(lane) for lane in lanes))
        writer = run.lane.scope.writing
        assert writer.lease.head == 2 * EACH
        entries = await store.load(KEY)
        assert [entry.seq for entry in entries] == list(range(1, 2 * EACH + 1))
        for lane in lanes:
            said = [body_of(entry) for entry in entries if entry.lane == lane.id]
            told = [event for event in events if event.lane == lane.id]
            assert [body.message.text for body in said if isinstance(body, MessageBody)] == [*map(str, range(EACH))]
            assert {body.agent for body in said if isinstance(body, MessageBody)} == {lane.agent.name}
            assert [event.value for event in told if isinstance(event, Custom)] == [*range(EACH)]
            assert [message.text for message in lane.history.messages] == [*map(str, range(EACH))]
        assert {event.run_id for event in events} == {run.run_id}
        assert [event.at for event in events] == sorted(event.at for event in events)
        assert events[0].at > 0
        assert [entry.lane for entry in entries] != sorted(entry.lane for entry in entries), "they took turns"
        await writer.append(release=True)
        run.lane.scope.ticket.leave()


async def test_a_lane_whose_lease_is_lost_stores_nothing_and_neither_does_the_other(store: Store) -> None:
    async with Engine(store=store) as engine:
        run = await held(engine, [])
        lanes = run.lane, lane_of(run, "call_1")
        await talk(lanes[0])
        await store.release(run.lane.scope.writing.lease)
        await take(store, owner="another")
        for lane in lanes:
            with pytest.raises(RunError) as lost:
                await talk(lane)
            assert lost.value.code == LeaseLost().code
        assert [message.id for message in lanes[1].history.messages] == []
        assert len(await store.load(KEY)) == EACH
        run.lane.scope.ticket.leave()


async def test_what_one_lane_defers_is_stored_with_what_the_other_appends() -> None:
    async with Engine() as engine:
        run = await held(engine, [])
        child = lane_of(run, "call_1")
        child.defer(Message(id="m1", role="assistant", content="later"))
        assert not await engine.store.load(KEY)
        await run.lane.commit(Message(id="m2", role="assistant", content="now"))
        assert [entry.lane for entry in await engine.store.load(KEY)] == ["call_1", "root"]
        run.lane.scope.ticket.leave()

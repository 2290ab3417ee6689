"""A served run: it goes on as long as somebody reads it, and a while longer for a client that comes again."""

import asyncio
import weakref
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from agent_core import Agent, Engine
from agent_core.errors import ModelError
from agent_core.events import AgentEnd, Event, RunFailed, TextDelta
from app.runs.run import Attached, Manner, OnDisconnect, ServedRun
from tests.agent_core.react.agents import add
from tests.app.runs.test_log import there
from tests.doubles import ScriptedModel, Step, calls, says


@asynccontextmanager
async def served(
    *steps: Step, keep: bool = True, seconds: float = 60, on_disconnect: OnDisconnect = "cancel"
) -> AsyncIterator[tuple[ServedRun, ScriptedModel]]:
    """A run on an engine of its own, started and not yet read."""
    model = ScriptedModel(steps)
    agent = Agent("a", model, tools=[add], max_retries=0)
    async with Engine() as engine:
        run = engine.admit(agent, "go", user_id="u", session_id="s")
        yield ServedRun(engine, run, seconds, Manner(keep=keep, on_disconnect=on_disconnect)), model


async def read(attached: Attached) -> list[Event]:
    """Everything to the end of the log."""
    events: list[Event] = []
    while batch := await attached.source.batch():
        events += batch
    return events


def text_of(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def status_of(run: ServedRun) -> str:
    end = run.end
    assert end is not None
    return end.code if isinstance(end, RunFailed) else end.status


async def passed(seconds: float) -> None:
    """Come back when the loop has run every timer that was set for so many seconds before."""
    reached = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, reached.set)
    await reached.wait()


async def test_a_run_that_is_read_ends_by_itself() -> None:
    async with served(says("hi")) as (run, _):
        attached = run.attach()
        assert run.end is None
        events = await read(attached)
        attached.leave()
        await run.task
        assert text_of(events) == "hi"
        assert status_of(run) == "completed"
        assert isinstance(events[-1], AgentEnd)


async def test_the_last_reader_that_leaves_cancels_the_run() -> None:
    async with served([asyncio.Event()]) as (run, model):
        attached = run.attach()
        await model.streaming.wait()
        attached.leave()
        await run.task
        assert status_of(run) == "cancelled"
        assert model.closed == 1


async def test_a_run_with_another_reader_goes_on() -> None:
    go_on = asyncio.Event()
    async with served([go_on, *says("hi")]) as (run, model):
        first, second = run.attach(), run.attach()
        await model.streaming.wait()
        first.leave()
        first.leave()  # the second time changes nothing, so that the other reader still counts
        go_on.set()
        assert text_of(await read(second)) == "hi"
        await run.task
        assert status_of(run) == "completed"


async def test_where_runs_go_on_the_last_reader_that_leaves_stops_nothing() -> None:
    go_on = asyncio.Event()
    async with served([go_on, *says("hi")], on_disconnect="continue") as (run, model):
        attached = run.attach()
        await model.streaming.wait()
        attached.leave()
        go_on.set()
        await run.task
        assert status_of(run) == "completed"
        assert text_of(await read(run.attach())) == "hi"


async def test_a_run_that_has_ended_keeps_its_log_and_lets_go_of_the_rest() -> None:
    async with served(calls(("add", '{"a":1,"b":2}')), says("3")) as (run, _):
        await read(run.attach())
        await run.task
        await asyncio.sleep(0)
        assert run._run is None
        assert run.acted
        assert run.waiting == ()
        gone = weakref.ref(run.log)
        dropped = []
        run.when_dropped(lambda: dropped.append(run.run_id))
        run.drop()
        run.drop()
        assert dropped == [run.run_id]
        held = gone()
        assert held is not None
        assert (there(held), held.size, held.whole) == (0, 0, False), "although somebody holds the run"


async def test_a_kept_run_is_read_again_from_its_first_event_on() -> None:
    async with served(says("a", "b")) as (run, _):
        first = run.attach()
        events = await read(first)
        first.leave()
        await run.task
        again = run.attach()
        assert await read(again) == events
        again.leave()
        assert status_of(run) == "completed"


async def test_a_run_that_lingers_is_cancelled_when_nobody_came() -> None:
    async with served([asyncio.Event()]) as (run, model):
        attached = run.attach()
        await model.streaming.wait()
        run.detach(attached.source, linger=0.01)
        assert run.end is None
        await run.task
        assert status_of(run) == "cancelled"


async def test_whoever_comes_while_a_run_lingers_keeps_it_alive() -> None:
    go_on = asyncio.Event()
    async with served([go_on, *says("hi")]) as (run, model):
        first = run.attach()
        await model.streaming.wait()
        run.detach(first.source, linger=0.01)
        second = run.attach()
        await passed(0.02)
        go_on.set()
        assert text_of(await read(second)) == "hi"
        await run.task
        assert status_of(run) == "completed"


async def test_a_lingering_run_ends_by_itself_although_nobody_reads_it() -> None:
    go_on = asyncio.Event()
    async with served([go_on, *says("hi")]) as (run, model):
        first = run.attach()
        await model.streaming.wait()
        run.detach(first.source, linger=60)
        go_on.set()
        await run.task
        assert status_of(run) == "completed"
        assert text_of(await read(run.attach())) == "hi", "what nobody read was kept"


async def test_a_client_that_leaves_at_its_own_time_out_is_waited_for() -> None:
    go_on = asyncio.Event()
    async with served([go_on, *says("hi")]) as (run, model):
        attached = run.attach()
        attached.patience = 5.0
        attached.since -= 4.6
        await model.streaming.wait()
        attached.leave()
        go_on.set()
        await run.task
        assert status_of(run) == "completed"


async def test_a_client_that_leaves_before_its_time_out_has_stopped_the_run() -> None:
    async with served([asyncio.Event()]) as (run, model):
        attached = run.attach()
        attached.patience = 600.0
        await model.streaming.wait()
        attached.leave()
        await run.task
        assert status_of(run) == "cancelled"


async def test_a_run_that_takes_too_long_fails_with_the_deadline() -> None:
    async with served([asyncio.Event()], seconds=0.01) as (run, _):
        attached = run.attach()
        events = await read(attached)
        assert isinstance(events[-1], RunFailed)
        assert events[-1].code == "run_deadline"


async def test_a_drained_run_fails_as_draining() -> None:
    async with served([asyncio.Event()]) as (run, model):
        run.attach()
        await model.streaming.wait()
        run.drain()
        await run.task
        assert status_of(run) == "draining"


async def test_a_run_has_acted_once_a_tool_began() -> None:
    async with served(calls(("add", '{"a":1,"b":2}')), [ModelError("model_unreachable")]) as (run, _):
        await read(run.attach())
        await run.task
        assert run.acted
    async with served([ModelError("model_unreachable")]) as (run, _):
        await read(run.attach())
        await run.task
        assert not run.acted

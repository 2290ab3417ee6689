"""Two servers on one PostgreSQL database: one gate for both, and a stop that reaches the other one."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from time import monotonic

import httpx

from agent_core.names import SessionKey
from agent_core.sessions.entries import Entry
from agent_core.sessions.store import Store
from tests.faults.client import asking, calling, finish, follow, streaming
from tests.faults.ledger import Ear, Ledger, check_effects
from tests.faults.pauses import Pair, make_pair
from tests.serving import Frame

LEASE = 3.0
"""Seconds; a heartbeat is a third of it."""


async def run_through_both(folder: Path, url: str, rounds: int) -> list[float]:
    """Seconds from each interrupt to the end of its run. Raises AssertionError for whatever is not as it must be."""
    ledger, times = Ledger(), []
    async with AsyncExitStack() as stack:
        pair = await make_pair(stack, folder, url, LEASE)
        one = await stack.enter_async_context(calling(pair.one.url))
        two = await stack.enter_async_context(calling(pair.two.url))
        for number in range(rounds):
            await _queue(pair, one, two, f"q{number}", ledger)
            times.append(await _interrupt(pair, one, two, f"i{number}", ledger))
        for session in ledger.sessions:
            await ledger.check_store(session, pair.store, settled=True)
        await pair.verify()
        check_effects(pair.effects, ledger)
    return times


async def _queue(pair: Pair, one: httpx.AsyncClient, two: httpx.AsyncClient, session: str, ledger: Ledger) -> None:
    """A run of a session that the other server holds says that it began, waits, and then runs."""
    first = asking(f"mark hold:{session} say:3", thread=session)
    second = asking("mark say:3", thread=session)
    running = asyncio.create_task(finish(one, first, ledger))
    await pair.gate.arrived(session)
    ear = Ear(ledger.of(session), second, waits=True)
    async with streaming(two, second) as frames:
        ear.hear(await anext(frames))
        assert not running.done()
        assert second["runId"] not in _runs(await _entries(pair.store, session)), "it began while it had to wait"
        pair.gate.let_go(session)
        async for frame in frames:
            ear.hear(frame)
    await running
    assert ear.end is not None
    assert ear.end["type"] == "RUN_FINISHED", ear.end
    entries = await _entries(pair.store, session)
    assert _runs(entries) == [first["runId"], second["runId"]], "the runs overlap"


async def _interrupt(pair: Pair, one: httpx.AsyncClient, two: httpx.AsyncClient, session: str, ledger: Ledger) -> float:
    """The other server is asked to stop the run."""
    body = asking(f"mark hold:{session} say:3", thread=session)
    running: asyncio.Task[Frame] = asyncio.create_task(follow(one, body, Ear(ledger.of(session), body)))
    await pair.gate.arrived(session)
    began = monotonic()
    response = await two.post(f"/sessions/{session}/interrupt")
    assert (response.status_code, response.json()) == (200, {"interrupted": True}), response.text
    end = await running
    seconds = monotonic() - began
    assert (end["type"], end.get("outcome")) == ("RUN_FINISHED", {"type": "cancelled"}), end
    await finish(two, asking("mark say:2", thread=session), ledger, waits=True)
    return seconds


async def _entries(store: Store, session: str) -> list[Entry]:
    return list(await store.load(SessionKey(user_id="local", session_id=session)))


def _runs(entries: list[Entry]) -> list[str]:
    """The runs in the order of their entries. A run that stands there twice was interleaved with another."""
    return [each.run_id for n, each in enumerate(entries) if n == 0 or each.run_id != entries[n - 1].run_id]

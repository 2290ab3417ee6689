"""What `make accept` measures in seconds: the start, what SQLite costs, what a long history costs, and the loop's
longest turn.

CPU is what the server process used (user and system), so the clients' own does not count. Both sides of a comparison
are measured in turn, round by round, and the median of the differences is taken.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from statistics import median
from time import monotonic

import httpx

from agent_core.sessions.storage import open_store
from app.settings import Settings
from bench.filling import fill
from tests.faults.client import calling
from tests.faults.workers import Worker, started
from tests.live.fuzz_clients import check_agui, check_chat, fuzz
from tests.live.fuzzing import agui_case, chat_case
from tests.live.heavy import heavy_agents, heavy_cases
from tests.serving import run_input, serving
from tests.turns import collected_as_served, watched

AGENT = "plain"
"""On the model fake:fake."""

AT_ONCE = 8
_sessions = count(1)


async def seconds_to_first_answer(folder: Path, sessions: int, starts: int) -> list[float]:
    """From the start of the process to the end of its first run, with so many sessions on disk."""
    worker = Worker(folder, {"OSTINATO_STORE": "sqlite"})
    await _fill(worker.data, [f"old{n}" for n in range(sessions)], turns=1)
    times = []
    for _ in range(starts):
        try:
            began = monotonic()
            url = await worker.start()
            async with calling(url) as http:
                await _ask(http, _fresh())
            times.append(monotonic() - began)
            await worker.end()
        finally:
            await worker.aclose()
    return times


async def sqlite_over_memory(folder: Path, runs: int, rounds: int) -> tuple[float, float]:
    """CPU milliseconds that a run costs in memory, and what it costs more on SQLite."""
    async with (
        started(folder / "memory", {"OSTINATO_STORE": "memory"}) as memory,
        started(folder / "sqlite") as sqlite,
    ):
        return await _compare((memory, sqlite), lambda _: _fresh(), runs, rounds)


async def long_over_empty(folder: Path, messages: int, runs: int, rounds: int) -> tuple[float, float]:
    """CPU milliseconds of a run in an empty session, and what it costs more in one with so many messages."""
    long = [f"long{n}" for n in range(runs)]
    worker = Worker(folder, {"OSTINATO_STORE": "sqlite"})
    await _fill(worker.data, long, turns=messages // 2)
    async with started(folder) as worker:
        turn = iter(long * (rounds + 1))
        return await _compare((worker, worker), lambda side: next(turn) if side else _fresh(), runs, rounds)


async def longest_turn(folder: Path, cases: int) -> tuple[float, int]:
    """The longest turn of the event loop, in seconds of CPU, and how often it was measured. So many fuzzed bodies are
    sent to each endpoint, and then all requests that are known to be heavy. It runs in this process."""
    worst, looks = 0.0, 0
    with collected_as_served():
        for path, make, check in (("/agui", agui_case, check_agui), ("/v1/chat/completions", chat_case, check_chat)):
            _, turns = await fuzz(path, make, check, cases)
            worst, looks = max(worst, turns.worst), looks + turns.looks
        settings = Settings(store="sqlite", data_dir=folder)
        async with serving(*heavy_agents(), settings=settings) as up, watched() as turns:
            for _, sent in heavy_cases():
                for each in sent:
                    await asyncio.to_thread(each.to, up.port)
        return max(worst, turns.worst), looks + turns.looks


async def _compare(
    workers: tuple[Worker, Worker], session_of: Callable[[int], str], runs: int, rounds: int
) -> tuple[float, float]:
    """What a run costs on the first side, and what it costs more on the second; `session_of` takes the side."""
    async with calling(workers[0].url) as one, calling(workers[1].url) as two:
        pairs = []
        for number in range(rounds + 1):
            first = await _cost(workers[0], one, [session_of(0) for _ in range(runs)])
            second = await _cost(workers[1], two, [session_of(1) for _ in range(runs)])
            if number:  # the first round warms both up
                pairs.append((first, second))
    return median(first for first, _ in pairs), median(second - first for first, second in pairs)


async def _cost(worker: Worker, http: httpx.AsyncClient, sessions: Sequence[str]) -> float:
    """CPU milliseconds of the server for each run."""
    left = iter(sessions)

    async def client() -> None:
        for session in left:
            await _ask(http, session)

    before = worker.cpu()
    await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    return (worker.cpu() - before) * 1000 / len(sessions)


async def _ask(http: httpx.AsyncClient, session: str) -> None:
    response = await http.post(f"/agui/{AGENT}", json=run_input("hello", thread=session))
    assert response.status_code == 200, response.text
    assert '"RUN_FINISHED"' in response.text, response.text[-300:]


def _fresh() -> str:
    return f"new{next(_sessions)}"


async def _fill(data: Path, sessions: Sequence[str], *, turns: int) -> None:
    """Write sessions with so many questions and answers through the store."""
    store = await open_store("sqlite", data, lease_seconds=30)
    try:
        await fill(store, sessions, turns=turns, agent=AGENT)
    finally:
        await store.aclose()

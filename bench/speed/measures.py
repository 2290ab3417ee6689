"""What one load costs one server: the unit of all tables."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import orjson

from bench.speed.client import Client, Target, load
from bench.speed.processes import Server
from bench.speed.scenarios import Scenario

SILENT = Scenario(name="open", what="a stream that stays open", chunks=5, silent=True)

SETTLED = 1.0
"""Seconds after which the memory of streams that were opened is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one run: CPU of the server, time until text came and until the end (medians), all in ms; and runs a second."""

    cpu: float
    text: float
    time: float
    rate: float


async def cost(
    server: Server,
    scenario: Scenario,
    *,
    path: str = "/agui",
    seconds: float | None = None,
    runs: int | None = None,
    session: str = "",
    state: object = None,
) -> Cost:
    """What the load costs. With `session`, all runs are in it. Raises WrongStream."""
    target = Target(url=server.url, path=path)
    before, began = server.cpu(), perf_counter()
    answers = await load(
        target, scenario, seconds=seconds, runs=runs, make=lambda: target.body(scenario, session, state)
    )
    used = server.cpu() - before
    return Cost(
        cpu=used * 1000 / len(answers),
        text=median(each.text for each in answers) * 1000,
        time=median(each.end for each in answers) * 1000,
        rate=len(answers) / (max(each.at for each in answers) - began),
    )


async def first_answer(server: Server, scenario: Scenario) -> float:
    """Seconds from the start of the process to the end of its first run. Raises WrongStream."""
    await load(Target(url=server.url), scenario, runs=1)
    return perf_counter() - server.began


async def memory_with_upstream(server: Server, streams: int) -> float:
    """kB that each of so many open runs takes, when the model has gone silent."""
    target, scenario = Target(url=server.url), SILENT
    before = server.memory()
    async with _clients(server, streams) as clients:
        await _in_tens([client.open("POST", target.path, target.body(scenario)) for client in clients])
        await asyncio.sleep(SETTLED)
        return (server.memory() - before) / streams


async def memory_of_readers(server: Server, readers: int) -> float:
    """kB that each of so many readers of one open run takes."""
    target, scenario = Target(url=server.url), SILENT
    async with _clients(server, readers + 1) as clients:
        body = target.body(scenario)
        await clients[0].open("POST", target.path, body)
        before, path = server.memory(), events_path(body)
        await _in_tens([client.open("GET", path) for client in clients[1:]])
        await asyncio.sleep(SETTLED)
        return (server.memory() - before) / readers


def events_path(body: bytes) -> str:
    """Where the run of this body is read again."""
    run = orjson.loads(body)
    return f"/sessions/{run['threadId']}/runs/{run['runId']}/events"


class _Silent(Scenario):
    """Its answer has no end."""

    @property
    def program(self) -> str:
        return f"bench:n={self.chunks}:h=1"


@asynccontextmanager
async def _clients(server: Server, many: int) -> AsyncIterator[Sequence[Client]]:
    """So many clients; their streams are closed at the end."""
    clients = [Client(server.url) for _ in range(many)]
    try:
        yield clients
    finally:
        for client in clients:
            client.close()


async def _in_tens(opening: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Ten at a time, so that none waits so long that it counts as lost."""
    for at in range(0, len(opening), 10):
        await asyncio.gather(*opening[at : at + 10])

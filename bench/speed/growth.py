"""How the cost of a run grows: with its session, with all sessions, with state, tools and readers; on each store."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from statistics import median
from typing import Any

import pytest

from bench.speed.client import Client, Target, load
from bench.speed.measures import cost, events_path
from bench.speed.processes import Bench, Server
from bench.speed.scenarios import STREAMS, check_agui
from bench.speed.streams import SHORT, STORES
from bench.speed.tables import Spread, Table, met
from tests.postgres import fresh_database

MESSAGES = (0, 100, 1_000, 5_000, 20_000)
SESSIONS = (0, 1_000, 20_000)
STATE = (0, 10_000, 240_000)
TOOLS = (1, 10, 50)
READERS = (1, 10, 100)
CALLS = 8
"""Tool calls in a run that looks at what one costs."""

RUNS = 60
"""Runs in each long session: enough to tell what one costs, and so few that the session stays about as long."""

MORE = {1_000: 1.0, 5_000: 3.0}
"""ms that a run in a session of so many messages may cost more than in an empty one."""

PAUSE = 0.05
"""Seconds between two runs of the session that is in use."""

Found = dict[tuple[str, int, str], list[float]]
"""Of a table, at a size: CPU, time or first, each round one value more."""


async def growth(bench: Bench) -> Sequence[Table]:
    """The tables of all stores."""
    tables: list[Table] = []
    for store in STORES:
        found: Found = defaultdict(list)
        try:
            for number in range(bench.rounds):
                await _one_round(bench, store, number, found)
        except pytest.skip.Exception as skipped:
            tables.append(Table(title=f"Growth on {store}", text=f"Skipped: {skipped.msg}."))
            continue
        tables += _tables(store, found)
    return tables


async def _one_round(bench: Bench, store: str, number: int, found: Found) -> None:
    """A server with long sessions for most tables, then others with many; all with fresh stores."""
    pace = bench.pace
    lengths = MESSAGES if pace >= 1 else MESSAGES[:3]
    filling = json.dumps({f"long{many}": many for many in lengths if many})
    for sessions in SESSIONS:
        home = bench.folder / f"{store}{number}-{sessions}"
        more = {"BENCH_FILL": "{}" if sessions else filling, "BENCH_SESSIONS": str(int(sessions * min(1.0, pace)))}
        with ExitStack() as stack:
            where = store if store != "postgresql" else stack.enter_context(fresh_database())
            async with bench.filled(home, where, **more) as server:
                await load(Target(url=server.url), replace(SHORT, at_once=8), seconds=pace)
                await _note(found, "sessions", sessions, server, at_once=8, seconds=1.5 * pace)
                if sessions == 0:
                    await _of_messages(server, lengths, found)
                    await _of_state(server, found, pace)
                    await _of_tools(server, found, pace)
                    await _of_readers(server, found)
                    await _beside(server, lengths[-1], found, pace)


async def _note(
    found: Found, table: str, size: int, server: Server, *, at_once: int = 1, seconds: float = 60.0, **how: Any
) -> None:
    each = await cost(server, replace(SHORT, at_once=at_once), seconds=seconds, **how)
    found[table, size, "cpu"].append(each.cpu)
    found[table, size, "time"].append(each.time)


async def _of_messages(server: Server, lengths: Sequence[int], found: Found) -> None:
    """A run after another in one session: the first reads it, the others go on where it stopped."""
    for many in lengths:
        session = f"long{many}"
        first = await cost(server, SHORT, runs=1, session=session)
        found["messages", many, "first"].append(first.time)
        await _note(found, "messages", many, server, runs=RUNS, session=session)


async def _of_state(server: Server, found: Found, pace: float) -> None:
    """What one call costs that does not look at the state: a run with calls, less one without."""
    for size in STATE:
        state = {"kept": "x" * size} if size else {}
        plain = await cost(server, SHORT, seconds=1.5 * pace, state=state)
        calls = await cost(server, replace(SHORT, calls=CALLS), seconds=1.5 * pace, state=state)
        found["state", size, "cpu"].append((calls.cpu - plain.cpu) / CALLS)
        found["state", size, "time"].append((calls.time - plain.time) / CALLS)


async def _of_tools(server: Server, found: Found, pace: float) -> None:
    for many in TOOLS:
        await _note(found, "tools", many, server, at_once=8, seconds=pace, path=f"/agui/tools{many}")


async def _of_readers(server: Server, found: Found) -> None:
    """A run of 200 chunks that is read by so many."""
    scenario, target = replace(STREAMS[2], at_once=1), Target(url=server.url)
    for many in READERS:
        clients = [Client(server.url) for _ in range(many)]
        try:
            before, body = server.cpu(), target.body(scenario)
            asked = asyncio.ensure_future(clients[0].post(target.path, body))
            await asyncio.sleep(0.1)  # so that the run is there
            answers = await asyncio.gather(asked, *(client.get(events_path(body)) for client in clients[1:]))
        finally:
            for client in clients:
                client.close()
        for number, answer in enumerate(answers):
            check_agui(scenario, answer.status, answer.stream, merged=number > 0)
        found["readers", many, "cpu"].append((server.cpu() - before) * 1000)
        found["readers", many, "time"].append(answers[0].end * 1000)


async def _beside(server: Server, length: int, found: Found, pace: float) -> None:
    """Short runs alone, and while another client talks in a long session."""
    target, session = Target(url=server.url), f"long{length}"
    await _note(found, "beside", 0, server, at_once=4, seconds=2 * pace)

    async def talk() -> None:
        while True:
            await load(target, SHORT, runs=1, make=lambda: target.body(SHORT, session))
            await asyncio.sleep(PAUSE)

    talking = asyncio.ensure_future(talk())
    try:
        await _note(found, "beside", length, server, at_once=4, seconds=2 * pace)
    finally:
        if talking.done():
            talking.result()  # it ends only by a fault
        talking.cancel()
        with suppress(asyncio.CancelledError):
            await talking


def _tables(store: str, found: Found) -> list[Table]:
    rows = []
    for table, what in (
        ("messages", "messages in the session"),
        ("sessions", "sessions in the store"),
        ("state", "bytes of state; of one call that does not look at it"),
        ("tools", "tools"),
        ("readers", "readers of one run of 200 chunks"),
        ("beside", "short runs beside a session of so many messages that is in use; 0: alone"),
    ):
        for size in [size for each, size, kind in found if each == table and kind == "cpu"]:
            rows.append((what, f"{size:,}".replace(",", " "), *_cells(found, table, size)))
    return [
        Table(
            title=f"Growth on {store}",
            text="A run of one chunk where nothing else is said, in ms. Of messages: one run after another in the"
            " session; `first` is the\ntime of the first run after the start, which reads the whole session.\n"
            "Each sends the whole session to the model, and the CPU of that counts too; the target is the engine's.",
            heads=("of", "size", "CPU", "time", "first", "target", "met"),
            rows=tuple(rows),
        )
    ]


def _cells(found: Found, table: str, size: int) -> tuple[str, ...]:
    cpu, time = Spread(tuple(found[table, size, "cpu"])), Spread(tuple(found[table, size, "time"]))
    first = Spread(tuple(found[table, size, "first"])).told(digits=1) if table == "messages" else ""
    target = good = ""
    if table == "messages" and size in MORE:
        most = median(found[table, 0, "cpu"]) + MORE[size]
        target, good = f"CPU: that of 0 + {MORE[size]:g}", met(cpu.middle, most)
    if table == "beside" and size:
        target, good = "time: twice that of 0", met(time.middle, 2 * median(found[table, 0, "time"]))
    return cpu.told(), time.told(), first, target, good

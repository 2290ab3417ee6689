"""The tables that compare with the floor, and those of the start, of open streams and of the stores' fixed costs.

In each round all sides are started again, one after the other, and measured alone. Figures of one round belong
together: ratios and differences are taken inside it.
"""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import pytest

from bench.speed.client import Target, load
from bench.speed.measures import Cost, cost, first_answer, memory_of_readers, memory_with_upstream
from bench.speed.processes import Bench
from bench.speed.scenarios import STREAMS, Scenario
from bench.speed.tables import Spread, Table, differences, met, ratios
from tests.postgres import fresh_database

SHORT = Scenario(name="short", what="a run of one chunk", chunks=1, at_once=1)
CHAT = "/v1/chat/completions"
STORES = ("memory", "sqlite", "postgresql")
OPEN = 500
"""Streams that are open at once where their memory is measured."""

Found = dict[tuple[str, str], list[float]]
"""What was measured of a side, each round one value more."""


def spread(found: Found, side: str, name: str) -> Spread:
    return Spread(tuple(found[side, name]))


async def streams(bench: Bench) -> Sequence[Table]:
    """The ratios, the first token, and the other endpoint."""
    found: Found = defaultdict(list)
    for number in range(bench.rounds):
        for side in _turned(("memory", "floor"), number):
            home = bench.folder / f"{side}{number}"
            async with bench.side(side, home) as server:
                await load(Target(url=server.url), STREAMS[0], seconds=bench.pace)  # to warm it up
                for scenario in STREAMS:
                    _note(
                        found, side, scenario.name, await cost(server, scenario, seconds=scenario.seconds * bench.pace)
                    )
                for scenario in (STREAMS[0], STREAMS[2]) if side == "memory" else ():
                    seconds = scenario.seconds * bench.pace
                    _note(found, "chat", scenario.name, await cost(server, scenario, path=CHAT, seconds=seconds))
    return [_against_floor(found), _first_text(found), _chat(found)]


def _against_floor(found: Found) -> Table:
    rows = []
    for scenario in STREAMS:
        mine, floor = (spread(found, side, f"{scenario.name} cpu") for side in ("memory", "floor"))
        ratio = ratios(mine, floor)
        rows.append(
            (scenario.name, scenario.what, mine.told(), floor.told(), ratio.told(), f"{scenario.target:.2f}",
             met(ratio.middle, scenario.target))
        )  # fmt: skip
    return Table(
        title="CPU per run, against a server without an engine",
        text="The floor (`bench/speed/floor.py`) forwards the same upstream through aiohttp and sse-starlette, event by"
        " event,\nwith no engine, no session and no checks. CPU in ms, memory store.",
        heads=("scenario", "what", "ours", "floor", "ratio to the floor", "target", "met"),
        rows=tuple(rows),
    )


def _first_text(found: Found) -> Table:
    mine, floor = (spread(found, side, "T5c64 text") for side in ("memory", "floor"))
    later = differences(mine, floor)
    row = ("64 streams, 5 ms a chunk", mine.told(), floor.told(), later.told(), "0.2", met(later.middle, 0.2))
    return Table(
        title="First token",
        text="From the request to the first text, in ms: the median of all runs.",
        heads=("what", "ours", "floor", "later than the floor", "target", "met"),
        rows=(row,),
    )


def _chat(found: Found) -> Table:
    rows = []
    for name in ("T0c64", "T5c64"):
        chat, agui = spread(found, "chat", f"{name} cpu"), spread(found, "memory", f"{name} cpu")
        rows.append((name, chat.told(), agui.told(), ratios(chat, agui).told()))
    return Table(
        title="The OpenAI endpoint",
        text="CPU in ms of `POST /v1/chat/completions` against `POST /agui`: the same server, agent and upstream.",
        heads=("scenario", "OpenAI", "AG-UI", "ratio"),
        rows=tuple(rows),
    )


async def starts(bench: Bench) -> Sequence[Table]:
    """From the start of the process to the end of its first run."""
    sides, found = ("floor", "memory", "sqlite"), defaultdict(list)
    for number in range(bench.rounds + 1):
        for side in _turned(sides, number):
            home = bench.folder / side  # the same again, so that only the first start makes the database
            async with bench.side(side, home) as server:
                took = await first_answer(server, SHORT)
            if number:  # the first start of each reads its files from the disk
                found[side].append(took)
    floor, rows = Spread(tuple(found["floor"])), []
    for side, most in (("memory", 1.4), ("sqlite", 1.7)):
        mine = Spread(tuple(found[side]))
        ratio = ratios(mine, floor)
        rows.append((side, mine.told("s"), floor.told("s"), ratio.told(), f"{most}", met(ratio.middle, most)))
    return [
        Table(
            title="First answer",
            text="From the start of the process to the end of its first run.",
            heads=("store", "ours", "floor", "ratio to the floor", "target", "met"),
            rows=tuple(rows),
        )
    ]


async def memory(bench: Bench) -> Sequence[Table]:
    """What an open stream holds."""
    found: Found = defaultdict(list)
    many = max(20, int(OPEN * min(1.0, bench.pace)))
    for number in range(bench.rounds):
        for side, what in (("floor", "stream"), ("memory", "stream"), ("memory", "reader")):
            home = bench.folder / f"{side}{what}{number}"
            async with bench.side(side, home) as server:
                # Few runs: many would leave free memory behind, and the streams would seem to take none.
                await load(Target(url=server.url), replace(SHORT, at_once=8), runs=50)
                measure = memory_with_upstream if what == "stream" else memory_of_readers
                found[side, what].append(await measure(server, many))
    rows = []
    for what, name, most in (
        ("stream", "a run whose model is silent", 75),
        ("reader", "one reader more of such a run", 40),
    ):
        mine = spread(found, "memory", what)
        floor = spread(found, "floor", what).told(digits=0) if what == "stream" else ""
        rows.append((name, mine.told(digits=0), floor, f"{most}", met(mine.middle, most)))
    text = f"kB of resident memory for each of {many} open at once, memory store."
    heads = ("what", "ours", "floor", "target", "met")
    return [Table(title="An open stream", text=text, heads=heads, rows=tuple(rows))]


async def stores(bench: Bench) -> Sequence[Table]:
    """What short runs cost more than in memory, each in a new session."""
    found: Found = defaultdict(list)
    missing = ""
    for number in range(bench.rounds):
        for store in _turned(STORES, number):
            with ExitStack() as stack:
                try:
                    where = store if store != "postgresql" else stack.enter_context(fresh_database())
                except pytest.skip.Exception as skipped:
                    missing = f"\n\nSkipped: PostgreSQL ({skipped.msg})."
                    continue
                home = bench.folder / f"{store}{number}"
                async with bench.ours(home, where) as server:
                    await load(Target(url=server.url), replace(SHORT, at_once=8), seconds=bench.pace)
                    for many in (1, 64):
                        seconds = 3 * bench.pace
                        used = await cost(server, replace(SHORT, at_once=many), seconds=seconds)
                        _note(found, store, str(many), used)
    return [_of_stores(found, missing)]


def _of_stores(found: Found, missing: str) -> Table:
    rows = []
    for store in STORES:
        if (store, "1 cpu") not in found:
            continue
        for many in ("1", "64"):
            mine, base = spread(found, store, f"{many} cpu"), spread(found, "memory", f"{many} cpu")
            more, rate = differences(mine, base), spread(found, store, f"{many} rate")
            most = {("sqlite", "1"): 1.2, ("sqlite", "64"): 0.5}.get((store, many), 2.0)
            wanted, good = f"+{most}", more.middle <= most
            if store == "postgresql" and many == "64":
                wanted, good = wanted + ", 500 runs/s", good and rate.middle >= 500
            told = ("", "", "") if store == "memory" else (more.told(), wanted, "yes" if good else "**no**")
            rows.append((store, many, mine.told(), rate.told(digits=0), *told))
    return Table(
        title="Short runs on each store",
        text=f"CPU of the server in ms for a run of one chunk in a new session, and runs/s of one worker.{missing}",
        heads=("store", "side by side", "CPU", "runs/s", "more than in memory", "target", "met"),
        rows=tuple(rows),
    )


def _turned(sides: tuple[str, ...], number: int) -> tuple[str, ...]:
    """Another order each round, so that no side is always the first."""
    at = number % len(sides)
    return sides[at:] + sides[:at]


def _note(found: Found, side: str, name: str, each: Cost) -> None:
    for what in ("cpu", "text", "time", "rate"):
        found[side, f"{name} {what}"].append(getattr(each, what))

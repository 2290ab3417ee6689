"""What `make bench` does, in little, with its real processes."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench.speed import __main__ as command
from bench.speed.client import Client, Target, load
from bench.speed.measures import cost, events_path, memory_of_readers, memory_with_upstream
from bench.speed.processes import UPSTREAM, Bench, Server, listening
from bench.speed.scenarios import STREAMS, Scenario, WrongStream, check_agui
from bench.speed.tables import Table

CORE = min(os.sched_getaffinity(0))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with listening(UPSTREAM, tmp_path / "upstream", CORE) as upstream:
        yield Bench(upstream=upstream, folder=tmp_path, core=CORE, rounds=1, pace=0.01)


async def _run_all(server: Server, paths: Sequence[str]) -> None:
    for path in paths:
        for scenario in STREAMS:
            few = replace(scenario, at_once=2, calls=0 if path.startswith("/v1") else scenario.calls)
            measured = await cost(server, few, path=path, runs=4)
            assert measured.cpu > 0
            assert 0 < measured.text <= measured.time


async def test_the_floor_serves_every_scenario(bench: Bench, tmp_path: Path) -> None:
    async with bench.side("floor", tmp_path / "floor") as server:
        await _run_all(server, ["/agui"])
        assert await memory_with_upstream(server, 5) >= 0


async def test_the_server_serves_every_scenario_on_both_endpoints(bench: Bench, tmp_path: Path) -> None:
    async with bench.side("sqlite", tmp_path / "ours") as server:
        await _run_all(server, ["/agui", "/v1/chat/completions"])
        assert await memory_of_readers(server, 5) >= 0


async def test_a_filled_server_has_its_old_sessions_and_its_tools(bench: Bench, tmp_path: Path) -> None:
    few = replace(STREAMS[3], at_once=1)
    async with bench.filled(tmp_path / "filled", "memory", BENCH_FILL='{"long100": 100}', BENCH_SESSIONS="3") as server:
        await cost(server, few, runs=2, session="long100", path="/agui/tools50")
        answer = await Client(server.url).get("/sessions/long100/messages")
        assert answer.stream.count(b'"role":"user"') >= 50


async def test_readers_that_come_later_get_the_whole_run(bench: Bench, tmp_path: Path) -> None:
    slow = replace(STREAMS[2], chunks=40)
    async with bench.side("memory", tmp_path / "ours") as server:
        target = Target(url=server.url)
        body = target.body(slow)
        first, second = Client(server.url), Client(server.url)
        asked = asyncio.ensure_future(first.post("/agui", body))
        await asyncio.sleep(0.1)
        again = await second.get(events_path(body))
        check_agui(slow, again.status, again.stream, merged=True)
        target.check(slow, await asked)
        first.close()
        second.close()


async def test_a_stream_that_is_not_what_was_asked_for_ends_the_load(bench: Bench, tmp_path: Path) -> None:
    two, three = (Scenario(name="few", what="", chunks=chunks, at_once=1) for chunks in (2, 3))
    async with bench.side("floor", tmp_path / "floor") as server:
        target = Target(url=server.url)
        with pytest.raises(WrongStream, match="few"):
            await load(target, two, runs=1, make=lambda: target.body(three))


async def test_a_section_that_broke_is_named_and_the_others_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(bench: Bench) -> Sequence[Table]:
        raise WrongStream("cut")

    async def whole(bench: Bench) -> Sequence[Table]:
        return [Table(title="Whole", text="")]

    monkeypatch.setattr(command, "SECTIONS", {"one": broken, "two": whole})
    before = os.sched_getaffinity(0)
    tables, names = await command.measure(["one", "two"], 1, 0.01)
    assert [table.title for table in tables] == ["Whole"]
    assert names == ["one"]
    assert os.sched_getaffinity(0) == before

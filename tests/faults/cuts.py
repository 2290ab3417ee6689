"""A client that leaves at each index of a run's stream and attaches again, against a server process.

The run goes on without its reader (`X-On-Disconnect: continue`). The frames before and behind the cut, joined, must be
the whole sequence. A third reader gets that sequence from the beginning.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.faults.client import calling
from tests.faults.gatehouse import Gatehouse
from tests.faults.workers import started
from tests.serving import Frame, Id, check_whole, numbered_frames_of, run_input

FRAMES = 210
"""How many frames the run has at least."""

LAST = 200
"""The last index at which the stream is cut. The run's gate stands behind it."""

Numbered = list[tuple[Id, Frame]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What the cuts amount to. `live`: those whose run was still under way when the reader came back."""

    cuts: int
    live: int
    frames: int


async def cut_at_each(folder: Path, cuts: int, *, at_once: int = 8) -> Cut:
    """Spread so many cuts over a run's indexes. Raises AssertionError for a sequence that is not whole."""
    longest = 0
    places = asyncio.Semaphore(at_once)
    async with Gatehouse() as gate, started(folder, {"FAULTS_GATE": str(gate.port), "FAULTS_PACE": "0.001"}) as worker:

        async def one(number: int) -> None:
            nonlocal longest
            async with places, calling(worker.url) as http:
                longest = max(longest, await _cut(http, gate, number, number * LAST // cuts))

        async with asyncio.TaskGroup() as group:
            for number in range(cuts):
                group.create_task(one(number))
    return Cut(cuts=cuts, live=sum(map(_is_live, range(cuts))), frames=longest)


async def _cut(http: httpx.AsyncClient, gate: Gatehouse, number: int, index: int) -> int:
    """A run that is read up to the index, and on from there. Every other run waits before its last piece of text
    until its reader is back; the others may have ended by then."""
    if not _is_live(number):
        gate.let_go(f"c{number}")
    body = run_input(f"2*mark mark stamp say:{FRAMES - 20}:c{number}", thread=f"c{number}")
    before = await _read(http, body, index)
    after = before[-1][0] if before else None
    url = f"/sessions/{body['threadId']}/runs/{body['runId']}/events"
    rest = await _events(http, gate, number, url, after)
    whole = await _events(http, gate, number, url, None)
    assert before + rest == whole, f"cut at {index}"
    check_whole([frame for _, frame in whole])
    assert len(whole) >= FRAMES, len(whole)
    return len(whole)


def _is_live(number: int) -> bool:
    """Whether the run is still under way when its reader comes back."""
    return number % 2 == 0


async def _read(http: httpx.AsyncClient, body: Frame, index: int) -> Numbered:
    headers = {"accept": "text/event-stream", "x-on-disconnect": "continue"}
    found: Numbered = []
    async with http.stream("POST", "/agui", json=body, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        frames = numbered_frames_of(response)
        while len(found) < index:
            found.append(await anext(frames))
    return found


async def _events(http: httpx.AsyncClient, gate: Gatehouse, number: int, url: str, after: Id) -> Numbered:
    headers = {} if after is None else {"last-event-id": f"{after[0]}.{after[1]}"}
    async with http.stream("GET", url, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        gate.let_go(f"c{number}")
        return [each async for each in numbered_frames_of(response)]

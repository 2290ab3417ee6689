"""SIGTERM with many runs open: in a tool, in a model's answer, waiting for their session, and about to be done.

Each ends with one terminal event, each that had begun is written down, and the process ends by the signal. While a
server drains, another one on the same data is refused in one sentence; afterwards it works.
"""

import asyncio
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import httpx
import pytest

from agent_core.names import SessionKey
from agent_core.sessions.entries import body_of
from agent_core.sessions.kinds import EndBody
from agent_core.sessions.storage import open_store
from tests.faults.client import asking, calling, finish, follow
from tests.faults.gatehouse import Gatehouse
from tests.faults.ledger import Ear, Ledger, Told
from tests.faults.outages import check_kept
from tests.faults.workers import NotServed, Worker, started
from tests.serving import Frame

DRAIN = 3.0
"""Seconds that the runs get."""

PROGRAMS = {"tool": "mark hold:t{} say:1", "answer": "say:1000000", "ends": "mark say:3:ends"}
PACE = 0.02
"""Seconds between two pieces of an answer at most: the others must leave room for those that are about to be done."""

KINDS = ("tool", "answer", "waits", "ends", "answer")
"""What the runs do, in turn. One that waits does so for the tool's run before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """`seconds` from the signal to the end of the process; `ends`: how the runs ended."""

    seconds: float
    ends: Counter[str]


async def end_with_runs(folder: Path, runs: int) -> Ended:
    """Raises AssertionError for whatever is not as it must be."""
    ledger, variables = Ledger(), {"OSTINATO_DRAIN_SECONDS": str(DRAIN), "FAULTS_PACE": str(PACE)}
    async with Gatehouse() as gate, started(folder, {**variables, "FAULTS_GATE": str(gate.port)}) as worker:
        async with calling(worker.url) as http:
            opened = await _open_runs(http, gate, ledger, runs)
            began = monotonic()
            worker.send(signal.SIGTERM)
            gate.let_go("ends")
            ended = asyncio.create_task(worker.ended())
            ends = [await each.task for each in opened]
            assert await ended == -signal.SIGTERM
        seconds = monotonic() - began
        for each, end in zip(opened, ends, strict=True):
            _check_end(each, end)
        await _check_written(worker, ledger, opened)
        await worker.start()
        async with calling(worker.url) as http:
            new = [asking("mark say:1", thread=session) for session in ledger.sessions]
            await asyncio.gather(*(finish(http, body, ledger) for body in new))
        await worker.end()
        await check_kept(worker, ledger)
    return Ended(seconds=seconds, ends=Counter(str(end.get("code", end["type"])) for end in ends))


async def drain_beside_another(folder: Path) -> None:
    """The drain lasts for as long as the other server needs to start: a run's tool holds it open."""
    ledger = Ledger()
    variables = {"OSTINATO_DRAIN_SECONDS": "300"}
    async with Gatehouse() as gate, started(folder, {**variables, "FAULTS_GATE": str(gate.port)}) as worker:
        async with calling(worker.url) as http:
            body = asking("mark hold:long say:1", thread="long")
            running = asyncio.create_task(finish(http, body, ledger))
            await gate.arrived("long")
            worker.send(signal.SIGTERM)
            ended = asyncio.create_task(worker.ended())
            await _check_alone(worker)
            assert not ended.done()
            gate.let_go("long")
            await running
            assert await ended == -signal.SIGTERM
        await worker.start()
        async with calling(worker.url) as http:
            await finish(http, asking("mark say:1", thread="long"), ledger)
        await worker.end()
        await check_kept(worker, ledger)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    kind: str
    body: Frame
    task: "asyncio.Task[Frame]"


async def _open_runs(http: httpx.AsyncClient, gate: Gatehouse, ledger: Ledger, runs: int) -> list[_Opened]:
    """Start the runs; each is under way, or waits, when this returns."""
    opened: list[_Opened] = []
    for number in range(runs):
        kind = KINDS[number % len(KINDS)]
        session = f"e{number - 2 if kind == 'waits' else number}"
        body = asking(PROGRAMS.get(kind, "say:1").format(number), thread=session)
        ear = _Attentive(ledger.of(session), body, waits=kind == "waits")
        task = asyncio.create_task(follow(http, body, ear))
        await ear.open.wait()
        if kind == "tool":
            await gate.arrived(f"t{number}")
        opened.append(_Opened(kind=kind, body=body, task=task))
    return opened


class _Attentive(Ear):
    """`open` is set when the run waits, or does something."""

    def __init__(self, told: Told, body: Frame, *, waits: bool) -> None:
        super().__init__(told, body, waits=waits)
        self.open = asyncio.Event()
        self._enough = "RUN_STARTED" if waits else "TEXT_MESSAGE_START"

    def hear(self, frame: Frame) -> None:
        super().hear(frame)
        if frame["type"] == self._enough:
            self.open.set()


async def _check_alone(worker: Worker) -> None:
    async with httpx.AsyncClient(base_url=worker.url, timeout=20) as http, asyncio.timeout(20):
        while (await http.get("/readyz")).status_code != 503:  # noqa: ASYNC110 - a signal of another process
            await asyncio.sleep(0.01)
    variables = {"OSTINATO_STORE": "sqlite", "OSTINATO_DATA_DIR": str(worker.data)}
    second = Worker(worker.folder / "second", variables)
    with pytest.raises(NotServed) as refusal:
        await second.start()
    await second.aclose()
    assert refusal.value.code == 1
    assert refusal.value.said.count("\n") == 1, refusal.value.said
    assert "in use by another server" in refusal.value.said


def _check_end(opened: _Opened, end: Frame) -> None:
    if opened.kind == "ends":
        assert end["type"] == "RUN_FINISHED", end
    else:
        assert (end["type"], end.get("code")) == ("RUN_ERROR", "draining"), end


async def _check_written(worker: Worker, ledger: Ledger, opened: Sequence[_Opened]) -> None:
    """No run is open, and all that began have the end that was told."""
    store = await open_store("sqlite", worker.data, lease_seconds=30)
    try:
        for session in ledger.sessions:
            await ledger.check_store(session, store, settled=True)
        for each in opened:
            entries = await store.load(SessionKey(user_id="local", session_id=each.body["threadId"]))
            bodies = [body_of(entry) for entry in entries if entry.run_id == each.body["runId"]]
            ends = [body.code or body.status for body in bodies if isinstance(body, EndBody)]
            if each.kind != "waits":
                assert ends == ["completed" if each.kind == "ends" else "draining"], ends
    finally:
        await store.aclose()

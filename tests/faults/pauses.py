"""SIGSTOP of a session's owner past its lease, while another server takes its sessions over.

Two servers share a PostgreSQL database; the lease of the first is short. Each round: the first carries out runs
in several sessions, two of them in a tool that waits, and is stopped in the middle. The second is asked for a run in
each of these sessions, gets them when the lease is over, and carries its runs out. Then the tools are let go and the
first goes on: whatever it was about to write, it must not, and its streams end.
"""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import httpx

from agent_core.names import SessionKey
from agent_core.sessions.entries import Entry
from agent_core.sessions.storage import open_store
from agent_core.sessions.store import Store
from tests.faults.client import Refused, asking, calling, finish, follow
from tests.faults.gatehouse import Gatehouse
from tests.faults.ledger import Ear, Ledger, check_effects
from tests.faults.workers import Note, Worker, command, started, unnoted
from tests.serving import Frame

LEASE = 0.6
"""Seconds, of the server that is stopped."""

KEY = "the journal of two workers"
PROGRAMS = (
    "hold:{0}a say:3",
    "say:1000000",
    "3*mark 3*remark stamp say:40",
    "4*remark mark say:20",
    "mark hold:{0}b say:2",
)
"""One for each session; the first and the last end in a tool that waits for its round."""

REPEATED = frozenset({2, 3})
"""Which of them may be asked for again in the same words."""


@dataclass(slots=True, kw_only=True)
class Paused:
    """What the rounds amount to."""

    rounds: int = 0
    overtaken: int = 0
    calls: int = 0
    statuses: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Pair:
    """The two servers, and what they share."""

    one: Worker
    two: Worker
    gate: Gatehouse
    store: Store
    url: str
    effects: Path

    async def verify(self) -> None:
        anchors = (f"--anchor={each.data / 'journal.anchor'}" for each in (self.one, self.two))
        folder = self.two.folder
        code, said = await command(
            "sessions", "verify", *anchors, folder=folder, OSTINATO_STORE=self.url, OSTINATO_JOURNAL_KEY=KEY
        )
        assert code == 0, said


async def make_pair(stack: AsyncExitStack, folder: Path, url: str, lease: float = LEASE) -> Pair:
    gate = await stack.enter_async_context(Gatehouse())
    shared = {
        "OSTINATO_STORE": url,
        "OSTINATO_JOURNAL_KEY": KEY,
        "FAULTS_GATE": str(gate.port),
        "FAULTS_EFFECTS": str(folder / "effects"),
    }
    one = await stack.enter_async_context(started(folder / "one", {**shared, "OSTINATO_LEASE_SECONDS": str(lease)}))
    two = await stack.enter_async_context(started(folder / "two", shared))
    store = await open_store(url, folder / "reader", lease_seconds=30, journal_key=KEY)
    stack.push_async_callback(store.aclose)
    return Pair(one=one, two=two, gate=gate, store=store, url=url, effects=folder / "effects")


async def pause_again_and_again(folder: Path, url: str, rounds: int, *, seed: int = 1, note: Note = unnoted) -> Paused:
    """Raises AssertionError for whatever is not as it must be."""
    ledger, random, found = Ledger(), Random(seed), Paused(rounds=rounds)
    async with AsyncExitStack() as stack:
        pair = await make_pair(stack, folder, url)
        one = await stack.enter_async_context(calling(pair.one.url))
        two = await stack.enter_async_context(calling(pair.two.url))
        for number in range(rounds):
            await _round(pair, one, two, number, ledger, random, found)
            note(number + 1)
        await pair.verify()
        found.calls = check_effects(pair.effects, ledger)
    return found


async def _round(
    pair: Pair,
    one: httpx.AsyncClient,
    two: httpx.AsyncClient,
    number: int,
    ledger: Ledger,
    random: Random,
    found: Paused,
) -> None:
    firsts = [asking(program.format(f"r{number}-"), thread=f"p{number}-{n}") for n, program in enumerate(PROGRAMS)]
    moment = _Moment(random.randint(len(PROGRAMS), 60))
    stopped = [asyncio.create_task(_carry_out(one, body, moment, ledger)) for body in firsts]
    await pair.gate.arrived(f"r{number}-a")
    await pair.gate.arrived(f"r{number}-b")
    await moment.reached.wait()
    pair.one.send(signal.SIGSTOP)
    await asyncio.to_thread(os.waitid, os.P_PID, pair.one.pid, os.WSTOPPED | os.WNOWAIT)
    try:
        seconds = [_next(n, body, random) for n, body in enumerate(firsts)]
        await asyncio.gather(*(_insist(two, body, ledger) for body in seconds))
        for name in ("a", "b"):
            pair.gate.let_go(f"r{number}-{name}")
    finally:
        pair.one.send(signal.SIGCONT)
    for body, second, task in zip(firsts, seconds, stopped, strict=True):
        end = await task
        status = end["code"] if end["type"] == "RUN_ERROR" else end["type"]
        found.statuses[status] = found.statuses.get(status, 0) + 1
        found.overtaken += await _check(pair.store, body, second, end)
        await ledger.check_store(body["threadId"], pair.store, settled=True)


class _Moment:
    """Comes when the runs together have sent so many frames."""

    def __init__(self, enough: int) -> None:
        self.reached = asyncio.Event()
        self._left = enough

    def tick(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self.reached.set()


async def _carry_out(http: httpx.AsyncClient, body: Frame, moment: _Moment, ledger: Ledger) -> Frame:
    class Ticking(Ear):
        def hear(self, frame: Frame) -> None:
            super().hear(frame)
            moment.tick()

    return await follow(http, body, Ticking(ledger.of(body["threadId"]), body))


def _next(number: int, first: Frame, random: Random) -> Frame:
    """The user says something new, or asks again for what does not come."""
    body = asking("mark say:2", thread=first["threadId"])
    if number in REPEATED and random.random() < 0.5:
        body |= {"messages": first["messages"]}
    return body


async def _insist(http: httpx.AsyncClient, body: Frame, ledger: Ledger) -> None:
    """Ask for the run until it is taken: a lock that the stopped server holds in the database may be in the
    way for a moment."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await finish(http, body, ledger, waits=True)
            except Refused as refused:
                if refused.code != "store_unavailable":
                    raise


async def _check(store: Store, first: Frame, second: Frame, end: Frame) -> bool:
    """Nothing of the first run stands behind the beginning of the second. Whether it was overtaken, and
    not over before."""
    entries = await store.load(SessionKey(user_id="local", session_id=first["threadId"]))
    began = next(n for n, each in enumerate(entries) if each.run_id == second["runId"] and _is_run(each))
    late = [each for each in entries[began:] if each.run_id == first["runId"]]
    assert not late, f"stale writes: {late}"
    lost = [
        each
        for each in entries[:began]
        if each.run_id == first["runId"] and each.kind == "end" and b"worker_lost" in each.body
    ]
    if not lost:
        return False
    assert (end["type"], end.get("code")) == ("RUN_ERROR", "worker_lost"), end
    return True


def _is_run(entry: Entry) -> bool:
    return entry.kind == "run"

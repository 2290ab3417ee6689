"""kill -9 of the server under load, again and again on the same data.

Each round: clients run programs in sessions of their own and in some that they share, until the server has sent
so many frames; then it is killed. A copy of its data is checked entry by entry and by `ostinato sessions verify`;
the server is started again, must show everything that was acknowledged, and carries one more run out in each
session. In the next round's copy these sessions must be settled: no open call, no run without an end.
"""

import asyncio
import shutil
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random

import httpx

from agent_core.sessions.storage import open_store
from tests.faults.client import Refused, asking, calling, check_sessions, finish, follow
from tests.faults.ledger import Ear, Ledger, check_effects
from tests.faults.workers import Note, Worker, command, started, unnoted
from tests.serving import Frame

CLIENTS = 8
SHARED = 2
"""Sessions that two clients each share."""

WORDS = ("mark", "2*mark", "stamp", "remark", "3*remark", "mark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """What the rounds amount to; all of it was there."""

    acknowledged: int
    calls: int
    sessions: int


class Load:
    """Clients that run programs until the server is gone. It is killed after `enough` of their frames."""

    def __init__(self, ledger: Ledger, random: Random, enough: int) -> None:
        self.reached = asyncio.Event()
        self.last: dict[str, Frame] = {}  # the last run's request, in each session
        self._ledger = ledger
        self._random = random
        self._enough = enough
        self._frames = count(1)

    async def client(self, http: httpx.AsyncClient, session: str, *, shared: bool) -> None:
        try:
            while True:
                body = asking(program(self._random), thread=session)
                self.last[session] = body
                with suppress(Refused):  # too many wait for a shared session
                    await follow(http, body, self._ear(session, body, shared))
        except httpx.TransportError:
            assert self.reached.is_set(), "the server was gone before it was killed"

    def _ear(self, session: str, body: Frame, shared: bool) -> Ear:
        load = self

        class Counting(Ear):
            def hear(self, frame: Frame) -> None:
                super().hear(frame)
                if next(load._frames) >= load._enough:
                    load.reached.set()

        return Counting(self._ledger.of(session), body, waits=shared)


def program(random: Random) -> str:
    rounds = [random.choice(WORDS) for _ in range(random.randint(0, 3))]
    return " ".join([*rounds, f"say:{random.randint(1, 8)}"])


async def kill_again_and_again(folder: Path, rounds: int, *, seed: int = 1, note: Note = unnoted) -> Killed:
    """Raises AssertionError for whatever is not as it must be. `note` is called after each round."""
    ledger, random = Ledger(), Random(seed)
    before: list[str] = []
    async with started(folder) as worker:
        for number in range(rounds):
            load = Load(ledger, random, random.randint(20, 400))
            await _load_and_kill(worker, load, number)
            now = list(load.last)
            await _check_data(worker, ledger, settled=before, lost=now)
            await worker.start()
            async with calling(worker.url) as http:
                await check_sessions(http, ledger, now)
                await asyncio.gather(*(_once_more(http, load.last[each], ledger, random) for each in now))
                await check_sessions(http, ledger, now)
            before = now
            check_effects(worker.effects, ledger)
            note(number + 1)
        await worker.kill()
        await _check_data(worker, ledger, settled=list(ledger.sessions), lost=[])
        calls = check_effects(worker.effects, ledger)
    return Killed(acknowledged=len(ledger), calls=calls, sessions=len(ledger.sessions))


async def _load_and_kill(worker: Worker, load: Load, number: int) -> None:
    async with calling(worker.url) as http, asyncio.TaskGroup() as clients:
        for n in range(CLIENTS):
            clients.create_task(load.client(http, f"s{number}-{n}", shared=False))
        for n in range(2 * SHARED):
            clients.create_task(load.client(http, f"shared{number}-{n % SHARED}", shared=True))
        await load.reached.wait()
        await worker.kill()


async def _check_data(worker: Worker, ledger: Ledger, *, settled: list[str], lost: list[str]) -> None:
    """On a copy of the data, as the kill has left it."""
    copy = worker.folder / "copy"
    shutil.copytree(worker.data, copy, ignore=shutil.ignore_patterns("lock"))
    try:
        code, said = await command("sessions", "verify", "--data-dir", str(copy), folder=worker.folder)
        assert code == 0, said
        store = await open_store("sqlite", copy, lease_seconds=30)
        try:
            for session in settled:
                await ledger.check_store(session, store, settled=True)
            for session in lost:
                await ledger.check_store(session, store, settled=False)
        finally:
            await store.aclose()
    finally:
        shutil.rmtree(copy)


async def _once_more(http: httpx.AsyncClient, last: Frame, ledger: Ledger, random: Random) -> None:
    """A client that comes back: it says something new, or asks again for what it missed."""
    body = asking("mark say:2", thread=last["threadId"])
    if random.random() < 0.5:
        body |= {"messages": last["messages"]}
    await finish(http, body, ledger)

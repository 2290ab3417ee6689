"""PostgreSQL restarts in mid-run, without having time to tell anybody.

Each run is completed or ends in one RUN_ERROR, or is refused before the first byte; what was acknowledged is there,
and no tool ran twice.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

import httpx

from agent_core.sessions.storage import open_store
from tests.faults.client import Refused, asking, calling, check_sessions, finish, follow
from tests.faults.kills import program
from tests.faults.ledger import Ear, Ledger, check_effects
from tests.faults.outages import well
from tests.faults.workers import Note, command, started, unnoted
from tests.postgres import PostgresServer

CLIENTS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted:
    """What the restarts amount to: how the runs ended that were under way around them."""

    acknowledged: int
    ends: Counter[str]


async def restart_again_and_again(
    folder: Path, server: PostgresServer, url: str, rounds: int, *, seed: int = 1, note: Note = unnoted
) -> Restarted:
    """Raises AssertionError for whatever is not as it must be."""
    ledger, random, ends = Ledger(), Random(seed), Counter[str]()
    async with started(folder, {"OSTINATO_STORE": url}) as worker, calling(worker.url) as http:
        for number in range(rounds):
            sessions = [f"r{number}-{n}" for n in range(CLIENTS)]
            load = _Load(http, ledger, ends, random)
            clients = [asyncio.create_task(load.client(each)) for each in sessions]
            await load.running.wait()
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.start)
            load.over = True
            await asyncio.gather(*clients)
            await well(http)
            await asyncio.gather(*(finish(http, asking("mark say:2", thread=each), ledger) for each in sessions))
            await check_sessions(http, ledger, sessions)
            check_effects(worker.effects, ledger)
            note(number + 1)
        code, said = await command(
            "sessions", "verify", folder=folder, OSTINATO_STORE=url, OSTINATO_DATA_DIR=str(worker.data)
        )
        assert code == 0, said
        store = await open_store(url, worker.data, lease_seconds=30)
        try:
            for session in ledger.sessions:
                await ledger.check_store(session, store, settled=True)
        finally:
            await store.aclose()
    return Restarted(acknowledged=len(ledger), ends=ends)


class _Load:
    """Clients that ask for runs until the database is back; `running` is set when they are well under way."""

    def __init__(self, http: httpx.AsyncClient, ledger: Ledger, ends: Counter[str], random: Random) -> None:
        self.running = asyncio.Event()
        self.over = False
        self._http = http
        self._ledger = ledger
        self._ends = ends
        self._random = random
        self._left = random.randint(CLIENTS, 5 * CLIENTS)

    async def client(self, session: str) -> None:
        while not self.over:
            # Some are long, so that a restart falls into them.
            words = program(self._random) if self._random.random() < 0.5 else "4*mark 3*remark 2*stamp say:300"
            body = asking(words, thread=session)
            try:
                end = await follow(self._http, body, Ear(self._ledger.of(session), body))
            except Refused as refused:
                if refused.code != "store_unavailable":
                    raise
                how = "refused"
            else:
                how = end.get("code", "completed")
                assert how in ("completed", "store_unavailable", "worker_lost"), end
            self._ends[how] += 1
            self._left -= 1
            if self._left <= 0:
                self.running.set()

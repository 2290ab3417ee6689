"""SQLite's database is locked, full, read-only or gone for a while under a running server.

A run in mid-tool ends with one RUN_ERROR, new ones are refused before the first byte, readiness says so; when the
fault is over, all is well again by itself, and nothing that was acknowledged is lost.
"""

import asyncio
import os
import resource
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx

from agent_core.sessions.storage import open_store
from tests.faults.client import Refused, asking, calling, check_sessions, finish, follow
from tests.faults.gatehouse import Gatehouse
from tests.faults.ledger import Ear, Ledger, check_effects
from tests.faults.workers import Worker, command, started

Fault = Callable[[Worker, httpx.AsyncClient], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def locked(worker: Worker, http: httpx.AsyncClient) -> AsyncIterator[None]:
    """Another process holds the lock for writing."""
    conn = sqlite3.connect(worker.data / "sessions.db", timeout=30, isolation_level=None, check_same_thread=False)
    try:
        await asyncio.to_thread(conn.execute, "BEGIN IMMEDIATE")
        yield
        conn.execute("ROLLBACK")
    finally:
        conn.close()


@asynccontextmanager
async def full(worker: Worker, http: httpx.AsyncClient) -> AsyncIterator[None]:
    """No file of the server's can grow, and none has room for a page."""
    before = resource.prlimit(worker.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (4000, before[1]))
    try:
        yield
    finally:
        resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, before)


@asynccontextmanager
async def read_only(worker: Worker, http: httpx.AsyncClient) -> AsyncIterator[None]:
    """Make the data directory read-only. The server notices that when it opens the database again, and the other fault
    makes it do so."""
    files = [worker.data / "sessions.db", worker.data / "sessions.db-wal", worker.data / "sessions.db-shm"]
    for path in files:
        path.chmod(0o400)
    worker.data.chmod(0o500)
    try:
        async with full(worker, http):
            await http.get("/readyz")
        yield
    finally:
        worker.data.chmod(0o700)
        for path in files:
            if path.exists():
                path.chmod(0o600)


@asynccontextmanager
async def gone(worker: Worker, http: httpx.AsyncClient) -> AsyncIterator[None]:
    """The data directory is moved away, and back."""
    away = worker.data.with_name("away")
    worker.data.rename(away)
    try:
        yield
    finally:
        away.rename(worker.data)


FAULTS: dict[str, Fault] = {each.__name__: each for each in (locked, full, read_only, gone)}

UNPRIVILEGED = ("setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override", "--")
"""How root starts a server that a file's mode can keep out."""


async def break_the_store(folder: Path, name: str) -> None:
    """Raises AssertionError for whatever is not as it must be."""
    ledger = Ledger()
    prefix = UNPRIVILEGED if name == "read_only" and os.geteuid() == 0 else ()
    async with Gatehouse() as gate, started(folder, {"FAULTS_GATE": str(gate.port)}, prefix=prefix) as worker:
        async with calling(worker.url) as http:
            await finish(http, asking("mark say:2", thread="before"), ledger)
            body = asking("mark hold:x mark say:2", thread="held")
            held = asyncio.create_task(follow(http, body, Ear(ledger.of("held"), body)))
            await gate.arrived("x")
            async with FAULTS[name](worker, http):
                gate.let_go("x")
                await _check_unwell(http, held)
            await well(http)
            for session in ("before", "held", "new"):
                await finish(http, asking("mark say:2", thread=session), ledger)
            await check_sessions(http, ledger, list(ledger.sessions))
        await worker.end()
        await check_kept(worker, ledger)


async def _check_unwell(http: httpx.AsyncClient, held: "asyncio.Task[dict[str, object]]") -> None:
    answers = await asyncio.gather(_refusal(http, "before"), _refusal(http, "new"), http.get("/readyz"), held)
    assert answers[0] == answers[1] == (503, "store_unavailable")
    assert answers[2].status_code == 503
    assert answers[2].json()["error"]["code"] == "store_unavailable"
    assert (answers[3]["type"], answers[3].get("code")) == ("RUN_ERROR", "store_unavailable")
    assert (await http.get("/healthz")).status_code == 200


async def _refusal(http: httpx.AsyncClient, session: str) -> tuple[int, str]:
    body = asking("mark say:2", thread=session)
    try:
        end = await follow(http, body, Ear(Ledger().of(session), body))
    except Refused as refused:
        return refused.status, refused.code
    raise AssertionError(f"a run was taken: {end}")


async def well(http: httpx.AsyncClient) -> None:
    """Return when the server is ready again; TimeoutError after a while."""
    async with asyncio.timeout(30):
        while (await http.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - nobody else can tell
            await asyncio.sleep(0.02)


async def check_kept(worker: Worker, ledger: Ledger) -> None:
    """Of a server that has ended: its data, entry by entry, and what its tools did."""
    code, said = await command("sessions", "verify", "--data-dir", str(worker.data), folder=worker.folder)
    assert code == 0, said
    store = await open_store("sqlite", worker.data, lease_seconds=30)
    try:
        for session in ledger.sessions:
            await ledger.check_store(session, store, settled=True)
    finally:
        await store.aclose()
    check_effects(worker.effects, ledger)

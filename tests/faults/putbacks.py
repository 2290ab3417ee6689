"""An older copy of the database is put under the anchor of a server that was killed, as docs/journal.md says it.

First there are sessions with runs, then a copy of the data, more runs, and kill -9. Then the copy's database is put in
place. The server refuses sessions that have lost entries and runs the others, also after it is killed again. `verify`
tells what is missing until the operator says `accept`.
"""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.faults.client import Refused, asking, calling, finish, streaming
from tests.faults.ledger import Ledger
from tests.faults.outages import check_kept
from tests.faults.workers import Worker, command, started

LOST, KEPT = ("lost-0", "lost-1"), ("kept-0", "kept-1")


async def put_back_and_accept(folder: Path) -> None:
    """Raises AssertionError for whatever is not as it must be."""
    async with started(folder) as worker:
        await _run(worker, *LOST, *KEPT)
        await worker.end()
        shutil.copytree(worker.data, folder / "backup")
        await worker.start()
        await _lose(worker)
        restore(folder / "backup", worker.data)
        await worker.start()
        await _check_refused(worker)
        await worker.kill()
        await worker.start()
        await _check_refused(worker)
        await worker.end()
        code, said = await _sessions(worker, "verify")
        assert (code, said.count("is missing: the anchor has seen")) == (1, len(LOST)), said
        code, said = await _sessions(worker, "accept")
        assert code == 0, said
        assert (await _sessions(worker, "verify"))[0] == 0
        await worker.start()
        ledger = Ledger()
        await _run(worker, *LOST, *KEPT, "gone", ledger=ledger)
        await worker.end()
        await check_kept(worker, ledger)


def restore(backup: Path, data: Path) -> None:
    """The database alone: with the log of another state beside it, it would be damaged."""
    for name in ("sessions.db", "sessions.db-wal", "sessions.db-shm"):
        (data / name).unlink(missing_ok=True)
    shutil.copy(backup / "sessions.db", data / "sessions.db")


async def _lose(worker: Worker) -> None:
    """Runs that the copy has not, in a session that it has not too; and one under way when the server is killed."""
    for _ in range(2):
        await _run(worker, *LOST, "gone")
    async with calling(worker.url) as http, streaming(http, asking("say:1000000", thread=LOST[0])) as frames:
        await anext(frames)
        await worker.kill()


async def _run(worker: Worker, *sessions: str, ledger: Ledger | None = None) -> None:
    ledger = Ledger() if ledger is None else ledger
    async with calling(worker.url) as http:
        await asyncio.gather(*(finish(http, asking("mark say:2", thread=each), ledger) for each in sessions))


async def _check_refused(worker: Worker) -> None:
    before = worker.log().count("is not the one that the journal's anchor has seen (")
    async with calling(worker.url) as http:
        for _ in range(3):
            for session in LOST:
                with pytest.raises(Refused, match="503 store_unavailable"):
                    await finish(http, asking("mark say:2", thread=session), Ledger())
        response = await http.get("/readyz")
        assert response.status_code == 200, response.text
    await _run(worker, *KEPT)
    lines = worker.log().count("is not the one that the journal's anchor has seen (") - before
    assert lines == len(LOST), worker.log()


async def _sessions(worker: Worker, verb: str) -> tuple[int, str]:
    return await command("sessions", verb, "--data-dir", str(worker.data), folder=worker.folder)

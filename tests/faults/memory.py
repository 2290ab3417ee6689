"""What a server's memory does: heavy events, hidden turns of conversations, and clients that never read."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from tests.faults.client import calling
from tests.faults.workers import Worker
from tests.serving import run_input

AGENTS = Path(__file__).with_name("heavy_agents.py")

MB = 1_000_000

KINDS = ("answer", "ask", "progress", "image")
"""What the events of a run hold: a long text, an interrupt, progress, media."""

PICK = {"type": "function", "function": {"name": "pick", "parameters": {"type": "object", "properties": {}}}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """In MB: what the server had before, and what it had more afterwards, or at the most."""

    before: float
    more: float


def resident(worker: Worker, name: str = "VmRSS") -> float:
    """MB of memory that the server has; with VmHWM, that it has had at the most."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{worker.pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1_000


async def keep_heavy_events(folder: Path, log_bytes: int, runs: int) -> Memory:
    """So many runs of each kind, whose events are kept up to so many bytes."""
    variables = {"OSTINATO_STORE": "sqlite", "OSTINATO_LOG_BYTES": str(log_bytes), "OSTINATO_LOG_SECONDS": "3600"}
    async with _serving(folder, variables) as worker, calling(worker.url) as http:
        for kind in KINDS:
            await _run(http, kind, "warm")
        before = resident(worker)
        for kind in KINDS:
            for number in range(runs):
                await _run(http, kind, f"s{number}")
        return Memory(before=before, more=resident(worker) - before)


async def keep_hidden_turns(folder: Path, requests: int, size: int) -> Memory:
    """So many unnamed conversations of so many bytes that wait for their clients, in memory."""
    async with _serving(folder, {"OSTINATO_STORE": "memory"}) as worker, calling(worker.url) as http:
        await _leave_hidden_turn(http, 0, 1_000)
        before = resident(worker)
        for number in range(requests):
            await _leave_hidden_turn(http, number, size)
        return Memory(before=before, more=resident(worker) - before)


async def cut_off(folder: Path, clients: int, length: int) -> Memory:
    """So many clients that read nothing of an answer of so many characters, all cut off in the same moment: what the
    server had when they did not get any further, and what it had more at the most."""
    variables = {"OSTINATO_STORE": "sqlite", "OSTINATO_STALLED_SECONDS": "4"}
    async with _serving(folder, variables) as worker:
        deaf = [_ask_and_read_nothing(worker.url, f"long:{length}", f"t{number}") for number in range(clients)]
        try:
            before = await _settled(worker)
            async with calling(worker.url) as http:
                begun = await _last_written(http, clients)
                while begun & await _last_written(http, clients):  # noqa: ASYNC110 - it is another process
                    await asyncio.sleep(0.2)
            await _settled(worker)
            return Memory(before=before, more=resident(worker, "VmHWM") - before)
        finally:
            for each in deaf:
                each.close()


@asynccontextmanager
async def _serving(folder: Path, variables: dict[str, str]) -> AsyncIterator[Worker]:
    worker = Worker(folder, variables)
    try:
        await worker.start(target=AGENTS)
        yield worker
    finally:
        await worker.aclose()


async def _run(http: httpx.AsyncClient, kind: str, session: str) -> None:
    response = await http.post("/agui", json=run_input(kind, thread=f"{kind}-{session}"))
    assert '"RUN_FINISHED"' in response.text, response.text[-300:]


async def _leave_hidden_turn(http: httpx.AsyncClient, number: int, size: int) -> None:
    said = {"role": "user", "content": f"half {number} {'x' * size}"}
    response = await http.post("/v1/chat/completions", json={"model": "heavy", "messages": [said], "tools": [PICK]})
    assert response.json()["choices"][0]["finish_reason"] == "tool_calls", response.text[:300]


def _ask_and_read_nothing(url: str, words: str, thread: str) -> socket.socket:
    body = json.dumps(run_input(words, thread=thread)).encode()
    address = urlsplit(url)
    head = f"POST /agui HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
    made.connect((address.hostname, address.port))
    made.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return made


async def _settled(worker: Worker) -> float:
    """The server's memory when it has stopped to grow for a second."""
    seen: Sequence[float] = (0.0,)
    while len(seen) < 6 or seen[-1] - seen[-6] > 1:
        await asyncio.sleep(0.2)
        seen = (*seen, resident(worker))
    return seen[-1]


async def _last_written(http: httpx.AsyncClient, sessions: int) -> set[tuple[str, str]]:
    """When each session was last written to."""
    found = (await http.get("/sessions", params={"limit": sessions})).json()["sessions"]
    assert len(found) == sessions
    return {(each["id"], each["updatedAt"]) for each in found}

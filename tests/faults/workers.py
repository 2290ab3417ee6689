"""Servers as processes of their own, which can be killed, paused and started again on the same data."""

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.app.command.test_cli import environment

AGENTS = Path(__file__).with_name("agents.py")
TICKS = os.sysconf("SC_CLK_TCK")

Note = Callable[[int], None]
"""Told how many rounds are done."""


def unnoted(done: int) -> None:
    """Nobody wants to know."""


class NotServed(Exception):
    """The server ended instead of listening: its exit code, and what it said to stderr."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(f"exit code {code}: {said}")
        self.code = code
        self.said = said


class Worker:
    """One server process at a time, with `folder` for what it keeps: `data`, `server.log`, `effects`.

    It stays on its port when it is started again. `variables` are added to a clean environment.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str], *, prefix: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.effects = folder / "effects"
        self.url = ""
        self._variables = {
            "OSTINATO_DATA_DIR": str(self.data),
            "OSTINATO_LOG_LEVEL": "warning",
            "FAULTS_EFFECTS": str(self.effects),
            **variables,
        }
        self._prefix = prefix
        self._port = "0"
        self._process: Process | None = None
        folder.mkdir(exist_ok=True)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self, *, target: Path | None = AGENTS) -> str:
        """Returns the URL when it listens. Raises NotServed."""
        command = (*self._prefix, sys.executable, "-m", "ostinato", "serve", *([str(target)] if target else []))
        with (self.folder / "server.log").open("ab") as log:
            start = log.tell()
            self._process = process = await asyncio.create_subprocess_exec(
                *command,
                "--port",
                self._port,
                cwd=self.folder,
                env=environment(**self._variables),
                stdout=PIPE,
                stderr=log,
            )
        assert process.stdout is not None
        async with asyncio.timeout(60):
            first = (await process.stdout.readline()).decode()
        found = re.search(r"http://\S+:([0-9]+)", first)
        if found is None:
            code = await self.ended()
            raise NotServed(code, first + self.log()[start:])
        self.url, self._port = found[0], found[1]
        return self.url

    async def ended(self) -> int:
        """Wait for the end of the process: its exit code, negative for a signal."""
        assert self._process is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(120):
            code = await self._process.wait()
            await self._process.stdout.read()  # to its end, so that the pipe is closed
        self._process = None
        return code

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        """kill -9."""
        self.send(signal.SIGKILL)
        assert await self.ended() == -signal.SIGKILL

    async def end(self) -> None:
        """SIGTERM, and wait."""
        self.send(signal.SIGTERM)
        assert await self.ended() == -signal.SIGTERM

    def cpu(self) -> float:
        """Seconds of CPU that the process has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def log(self) -> str:
        path = self.folder / "server.log"
        return path.read_text() if path.exists() else ""

    async def aclose(self) -> None:
        """Kill it if it still runs."""
        if self._process is not None:
            if self._process.returncode is None:
                self._process.kill()
            await self.ended()


@asynccontextmanager
async def started(
    folder: Path, variables: Mapping[str, str] | None = None, *, prefix: tuple[str, ...] = ()
) -> AsyncIterator[Worker]:
    """A worker that serves, on SQLite unless the variables say otherwise; killed at the end."""
    worker = Worker(folder, {"OSTINATO_STORE": "sqlite", **(variables or {})}, prefix=prefix)
    try:
        await worker.start()
        yield worker
    finally:
        await worker.aclose()


async def command(*arguments: str, folder: Path, **variables: str) -> tuple[int, str]:
    """An `ostinato` command: its exit code, and what it said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ostinato", *arguments, cwd=folder, env=environment(**variables), stdout=PIPE, stderr=PIPE
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, (out + err).decode()

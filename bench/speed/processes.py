"""The processes that are measured or help to: started on a core of their own, and watched by /proc."""

import asyncio
import os
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from tests.app.command.test_cli import environment

ROOT = Path(__file__).resolve().parents[2]
AGENTS = ROOT / "bench" / "agents.py"

UPSTREAM = ("-m", "bench.speed.upstream")
FLOOR = ("-m", "bench.speed.floor")
OURS = ("-m", "ostinato", "serve", str(AGENTS), "--port", "0")
FILLED = ("-m", "bench.speed.served")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A process that listens. `began` is when it was started, by `perf_counter`."""

    url: str
    pid: int
    began: float

    def cpu(self) -> float:
        """Seconds of CPU that its threads have used, for themselves and in the kernel. To the microsecond, where `stat`
        counts hundredths of a second; a thread that has ended is left out."""
        threads = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(each.read_text().split()[0]) for each in threads) / 1e9

    def memory(self) -> float:
        """kB of memory that it holds."""
        found = re.search(r"VmRSS:\s+([0-9]+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert found is not None
        return float(found[1]) * 1.024


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What every section is measured with.

    - upstream: the model provider
    - folder: for what servers keep; each section has one of its own
    - core: that of the measured server; this process and all others have another one
    - rounds: how often all sides are started again
    - pace: makes loads longer or shorter; below 1 only shows that they work
    """

    upstream: Server
    folder: Path
    core: int
    rounds: int = 3
    pace: float = 1.0

    def ours(self, folder: Path, store: str, **more: str) -> AbstractAsyncContextManager[Server]:
        """A server of this project, as its users start it."""
        return listening(OURS, folder, self.core, self._variables(folder, store, more))

    def filled(self, folder: Path, store: str, **more: str) -> AbstractAsyncContextManager[Server]:
        """One whose store is filled first."""
        return listening(FILLED, folder, self.core, self._variables(folder, store, more))

    def floor(self, folder: Path) -> AbstractAsyncContextManager[Server]:
        return listening(FLOOR, folder, self.core, self._variables(folder, "memory", {}))

    def side(self, name: str, folder: Path) -> AbstractAsyncContextManager[Server]:
        """The floor, or a server with the store of that name."""
        return self.floor(folder) if name == "floor" else self.ours(folder, name)

    def _variables(self, folder: Path, store: str, more: Mapping[str, str]) -> dict[str, str]:
        return {
            "OPENAI_BASE_URL": f"{self.upstream.url}/v1",
            "OPENAI_API_KEY": "bench",
            "OSTINATO_LOG_LEVEL": "error",
            "OSTINATO_STORE": store,
            "OSTINATO_DATA_DIR": str(folder / "data"),
            **more,
        }


@asynccontextmanager
async def listening(
    command: Sequence[str], folder: Path, core: int, variables: Mapping[str, str] | None = None
) -> AsyncIterator[Server]:
    """The Python process of the command, as soon as it prints its URL; killed at the end. Raises RuntimeError."""
    folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240  # nothing else runs then
    began = perf_counter()
    with (folder / "server.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            cwd=folder,
            env=environment(PYTHONPATH=str(ROOT), **(variables or {})),
            stdout=PIPE,
            stderr=log,
        )
    os.sched_setaffinity(process.pid, {core})  # before it has threads, which inherit it
    try:
        assert process.stdout is not None
        async with asyncio.timeout(300):
            first = (await process.stdout.readline()).decode()
        found = re.search(r"http://\S+:[0-9]+", first)
        if found is None:
            raise RuntimeError(f"{' '.join(command)} did not start: {(folder / 'server.log').read_text()[-2000:]}")
        yield Server(url=found[0], pid=process.pid, began=began)
    finally:
        if process.returncode is None:
            process.kill()
        assert process.stdout is not None
        await process.stdout.read()
        await process.wait()

"""A process that tries mutants in its own copy of the tree: python -m bench.mutants.worker ROOT

It reads one job a line from its input and writes one outcome a line. What takes long to import and is never mutated is
imported once; each job runs in a fork, and a fork that hangs is killed with all that it started.
"""

import importlib
import itertools
import json
import os
import resource
import signal
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from bench.mutants.tracing import Tracing

IMPORTED = (
    "aiohttp",
    "ag_ui.core",
    "asyncpg",
    "fastapi",
    "httpx_aiohttp",
    "hypothesis.stateful",
    "jsonschema_rs",
    "pytest_asyncio",
    "sqlalchemy.dialects.postgresql.asyncpg",
    "sqlalchemy.ext.asyncio",
    "sse_starlette",
    "uvicorn",
    "uvloop",
)
MEMORY = 6_000_000_000
HANGS_AT = "hangs_at"
HANGING = 5.0
"""Seconds that a test which has had its time gets to end."""

QUIET = ("-q", "-x", "-n0", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")


class Limits:
    """A plugin for pytest: how long each test may take. In the file stands until when the present one may: some hang
    so that nothing in their own process ends them."""

    def __init__(self, seconds: dict[str, float], file: Path) -> None:
        self._seconds = seconds
        self._file = file

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._file.write_text(str(monotonic() + self._seconds.get(nodeid, HANGING) + HANGING))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if item.nodeid in self._seconds:
                item.add_marker(pytest.mark.timeout(self._seconds[item.nodeid]))


def main(root: Path) -> None:
    os.chdir(root)
    output = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(root / "worker.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os.dup2(1, 2)
    for name in IMPORTED:
        importlib.import_module(name)
    server = _postgres()
    try:
        for number, line in enumerate(sys.stdin):
            job = json.loads(line)
            print(json.dumps(_carry_out(root, job, number)), file=output, flush=True)
    finally:
        if server is not None:
            server.remove()


def _postgres() -> Any:
    """One server for all forks: to start one takes longer than most of them."""
    from tests import postgres

    return postgres.postgres_server() if postgres._find_tools() else None


def _carry_out(root: Path, job: Any, number: int) -> dict[str, Any]:
    began = monotonic()
    original = {path: (root / path).read_bytes() for path in job.get("files", {})}
    try:
        for path, text in job.get("files", {}).items():
            (root / path).write_text(text)
        outcome = _in_a_fork(root, job, number, began + job["limit"])
    finally:
        for path, source in original.items():
            (root / path).write_bytes(source)
    return {"outcome": outcome, "seconds": round(monotonic() - began, 1), "killer": _killer(root)}


def _in_a_fork(root: Path, job: Any, number: int, until: float) -> str:
    (root / HANGS_AT).unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _test(root, job, number)
    try:
        while monotonic() < until:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                return {0: "survived", 1: "killed"}.get(code, f"killed (exit code {code})")
            if _hangs(root):
                return "killed"
            sleep(0.02)
        return "survived"  # as far as the tests came; one that hangs has a limit of its own
    finally:
        try:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def _hangs(root: Path) -> bool:
    """Whether the present test has its time behind it, and more."""
    try:
        return monotonic() > float((root / HANGS_AT).read_text())
    except (FileNotFoundError, ValueError):  # none has begun
        return False


def _test(root: Path, job: Any, number: int) -> None:
    """In the fork: run the tests, and end without looking back."""
    code = 70
    try:
        os.setsid()
        log = os.open(root / "tests.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        sys.dont_write_bytecode = "trace" not in job
        sys.modules["tests.postgres"]._numbers = itertools.count(number * 10_000)  # type: ignore[attr-defined]
        arguments = [*QUIET, *job["tests"]]
        if "trace" in job:
            tracing = Tracing(root, job["trace"])
            tracing.begin()
            code = int(pytest.main([*arguments, "--maxfail=1000000"], plugins=[tracing]))
            tracing.write(root / "trace.json")
        else:
            code = int(pytest.main(arguments, plugins=[Limits(job["timeouts"], root / HANGS_AT)]))
    finally:
        sys.stdout.flush()
        os._exit(code)


def _killer(root: Path) -> str:
    """The test that failed."""
    found = [
        line for line in (root / "tests.log").read_text(errors="replace").splitlines() if line.startswith("FAILED ")
    ]
    return found[0].removeprefix("FAILED ").split(" - ")[0] if found else ""


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""CPU per run of the OpenAI endpoint against the AG-UI one: the same server, agent and upstream, in turn.

    python bench/endpoints.py FOLDER [--rounds 5] [--seconds 5]

FOLDER holds the scripted upstream and the load client. The server has one core, the client and the
upstream another. Prints the medians and the median of the ratios, round by round.
"""

import argparse
import asyncio
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PORT, UPSTREAM = 9301, 9102
MARKERS = {"T0c64": "bench:T", "T5c64": "bench:T:d=5"}
AT_ONCE = 64


def agui(marker: str, number: int) -> bytes:
    some = f"{number}-{time.time_ns()}"  # a thread of its own each time
    message = {"id": f"m{some}", "role": "user", "content": f"hello {marker}"}
    ids = {"threadId": f"t{some}", "runId": f"r{some}"}
    return json.dumps(ids | {"messages": [message], "tools": [], "context": [], "state": {}}).encode()


def openai(marker: str, number: int) -> bytes:
    message = {"role": "user", "content": f"hello {marker} {number}"}
    return json.dumps({"model": "bench", "stream": True, "messages": [message]}).encode()


ENDPOINTS = {
    "/agui": (agui, b'"RUN_FINISHED"'),
    "/v1/chat/completions": (openai, b"data: [DONE]"),
}


async def measure(load: Any, path: str, marker: str, seconds: float, pid: int) -> float:
    """CPU milliseconds of the server for each run."""
    body, ending = ENDPOINTS[path]
    numbers = iter(range(10**9))
    until = time.perf_counter() + seconds
    done = 0

    async def worker() -> None:
        nonlocal done
        client = load.Client(f"http://127.0.0.1:{PORT}{path}")
        while time.perf_counter() < until:
            status, data, *_ = await client.post(body(marker, next(numbers)))
            if status != 200 or ending not in data[-400:] or b'"error"' in data:
                raise SystemExit(f"{path} did not finish a run: {status} {data[-300:]!r}")
            done += 1
        client.close()

    before = load.cpu(pid)
    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return float((load.cpu(pid) - before) * 1000 / done)


def compare(folder: Path, rounds: int, seconds: float) -> dict[str, tuple[float, float, float]]:
    """(OpenAI's ms, AG-UI's ms, ratio) for each scenario."""
    sys.path.insert(0, str(folder))
    load = importlib.import_module("load")
    pin = ["taskset", "-c"]
    upstream = subprocess.Popen(
        [*pin, "1", sys.executable, str(folder / "upstream.py")],
        env={**os.environ, "PORT": str(UPSTREAM)}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    server = subprocess.Popen(
        [*pin, "0", f"{ROOT}/.venv/bin/ostinato", "serve", f"{ROOT}/bench/agents.py", "--port", str(PORT)],
        env={**os.environ, "OPENAI_BASE_URL": f"http://127.0.0.1:{UPSTREAM}/v1", "OPENAI_API_KEY": "x",
             "OSTINATO_LOG_LEVEL": "error"},
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    os.sched_setaffinity(0, {1})
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in MARKERS}
    try:
        time.sleep(2)
        for path in ENDPOINTS:
            asyncio.run(measure(load, path, "bench:T", 1, server.pid))
        for _ in range(rounds):
            for name, marker in MARKERS.items():
                ours, theirs = (
                    asyncio.run(measure(load, path, marker, seconds, server.pid))
                    for path in ("/v1/chat/completions", "/agui")
                )
                found[name].append((ours, theirs))
    finally:
        for process in (server, upstream):
            process.terminate()
            process.wait(10)
    return {
        name: (
            statistics.median(ours for ours, _ in pairs),
            statistics.median(theirs for _, theirs in pairs),
            statistics.median(ours / theirs for ours, theirs in pairs),
        )
        for name, pairs in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    given = parser.parse_args()
    print(f"{'scenario':10} {'openai ms':>10} {'ag-ui ms':>10} {'ratio':>7}")
    for name, (ours, theirs, ratio) in compare(given.folder, given.rounds, given.seconds).items():
        print(f"{name:10} {ours:10.2f} {theirs:10.2f} {ratio:7.2f}")


if __name__ == "__main__":
    main()

"""Measure the streaming path and write docs/performance.md.

    python bench/report.py FOLDER [--rounds 3]

FOLDER holds the measuring scripts (upstream, load client, floors); they run with this interpreter. The
figure to quote is the ratio of CPU per run, ours over a floor without an engine, taken in turn.
"""

import argparse
import importlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
URL = "http://127.0.0.1:9300/agui"
COMMAND = (
    "env OPENAI_BASE_URL={base} OPENAI_API_KEY=x OSTINATO_LOG_LEVEL=error "
    f"{ROOT}/.venv/bin/ostinato serve {ROOT}/bench/agents.py --store memory --port 9300"
)
LIMITS = {"T0c64": 0.9, "R0c64": 1.1, "T5c64": 1.25, "F0c8": 3.0}
MEANING = {
    "T0c64": "200 chunks in one write, 64 runs at once (throughput)",
    "R0c64": "a tool call, then 200 chunks",
    "T5c64": "200 chunks, 5 ms apart: each a wake-up of its own, like a real model",
    "F0c8": "a run of one chunk, 8 at once: the fixed cost of a run",
}
PEERS = """\
| server | T0c64 | R0c64 | T5c64 | fixed (1 chunk) | 500 real streams | start |
|---|---|---|---|---|---|---|
| the official openai SDK, sse-starlette, no engine | 33 | 37 | 35 | | | |
| openai-agents behind a thin adapter | 42 | 49 | 48 | 5.1 | 38 s | 2.1 s |
| agno 3.1 | 63 | 63 | 65 | 5.5 | 45 s | 2.1 s |
| Microsoft agent-framework-ag-ui 1.7 | 69 | 77 | 85 | 6.2 | 76 s | 1.2 s |
| Strands | 71 | 131 | 86 | 27 | 53 s | 1.9 s |
| pydantic-ai 2.68 | 97 | 107 | 103 | 7.4 | 77 s | 1.6 s |
| LangGraph (ag-ui-langgraph, RAW off) | 113 | 124 | 115 | 25 | 22 of 500 finished | 1.9 s |
| Google ADK (ag-ui-adk) | 181 | 206 | 210 | 22 | 311 of 500 finished | 5.7 s |
| AgentScope (Python) | 279 | 298 | 283 | 16 | 57 of 500 finished | 2.7 s |
| the floor `aiohttp_sse` on that machine | 4.1 | 4.3 | 9.7 | | 12 s | 0.5 s |"""

ROW = re.compile(r"^(\w+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s*$", re.MULTILINE)


def ratios(folder: Path, rounds: int) -> tuple[dict[str, tuple[float, float, float]], float]:
    """(ours in ms, floor in ms, ratio) for each scenario, and the seconds to the first good run."""
    command = [
        sys.executable, str(folder / "ratio.py"), "--cmd", COMMAND, "--url", URL,
        "--scen", ",".join(LIMITS), "--rounds", str(rounds),
    ]  # fmt: skip
    out = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    print(out)
    rows = {name: (float(ours), float(floor), float(ratio)) for name, ours, floor, ratio in ROW.findall(out)}
    first = re.search(r"first successful run after ([\d.]+) s", out)
    if set(rows) != set(LIMITS) or first is None:
        sys.exit("the measuring script printed something else than expected")
    return rows, float(first[1])


def many_streams(folder: Path) -> dict[str, float]:
    """500 streams with 10 000 chunks a second offered, and the memory after start."""
    with tempfile.TemporaryDirectory() as results:
        command = [
            sys.executable, str(folder / "compare.py"), "ours", "--cmd", COMMAND, "--url", URL, "--scen", "idle500",
        ]  # fmt: skip
        subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "BENCH_RESULTS": results})
        record = json.loads((Path(results) / "ours.jsonl").read_text().splitlines()[-1])
    streams = record["idle500"]
    return {
        "finished": streams["finished"],
        "wall": streams["wall"],
        "kib": streams["kib_stream"],
        "start_mib": record["rss_start"],
    }


def page(
    rows: dict[str, tuple[float, float, float]],
    first: float,
    many: dict[str, float],
    both: dict[str, tuple[float, float, float]],
    rounds: int,
) -> str:
    table = "\n".join(
        f"| {name} | {MEANING[name]} | {ours:.2f} | {floor:.2f} | **{ratio:.2f}** | {LIMITS[name]} |"
        for name, (ours, floor, ratio) in rows.items()
    )
    table_of_both = "\n".join(
        f"| {name} | {ours:.2f} | {agui:.2f} | {ratio:.2f} |" for name, (ours, agui, ratio) in both.items()
    )
    return f"""\
# Performance

Written by `make bench` on {date.today().isoformat()} ({platform.machine()}, Python
{platform.python_version()}, one worker pinned to one core, client and upstream on another; median of {rounds} rounds).
Do not edit by hand.

## CPU per run, against a server without an engine

The floor `aiohttp_sse` forwards the same upstream through aiohttp and sse-starlette, event by event, with
no engine, no session and no checks. Both are measured in turn; the ratio is what holds on any machine.

| scenario | what | ours, ms | floor, ms | ratio | at most |
|---|---|---|---|---|---|
{table}

## Many streams

| what | measured | at most |
|---|---|---|
| 500 streams, 10 000 chunks/s offered: finished | {many["finished"]:.0f} of 500 | |
| 500 streams, 10 000 chunks/s offered: time | {many["wall"]:.1f} s | 15 s |
| memory for each of them | {many["kib"]:.0f} KiB | 130 KiB |
| memory after start | {many["start_mib"]:.0f} MiB | 90 MiB |
| first successful answer after the process starts | {first:.2f} s | 1.0 s |

## The OpenAI endpoint

`POST /v1/chat/completions` against `POST /agui`: the same server, agent and upstream, in turn (`bench/endpoints.py`).

| scenario | OpenAI, ms | AG-UI, ms | ratio |
|---|---|---|---|
{table_of_both}

## Public peers

CPU ms per run of 200 chunks with the same scripts, each server with its own AG-UI adapter, measured
on another machine of two shared cores (median of 3 rounds; Python 3.12, one worker, uvloop,
httptools). Compare them with the floor's row of that machine, not with the figures above.

{PEERS}

Where their time goes: models built per chunk by the SDK, a pydantic adapter per event, a RAW copy of
every event, a client per call, several task hops per chunk.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    rows, first = ratios(given.folder, given.rounds)
    many = many_streams(given.folder)
    both = importlib.import_module("endpoints").compare(given.folder, given.rounds, 5)
    (ROOT / "docs" / "performance.md").write_text(page(rows, first, many, both, given.rounds))
    print("written: docs/performance.md")
    over = [name for name, (_, _, ratio) in rows.items() if ratio > LIMITS[name]]
    if over:
        print(f"over the limit: {', '.join(over)}")


if __name__ == "__main__":
    main()

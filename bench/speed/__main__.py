"""Measure how fast the server is, against a floor and as things grow, and write docs/performance.md.

    python -m bench.speed [--only streams,growth] [--rounds 3] [--pace 1]

Exit code 1 where a stream was wrong or a server did not start; a missed target is told, and fails nothing. With --only
or another pace, the page is left as it is.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import monotonic

import uvloop

from bench.accept.page import machine
from bench.speed.growth import growth
from bench.speed.page import page
from bench.speed.processes import ROOT, UPSTREAM, Bench, listening
from bench.speed.scenarios import WrongStream
from bench.speed.streams import memory, starts, stores, streams
from bench.speed.tables import Table

Section = Callable[[Bench], Awaitable[Sequence[Table]]]
SECTIONS: dict[str, Section] = {
    "streams": streams,
    "starts": starts,
    "memory": memory,
    "stores": stores,
    "growth": growth,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bench.speed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", type=lambda text: text.split(","), help=", ".join(SECTIONS))
    parser.add_argument("--rounds", type=int, default=3, help="fresh processes of each side")
    parser.add_argument("--pace", type=float, default=1.0, help="how long loads are; 0.1 only shows that it works")
    given = parser.parse_args()
    unknown = set(given.only or ()) - set(SECTIONS)
    if unknown:
        parser.error(f"there is no section {', '.join(sorted(unknown))}")
    began, before = monotonic(), os.getloadavg()[0]
    tables, broken = uvloop.run(measure(given.only or list(SECTIONS), given.rounds, given.pace))
    if broken:
        sys.exit(f"not measured: {', '.join(broken)}")
    if given.only is None and given.pace == 1 and given.rounds >= 3:
        loads = (before, os.getloadavg()[0])
        minutes = (monotonic() - began) / 60
        text = page(tables, machine=machine(), rounds=given.rounds, loads=loads, minutes=minutes)
        (ROOT / "docs" / "performance.md").write_text(text)
        print("written: docs/performance.md")


async def measure(names: Sequence[str], rounds: int, pace: float) -> tuple[list[Table], list[str]]:
    """The tables of these sections, and the names of those that broke."""
    tables: list[Table] = []
    broken = []
    cores = sorted(before := os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})  # PostgreSQL inherits it
    try:
        with tempfile.TemporaryDirectory(prefix="ostinato-bench-", ignore_cleanup_errors=True) as name:
            async with listening(UPSTREAM, Path(name) / "upstream", cores[-1]) as upstream:
                for each in names:
                    began, folder = monotonic(), Path(name) / each
                    bench = Bench(upstream=upstream, folder=folder, core=cores[0], rounds=rounds, pace=pace)
                    try:
                        found = await SECTIONS[each](bench)
                    except (WrongStream, RuntimeError, OSError, TimeoutError) as error:
                        print(f"{each}: {type(error).__name__}: {error}\n", flush=True)
                        broken.append(each)
                        continue
                    tables += found
                    print("\n".join(table.markdown() for table in found))
                    print(f"({each}: {monotonic() - began:.0f} s)\n", flush=True)
    finally:
        os.sched_setaffinity(0, before)
    return tables, broken


if __name__ == "__main__":
    main()

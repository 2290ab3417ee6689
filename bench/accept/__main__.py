"""Measure what the server promises, against real processes, and write docs/reliability.md.

    python -m bench.accept [--only start,kills]

Exit code 1 where something is over its limit or could not be measured. With --only, the page is left as it is.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import pytest

from bench.accept.checks import CHECKS, Check, Figure
from bench.accept.page import page
from bench.mutants.section import section_of

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bench.accept", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", type=lambda text: text.split(","), help=", ".join(each.name for each in CHECKS))
    only = parser.parse_args().only
    unknown = set(only or ()) - {each.name for each in CHECKS}
    if unknown:
        parser.error(f"there is no check {', '.join(sorted(unknown))}")
    results = [(check, _measure(check)) for check in CHECKS if only is None or check.name in only]
    if only is None:
        file = ROOT / "docs" / "reliability.md"
        file.write_text(page(results) + section_of(file.read_text()))
        print("written: docs/reliability.md")
    sys.exit(_sum_up(results))


def _measure(check: Check) -> Figure:
    print(f"{check.name}: {check.what} ", end="", flush=True)
    began = monotonic()
    with tempfile.TemporaryDirectory(prefix="ostinato-accept-", ignore_cleanup_errors=True) as folder:
        try:
            figure = asyncio.run(_run(check, Path(folder)))
        except pytest.skip.Exception as skipped:
            figure = Figure(measured=f"not measured: {skipped.msg}", passed=False)
        except Exception as error:
            print(f"\n{type(error).__name__}: {error}")
            figure = Figure(measured=f"failed ({type(error).__name__})", passed=False)
    print(f"\n    {figure.measured}; wanted: {check.limit} ({monotonic() - began:.0f} s)")
    return figure


async def _run(check: Check, folder: Path) -> Figure:
    return await check.measure(folder)


def _sum_up(results: Sequence[tuple[Check, Figure]]) -> int:
    failed = [check.name for check, figure in results if not figure.passed]
    print(f"not passed: {', '.join(failed)}" if failed else f"all {len(results)} passed")
    return 1 if failed else 0


if __name__ == "__main__":
    main()

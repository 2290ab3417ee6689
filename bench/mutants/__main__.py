"""Sow small faults, one at a time, and count how many the tests notice.

    python -m bench.mutants [--only journal,sql] [--sample 100] [--seed 6] [--processes 2]

Works in copies of the tree in a temporary folder. Of each area a seeded sample is tried: each mutant against the tests
of its area that run its line (any of them where none does, or where it runs at import), at most MOST of them and LIMIT
seconds. A test that hangs has noticed it; a mutant that the tests come to no end with has survived. Without --only, the
section of docs/reliability.md is written. Exit code 1 where an area is under TARGET.
"""

import argparse
import json
import queue
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.mutants.areas import AREAS, Area
from bench.mutants.mutations import Mutant, mutants_of
from bench.mutants.section import TARGET, Score, put_section

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 60.0
"""Seconds for one mutant."""

MOST = 300
"""Tests for one mutant."""

SLOW = 4.0
"""A test that takes so many times as long as without the fault, and 5 s, waits for what will not come."""


@dataclass(slots=True)
class Baseline:
    """What the tests do without any fault: which lines they run, how long they take, which of them to leave out."""

    lines: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def tests_for(self, mutant: Mutant, area: Area) -> list[str]:
        """The most related first, then one of each file in turn, the shortest first: not all may have their turn."""
        found = self.lines.get((mutant.path, mutant.line), {""})
        known = [each for each in self.seconds if (each in found or "" in found) and _place(each, area) >= 0]
        if not known:
            known = [each for each in self.seconds if _place(each, area) >= 0]
        name, turn, before = Path(mutant.path).stem, dict[str, int](), Counter[str]()
        for each in sorted(known, key=lambda each: self.seconds[each]):
            file = each.partition("::")[0]
            turn[each] = before[file]
            before[file] += 1
        return sorted(known, key=lambda each: (name not in each, turn[each], _place(each, area)))[:MOST]

    def limits_of(self, tests: Sequence[str]) -> dict[str, float]:
        """How many seconds each test may take: by far more than it does."""
        return {each: 5 + SLOW * self.seconds[each] for each in tests}


class Worker:
    """A process with a copy of the tree."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.mutants.worker", str(root)],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, **job: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(job), file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    options = _options()
    areas = [area for area in AREAS if options.only is None or area.name in options.only]
    with tempfile.TemporaryDirectory(prefix="ostinato-mutants-", ignore_cleanup_errors=True) as folder:
        workers = [Worker(_copy(Path(folder) / str(number))) for number in range(options.processes)]
        try:
            baseline = _baseline(workers, areas)
            scores = [_try(area, baseline, workers, options.sample, options.seed) for area in areas]
        finally:
            for worker in workers:
                worker.close()
    if options.only is None:
        put_section(ROOT / "docs" / "reliability.md", scores, options.seed)
        print("written: docs/reliability.md")
    sys.exit(1 if any(score.killed < TARGET * score.tried for score in scores) else 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [area.name for area in AREAS]
    parser.add_argument("--only", type=lambda text: text.split(","), help=", ".join(names))
    parser.add_argument("--sample", type=int, default=100, help="mutants of each area")
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    unknown = set(options.only or ()) - set(names)
    if unknown:
        parser.error(f"there is no area {', '.join(sorted(unknown))}")
    return options


def _copy(folder: Path) -> Path:
    """All that git knows or would take, with compiled modules that are held against their sources by content."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    subprocess.run(
        [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", folder], check=True
    )
    return folder


def _baseline(workers: Sequence[Worker], areas: Sequence[Area]) -> Baseline:
    """All tests without a fault, twice: traced, and as they are. Who fails in either is left out."""
    tests = list(dict.fromkeys(test for area in areas for test in area.tests))
    traced = [file for area in areas for file in area.files(workers[0].root)]
    print(f"which test runs which line of {len(traced)} files …", flush=True)
    done = workers[0].do(tests=tests, trace=traced, limit=3600.0)
    if not (workers[0].root / "trace.json").exists():
        sys.exit(f"the tests cannot be run: {done['outcome']}, {(workers[0].root / 'tests.log').read_text()[-2000:]}")
    found = json.loads((workers[0].root / "trace.json").read_text())
    if found["failed"]:
        print("not used, since they fail or are skipped as it is:", *found["failed"], sep="\n  ", flush=True)
    baseline = Baseline()
    baseline.seconds = {name: took for name, took in found["seconds"].items() if name not in found["failed"]}
    for name, lines in found["lines"].items():
        for path, line in lines:
            baseline.lines.setdefault((path, line), set()).add(name)
    return baseline


def _try(area: Area, baseline: Baseline, workers: Sequence[Worker], sample: int, seed: int) -> Score:
    root = workers[0].root  # and not the checkout, which may have changed meanwhile
    sources = {path: (root / path).read_bytes() for path in area.files(root)}
    mutants = [mutant for path, source in sources.items() for mutant in mutants_of(path, source)]
    chosen = random.Random(f"{seed} {area.name}").sample(mutants, min(sample, len(mutants)))
    free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    for worker in workers:
        free.put(worker)

    def one(mutant: Mutant) -> str:
        worker = free.get()
        try:
            tests = baseline.tests_for(mutant, area)
            done = worker.do(
                files={mutant.path: mutant.sown_in(sources[mutant.path]).decode()},
                tests=tests,
                timeouts=baseline.limits_of(tests),
                limit=LIMIT,
            )
        finally:
            free.put(worker)
        print(f"{done['outcome']:>12} {done['seconds']:5.1f} s  {mutant}  {done['killer']}", flush=True)
        return str(done["outcome"])

    with ThreadPoolExecutor(len(workers)) as threads:
        outcomes = list(threads.map(one, chosen))
    survivors = [mutant for mutant, outcome in zip(chosen, outcomes, strict=True) if outcome == "survived"]
    score = Score(area=area.name, possible=len(mutants), tried=len(chosen), survivors=tuple(map(str, survivors)))
    print(f"{area.name}: {score.killed} of {score.tried} killed\n", flush=True)
    return score


def _place(test: str, area: Area) -> int:
    """Where the test stands in the area's list; -1 where it does not."""
    for place, each in enumerate(area.tests):
        if test.startswith((f"{each}/", f"{each}::")):
            return place
    return -1


if __name__ == "__main__":
    main()

"""Which test runs which line: a plugin for pytest that traces the files in question, and nothing else.

What runs while modules are imported belongs to every test and is noted under the empty name.
"""

import json
import sys
import threading
from collections.abc import Generator, Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest


class Tracing:
    """Made for the paths to be traced; `write` when the tests are done."""

    def __init__(self, root: Path, paths: Iterable[str]) -> None:
        self._names = {str(root / path): path for path in paths}
        self._seen: set[tuple[CodeType, int]] = set()
        self._lines: dict[str, list[tuple[str, int]]] = {}
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    def begin(self) -> None:
        threading.settrace(self._enter)
        sys.settrace(self._enter)

    def write(self, file: Path) -> None:
        sys.settrace(None)
        threading.settrace(None)
        file.write_text(json.dumps({"lines": self._lines, "seconds": self.seconds, "failed": sorted(self.failed)}))

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        result = yield
        self._keep("")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        sys.settrace(self._enter)  # a test may have taken it away
        result = yield
        self._keep(item.nodeid)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if not report.passed:
            self.failed.add(report.nodeid)  # a skipped test notices nothing either

    def _keep(self, name: str) -> None:
        seen, self._seen = self._seen, set()
        self._lines[name] = sorted({(self._names[code.co_filename], line) for code, line in seen})

    def _enter(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename in self._names:
            return self._line(frame, event, None)
        return None

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:  # noqa: ARG002  # the signature of a tracer
        self._seen.add((frame.f_code, frame.f_lineno))
        return self._line

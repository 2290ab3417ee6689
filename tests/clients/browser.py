"""Chat clients in Chromium: one browser for all tests, a tab for each; the pages stand in node/pages."""

import asyncio
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.clients.processes import NODE
from tests.missing import skip_without

Shown = dict[str, Any]
NAMES = ("chromium", "chromium-browser", "google-chrome")


class Browser:
    """The process that drives it; each of its commands stands in node/browser.mjs. `origin` is that of the pages."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._turn = threading.Lock()
        self._number = 0
        self.origin: str = self._read()["origin"]

    async def tell(self, do: str, **given: Any) -> Any:
        """Let it do something; returns what it tells of it. The server goes on meanwhile."""
        answer = await asyncio.to_thread(self._ask, {"do": do, **given})
        assert "failed" not in answer, answer["failed"]
        return answer

    async def open(self, page: str, server: str, **asked: str) -> "Tab":
        self._number += 1
        tab = Tab(self, str(self._number))
        await self.tell("open", name=tab.name, page=page, server=server, **asked)
        return tab

    def _ask(self, command: dict[str, Any]) -> Any:
        with self._turn:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
            return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the browser ended"
        return json.loads(line)


class Tab:
    """A page. `shown` are the messages that it shows, `requests` the bodies of all runs that it asked for."""

    def __init__(self, browser: Browser, name: str) -> None:
        self.browser = browser
        self.name = name
        self.shown: list[Shown] = []
        self.requests: list[dict[str, Any]] = []
        self.waiting = 0

    async def act(self, *steps: dict[str, Any], runs: int = 1) -> list[dict[str, Any]]:
        """Do these steps, and wait until so many runs came of it. Returns the bodies of their requests."""
        found = await self.browser.tell("act", name=self.name, steps=steps, runs=runs)
        self._take(found)
        sent: list[dict[str, Any]] = found["requests"]
        self.requests += sent
        assert len(sent) == runs, "as many runs as were expected"
        return sent

    async def say(self, text: str, runs: int = 1) -> list[dict[str, Any]]:
        return await self.act({"say": text}, runs=runs)

    async def press(self, button: str, of: str | None = None, runs: int = 1) -> list[dict[str, Any]]:
        return await self.act({"press": button} | ({} if of is None else {"of": of}), runs=runs)

    async def reload(self, sees: str) -> None:
        """Load the page again; this text is among what it shows then."""
        self._take(await self.browser.tell("reload", name=self.name, sees=sees))

    async def look(self) -> None:
        self._take(await self.browser.tell("look", name=self.name))

    def _take(self, found: dict[str, Any]) -> None:
        assert found["faults"] == [], found["faults"]
        self.shown, self.waiting = found["shown"], found["waiting"]

    def said(self, *roles: str) -> list[tuple[str, str]]:
        """Role and text of what is shown."""
        return [(each["role"], each["text"]) for each in self.shown if not roles or each["role"] in roles]


@contextmanager
def started() -> Iterator[Browser]:
    """The browser; the test is skipped where it, Node or the clients are missing."""
    node = shutil.which("node")
    chromium = next(filter(None, map(shutil.which, NAMES)), None)
    skip_without(node is not None, "Node is not installed")
    skip_without(chromium is not None, "Chromium is not installed")
    there = (NODE / "node_modules" / "playwright-core").is_dir()
    skip_without(there, "CopilotKit and assistant-ui are not installed: make clients-install")
    assert node is not None
    assert chromium is not None
    process = subprocess.Popen(
        [node, NODE / "browser.mjs", chromium],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "NO_PROXY": "*"},
    )
    try:
        yield Browser(process)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

"""AG-UI's own client in a Node process that lives through a test: commands go in, what came of them comes out.

A panel keeps its agents and their transcripts while the server is stopped and started again, as a page does.
"""

import asyncio
import json
import os
import shutil
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.clients.processes import NODE
from tests.missing import skip_without

Message = dict[str, Any]
LONGEST = 16 * 1024 * 1024
"""Bytes of one answer."""


class Panel:
    """The process; each of its commands stands in node/panel.mjs."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def tell(self, do: str, **given: Any) -> Any:
        """Let it do something; returns what it tells of it."""
        await self.ask(do, **given)
        return await self.answer()

    async def ask(self, do: str, **given: Any) -> None:
        """Begin something, whose `answer` comes later."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **given}).encode() + b"\n")
        await self._process.stdin.drain()

    async def answer(self) -> Any:
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            line = await self._process.stdout.readline()
        assert line, "the panel ended"
        answer = json.loads(line)
        assert "failed" not in answer, answer["failed"]
        return answer

    async def run(self, name: str, **given: Any) -> Any:
        """One run, about which the client had nothing to complain."""
        return unblamed(await self.tell("run", name=name, **given))

    async def messages(self, thread: str, **query: str) -> list[Message]:
        """The session's messages as the server has them."""
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        answer = await self.tell("get", path=f"/sessions/{thread}/messages?{asked}")
        assert answer["status"] == 200, answer
        found: list[Message] = answer["body"]["messages"]
        return found


@asynccontextmanager
async def panel(url: str) -> AsyncIterator[Panel]:
    """A panel for the server at this URL; the test is skipped where Node or the client is missing."""
    node = shutil.which("node")
    skip_without(node is not None, "Node is not installed")
    skip_without((NODE / "node_modules" / "@ag-ui").is_dir(), "the AG-UI client is not installed: make clients-install")
    assert node is not None
    process = await asyncio.create_subprocess_exec(
        node, NODE / "panel.mjs", url,
        env={"PATH": os.environ["PATH"], "NO_PROXY": "*"}, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=LONGEST,
    )  # fmt: skip
    try:
        yield Panel(process)
    finally:
        process.kill()
        _, told = await process.communicate()
        assert not told, told.decode()


def unblamed(run: dict[str, Any]) -> dict[str, Any]:
    """The run; AG-UI's client neither refused anything of it nor warned."""
    assert run["error"] is None, run["error"]
    assert run["warnings"] == []
    return run


def shape(messages: Sequence[Message]) -> list[tuple[str, str]]:
    return [(each["id"], each["role"]) for each in messages]


def said(messages: Sequence[Message]) -> list[tuple[str, Any]]:
    return [(each["role"], each.get("content")) for each in messages]


def rewinds(run: dict[str, Any]) -> list[str]:
    """Behind which messages the run took the conversation back."""
    return [value["after"] for name, value in run["customs"] if name == "session_rewound"]

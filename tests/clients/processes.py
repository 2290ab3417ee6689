"""Clients that this project does not depend on, each in a process of its own.

Python clients have an environment of their own, `.clients-venv`, and Node clients `node/node_modules`; both
are made by `make clients-install`. What a client does stands in its script; the tests judge what it reports.
"""

import asyncio
import json
import os
import shutil
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

from tests.missing import skip_without

HERE = Path(__file__).parent
VENV = HERE.parents[1] / ".clients-venv"
NODE = HERE / "node"
PICK = {
    "type": "function",
    "function": {
        "name": "pick_colour",
        "description": "Ask for a colour.",
        "parameters": {
            "type": "object",
            "properties": {"hint": {"type": "string"}},
            "required": ["hint"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}


def command_of(script: str) -> list[str]:
    """How a client's script is started; the test is skipped where the client is not installed."""
    if script.endswith(".py"):
        return [installed("python"), str(HERE / "python" / script)]
    node = shutil.which("node")
    skip_without(node is not None, "Node is not installed")
    skip_without((NODE / "node_modules" / "openai").is_dir(), "the Node clients are not installed: make clients")
    assert node is not None
    return [node, str(NODE / script)]


def installed(name: str) -> str:
    """A command of the Python clients' environment; the test is skipped where that was not made."""
    command = VENV / "bin" / name
    skip_without(command.exists(), "the Python clients are not installed: make clients")
    return str(command)


async def start(*command: str, **environment: str) -> Process:
    """Start a client in an environment without proxies, tracing and keys of the machine's user."""
    clean = {"PATH": os.environ["PATH"], "NO_PROXY": "*", "LANGSMITH_TRACING": "false", "LANG": "C.UTF-8"}
    return await asyncio.create_subprocess_exec(*command, env=clean | environment, stdout=PIPE, stderr=PIPE)


async def finish(process: Process) -> tuple[int, str, str]:
    """Exit status, output and errors of a client; one that hangs for a minute is killed."""
    try:
        async with asyncio.timeout(60):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def report(script: str, url: str, do: str, **given: Any) -> Any:
    """Let a client's script do something, and return what it reports of it."""
    process = await start(*command_of(script), f"{url}/v1", do, json.dumps(given))
    status, out, err = await finish(process)
    assert status == 0, err
    return json.loads(out)

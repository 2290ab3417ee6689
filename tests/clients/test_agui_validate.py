"""ag-ui-validate, without a single warning, on streams of every kind that this server makes."""

import asyncio
import sys
from pathlib import Path

import pytest

from agent_core import Agent
from agent_core.errors import ModelError
from agent_core.models.base import Piece, TextPiece, ThinkingPiece, UsagePiece
from agent_core.usage import Usage
from tests.clients.test_agui_node import PICK, add
from tests.doubles import ScriptedModel, Step, calls, says
from tests.serving import opened, run_input, serving

COST = UsagePiece(Usage(provider="p", model="m", input_tokens=3, output_tokens=1, total_tokens=4))
THINKS: list[Piece] = [ThinkingPiece("hm"), TextPiece("Hello "), TextPiece("you"), COST]


@pytest.mark.parametrize(
    "steps",
    [
        [THINKS],
        [[*calls(("add", '{"a":1,"b":2}'), ("add", '{"a":1,"b":2}')), COST], says("3")],
        [calls(("add", '{"a":1,"b":2}'))],
        [calls(("pick_colour", "{}"))],
        [[TextPiece("half"), ModelError("model_unreachable")]],
    ],
    ids=["text", "server tool", "budget", "client tool", "error"],
)
async def test_a_stream_is_valid(steps: list[Step], tmp_path: Path) -> None:
    agent = Agent("a", ScriptedModel(steps), tools=[add], max_iterations=2, max_retries=0)
    async with serving(agent) as up, opened(up.url, run_input("go", tools=[PICK])) as response:
        recorded = tmp_path / "stream.sse"
        recorded.write_bytes(await response.aread())
    validate = Path(sys.executable).with_name("ag-ui-validate")
    process = await asyncio.create_subprocess_exec(
        validate, recorded, "--max-warnings", "0", "--no-color",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()

"""ag-ui-validate, without a single warning, on streams of every kind that this server makes."""

import asyncio
import sys
from pathlib import Path

import httpx
import pytest

from agent_core import Agent, tool
from agent_core.errors import ModelError
from agent_core.models.base import Piece, TextPiece, ThinkingPiece, UsagePiece
from agent_core.usage import Usage
from app.settings import Settings
from tests.app.doubles import Running, until
from tests.clients.session_agents import echo, worker
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
        await validate(await response.aread(), tmp_path)


async def test_a_stream_with_a_state_is_valid(tmp_path: Path) -> None:
    async with serving(worker) as up:
        for text in ("note a b", "nothing", "put [1]"):
            async with opened(up.url, run_input(text)) as response:
                await validate(await response.aread(), tmp_path)


async def test_a_conversation_that_is_taken_back_is_valid(tmp_path: Path) -> None:
    async with serving(echo) as up:
        question = run_input("hello")
        for asked in (question, question | {"runId": "again"}):
            async with opened(up.url, asked) as response:
                stream = await response.aread()
                await validate(stream, tmp_path)
    assert b'"session_rewound"' in stream


async def test_a_stream_that_is_read_again_from_its_start_is_valid(tmp_path: Path) -> None:
    async with serving(worker) as up:
        async with opened(up.url, run_input("note a b", runId="r1")) as response:
            whole = await response.aread()
        again = await attached(up, "r1")
        assert again == whole
        await validate(again, tmp_path)


async def test_a_run_that_is_told_by_its_messages_is_valid(tmp_path: Path) -> None:
    async with serving(worker, settings=Settings(log_seconds=0.0)) as up:
        async with opened(up.url, run_input("note a b", runId="r1")) as response:
            await response.aread()
        runs = up.server.app.state.services.runs
        await until(lambda: runs.find("local", "t1", "r1") is None)
        past = await attached(up, "r1")
    assert b"MESSAGES_SNAPSHOT" in past
    assert b"STATE_SNAPSHOT" in past
    await validate(past, tmp_path)


@pytest.mark.parametrize(
    ("ended", "opened"), [(TextPiece, ThinkingPiece), (ThinkingPiece, TextPiece)], ids=["thinking", "text"]
)
async def test_a_long_run_that_begins_with_what_is_open_is_valid(
    ended: type[TextPiece | ThinkingPiece], opened: type[TextPiece | ThinkingPiece], tmp_path: Path
) -> None:
    gate = asyncio.Event()
    model = ScriptedModel([[ended("one"), opened("two "), opened("three "), gate, opened("four"), TextPiece("!")]])
    async with serving(Agent("a", model)) as up:
        stream = await come_late(up, model.streaming, gate)
    assert b'"content":"one"' in stream
    assert b'"delta":"two three "' in stream
    await validate(stream, tmp_path)


async def test_the_result_of_a_call_that_stands_in_the_snapshot_is_valid_but_for_agui207(tmp_path: Path) -> None:
    """AGUI207 wants the call itself in the stream; the protocol, and AG-UI's client, take it from the snapshot."""
    gate, begun = asyncio.Event(), asyncio.Event()

    @tool
    async def look() -> str:
        """Look."""
        begun.set()
        await gate.wait()
        return "seen"

    model = ScriptedModel([[TextPiece("so"), *calls(("look", "{}"))], says("done")])
    async with serving(Agent("a", model, tools=[look])) as up:
        stream = await come_late(up, begun, gate)
    assert b"TOOL_CALL_START" not in stream
    assert b"TOOL_CALL_RESULT" in stream
    await validate(stream, tmp_path, "--off", "AGUI207")


async def come_late(up: Running, begun: asyncio.Event, gate: asyncio.Event) -> bytes:
    """What a reader gets of a run that was trimmed once it had begun, and that goes on at the gate."""
    async with opened(up.url, run_input("go", runId="r1"), **{"x-on-disconnect": "continue"}):
        await begun.wait()
    log = up.server.app.state.services.runs.find("local", "t1", "r1").log
    await until(lambda: not log.attended)
    log.trim()
    late = asyncio.create_task(attached(up, "r1"))
    await until(lambda: log.attended)
    gate.set()
    return await late


async def attached(up: Running, run_id: str) -> bytes:
    """All that a reader gets who comes to the run now."""
    async with httpx.AsyncClient(base_url=up.url, timeout=20) as http:
        response = await http.get(f"/sessions/t1/runs/{run_id}/events")
        assert response.status_code == 200
        return response.content


async def validate(stream: bytes, folder: Path, *options: str) -> None:
    """Let ag-ui-validate read the stream; it must not have a single warning."""
    recorded = folder / "stream.sse"
    recorded.write_bytes(stream)
    command = Path(sys.executable).with_name("ag-ui-validate")
    process = await asyncio.create_subprocess_exec(
        command, recorded, "--max-warnings", "0", "--no-color", *options,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()

"""AG-UI's own client in Node, against a real server: the real judge of our streams."""

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

from agent_core import Agent, tool
from agent_core.errors import ModelError
from agent_core.models.base import CallPiece, Piece, TextPiece, ThinkingPiece
from tests.app.doubles import until
from tests.doubles import ScriptedModel, calls, says
from tests.live.test_disconnects import quiet
from tests.missing import skip_without
from tests.serving import serving

FOLDER = Path(__file__).parent / "node"
PICK = {
    "name": "pick_colour",
    "description": "Ask for a colour.",
    "parameters": {"type": "object", "properties": {"hint": {"type": "string"}}},
}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def talk(url: str, *steps: dict[str, Any]) -> list[dict[str, Any]]:
    """Let the client do these steps, and return what it reports of each."""
    node = shutil.which("node")
    skip_without(node is not None, "Node is not installed")
    skip_without((FOLDER / "node_modules").is_dir(), "the AG-UI client is not installed: npm ci in tests/clients/node")
    assert node is not None
    process = await asyncio.create_subprocess_exec(
        node, "talk.mjs", url, json.dumps(steps),
        cwd=FOLDER, env={**os.environ, "SUPPRESS_TRANSFORMATION_WARNINGS": "1"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    report: list[dict[str, Any]] = json.loads(out)
    return report


def no_complaint(report: list[dict[str, Any]]) -> None:
    assert [run["error"] for run in report] == [None] * len(report)


async def test_thinking_and_text_arrive_as_messages() -> None:
    thinking: list[Piece] = [ThinkingPiece("hm"), TextPiece("Hello "), TextPiece("you")]
    async with serving(Agent("a", ScriptedModel([thinking]))) as up:
        report = await talk(up.url + "/agui", {"say": "hi"})
    no_complaint(report)
    roles = [(m["role"], m["content"]) for m in report[0]["messages"]]
    assert roles == [("user", "hi"), ("reasoning", "hm"), ("assistant", "Hello you")]
    assert report[0]["events"][-1] == "RUN_FINISHED"


async def test_a_server_tool_has_its_call_and_its_result_in_the_transcript_and_the_next_run_goes_on() -> None:
    model = ScriptedModel([calls(("add", '{"a":1,"b":2}')), says("3"), says("still here")])
    async with serving(Agent("a", model, tools=[add])) as up:
        report = await talk(up.url + "/agui", {"say": "1+2"}, {"say": "and now?"})
    no_complaint(report)
    first = report[0]["messages"]
    assert [m["role"] for m in first] == ["user", "assistant", "tool", "assistant"]
    assert first[1]["toolCalls"][0]["function"] == {"name": "add", "arguments": '{"a":1,"b":2}'}
    assert (first[2]["toolCallId"], first[2]["content"]) == (first[1]["toolCalls"][0]["id"], "3")
    assert [m.role for m in model.requests[-1].messages] == ["user", "assistant", "tool", "assistant", "user"]


async def test_a_client_tool_goes_round() -> None:
    model = ScriptedModel([calls(("add", '{"a":1,"b":2}'), ("pick_colour", '{"hint":"warm"}')), says("red it is")])
    async with serving(Agent("a", model, tools=[add])) as up:
        report = await talk(
            up.url + "/agui",
            {"say": "colour?", "tools": [PICK]},
            {"answer": {"pick_colour": "red"}, "tools": [PICK]},
        )
    no_complaint(report)
    assert report[0]["events"].count("TOOL_CALL_RESULT") == 1, "the client's call has no result of ours"
    assert report[1]["messages"][-1]["content"] == "red it is"
    assert model.requests[1].messages[-1].text == "red"


async def test_abort_stops_the_model_and_the_session_goes_on() -> None:
    never = asyncio.Event()
    model = ScriptedModel([[TextPiece("so "), TextPiece("far"), never], says("back")])
    async with serving(Agent("a", model)) as up:
        report = await talk(up.url + "/agui", {"say": "go", "abortAt": "TEXT_MESSAGE_CONTENT"}, {"say": "again"})
        await until(lambda: quiet(up))
    assert model.closed == 2
    assert report[1]["error"] is None
    assert report[1]["messages"][-1]["content"] == "back"
    assert [m.text for m in model.requests[1].messages] == ["go", "so far", "again"]


async def test_an_error_is_told_with_its_code_and_the_session_goes_on() -> None:
    broken: list[Piece | Exception] = [TextPiece("half"), CallPiece(0, "c", "add"), ModelError("model_unreachable")]
    async with serving(Agent("a", ScriptedModel([broken, says("back")]), tools=[add])) as up:
        report = await talk(up.url + "/agui", {"say": "go"}, {"say": "again"})
    assert report[0]["runError"]["code"] == "model_unreachable"
    assert report[0]["events"][-1] == "RUN_ERROR"
    assert report[1]["error"] is None
    assert report[1]["messages"][-1]["content"] == "back"

"""The AI SDK, with its provider for OpenAI-compatible servers, against a real server."""

import pytest

from agent_core import Agent
from agent_core.errors import ModelError
from agent_core.models.base import TextPiece
from tests.clients.processes import PICK, report
from tests.doubles import ScriptedModel
from tests.serving import serving

SCRIPT = "ai_sdk.mjs"


async def test_a_stream_has_its_text_its_reasoning_and_its_usage() -> None:
    async with serving() as up:
        found = await report(SCRIPT, up.url, "stream", model="demo", say="hello")
    assert "Hello from Ostinato" in found["text"]
    assert found["reasoning"]
    assert (found["steps"], found["error"]) == (["stop"], None)
    assert found["usage"]["totalTokens"] == found["usage"]["inputTokens"] + found["usage"]["outputTokens"] > 0


@pytest.mark.parametrize("do", ["stream", "generate"])
async def test_a_client_tool_goes_round(do: str) -> None:
    say = "use frontend tool pick_colour"
    async with serving() as up:
        found = await report(SCRIPT, up.url, do, model="demo", say=say, tool=PICK, answer="teal")
    assert [name for name, _ in found["asked"]] == ["pick_colour"]
    assert "teal" in found["text"]
    assert found["error"] is None


async def test_an_unknown_model_is_an_error_with_its_status() -> None:
    async with serving() as up:
        found = await report(SCRIPT, up.url, "generate", model="nobody", say="hello")
    assert (found["error"]["name"], found["error"]["status"]) == ("AI_APICallError", 404)
    assert "nobody" in found["error"]["message"]


async def test_a_failure_in_mid_stream_is_an_error_after_the_text_so_far() -> None:
    model = ScriptedModel([[TextPiece("half"), ModelError("model_unreachable")]])
    async with serving(Agent("a", model)) as up:
        found = await report(SCRIPT, up.url, "stream", model="a", say="go")
    assert found["text"] == "half"
    assert "could not be reached" in found["error"]["message"]

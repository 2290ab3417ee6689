"""LangChain's ChatOpenAI against a real server."""

import pytest

from tests.clients.processes import PICK, report
from tests.serving import serving

SCRIPT = "langchain_sdk.py"


async def test_an_answer_has_its_text_and_its_usage() -> None:
    async with serving() as up:
        found = await report(SCRIPT, up.url, "invoke", model="demo", say="weather in Paris")
    assert "Paris" in found["text"]
    assert (found["calls"], found["finish"]) == ([], "stop"), "the server's own call is hidden"
    assert found["usage"]["total_tokens"] > 0


async def test_a_stream_adds_up_to_the_same_text_and_usage_as_the_answer() -> None:
    async with serving() as up:
        whole = await report(SCRIPT, up.url, "invoke", model="demo", say="hello")
        added = await report(SCRIPT, up.url, "stream", model="demo", say="hello")
    assert added["pieces"] > 1
    assert (added["text"], added["usage"], added["finish"]) == (whole["text"], whole["usage"], "stop")


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_a_bound_tool_goes_round(streamed: bool) -> None:
    say = "use frontend tool pick_colour"
    async with serving() as up:
        found = await report(
            SCRIPT, up.url, "tools", model="demo", say=say, tool=PICK, answer="teal", streamed=streamed
        )
    assert [name for name, _ in found["asked"]] == ["pick_colour"]
    assert "teal" in found["text"]


async def test_an_unknown_model_raises_not_found() -> None:
    async with serving() as up:
        found = await report(SCRIPT, up.url, "failure", model="nobody", say="hello")
    assert found["status"] == 404
    assert "NotFoundError" in found["kinds"]

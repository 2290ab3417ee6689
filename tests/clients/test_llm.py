"""The command `llm` against a real server, which it finds in its extra-openai-models.yaml."""

from pathlib import Path

import pytest

from tests.clients.processes import finish, installed, start
from tests.serving import serving

TOOL = """
def pick_colour(hint: str) -> str:
    "Ask for a colour."
    return "teal"
"""


async def llm(url: str, folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit status, output and errors of the command, with the agent `demo` as its model `mine`."""
    command = installed("llm")
    lines = ["- model_id: mine", "  model_name: demo", f"  api_base: {url}/v1", "  supports_tools: true", ""]
    (folder / "extra-openai-models.yaml").write_text("\n".join(lines))
    return await finish(await start(command, "-m", "mine", *arguments, LLM_USER_PATH=str(folder)))


@pytest.mark.parametrize("option", ["--no-log", "--no-stream"], ids=["streamed", "whole"])
async def test_an_answer_is_printed_with_its_usage(option: str, tmp_path: Path) -> None:
    async with serving() as up:
        status, out, err = await llm(up.url, tmp_path, option, "--usage", "hello")
    assert status == 0, err
    assert "Hello from Ostinato" in out
    assert "Token usage: " in err


async def test_a_function_of_its_own_goes_round_as_a_client_tool(tmp_path: Path) -> None:
    async with serving() as up:
        status, out, err = await llm(up.url, tmp_path, "--functions", TOOL, "use frontend tool pick_colour")
    assert status == 0, err
    assert "teal" in out


async def test_a_failure_is_told_with_its_status(tmp_path: Path) -> None:
    async with serving() as up:
        status, _, err = await llm(up.url, tmp_path, "error")
    assert status == 1
    assert "502" in err
    assert "could not be reached" in err

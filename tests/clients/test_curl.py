"""curl against a real server: what a reader of the README types."""

import asyncio
import json
import shutil
from asyncio.subprocess import Process
from typing import Any

from agent_core import Agent
from agent_core.models.base import TextPiece
from tests.app.doubles import until
from tests.clients.processes import finish, start
from tests.clients.test_openai_python import ask
from tests.doubles import ScriptedModel
from tests.live.test_disconnects import quiet
from tests.missing import skip_without
from tests.serving import serving


async def curl(url: str, body: dict[str, Any] | None = None) -> Process:
    """curl, started; its last line is the status and the content type."""
    command = shutil.which("curl")
    skip_without(command is not None, "curl is not installed")
    assert command is not None
    sent = [] if body is None else ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
    return await start(command, "-sSN", "-w", "\n%{http_code} %{content_type}", url, *sent)


async def fetch(url: str, body: dict[str, Any] | None = None) -> tuple[str, str]:
    """What came, and the last line."""
    status, out, err = await finish(await curl(url, body))
    assert status == 0, err
    content, _, told = out.rpartition("\n")
    return content, told


async def test_an_answer_is_one_object() -> None:
    async with serving() as up:
        content, told = await fetch(up.url + "/v1/chat/completions", ask("hello"))
    assert told == "200 application/json"
    assert "Hello from Ostinato" in json.loads(content)["choices"][0]["message"]["content"]


async def test_a_stream_is_lines_of_data_up_to_done() -> None:
    async with serving() as up:
        content, told = await fetch(up.url + "/v1/chat/completions", ask("hello", stream=True))
    assert told.startswith("200 text/event-stream")
    *chunks, done = content.split("\n\n")[:-1]
    assert done == "data: [DONE]"
    deltas = [json.loads(chunk.removeprefix("data: "))["choices"][0]["delta"] for chunk in chunks]
    assert "Hello from Ostinato" in "".join(delta.get("content", "") for delta in deltas)


async def test_the_models_are_listed() -> None:
    async with serving() as up:
        content, told = await fetch(up.url + "/v1/models")
    assert told == "200 application/json"
    assert "demo" in [each["id"] for each in json.loads(content)["data"]]


async def test_a_failure_has_its_status_and_its_shape_also_where_a_stream_was_asked_for() -> None:
    async with serving() as up:
        content, told = await fetch(up.url + "/v1/chat/completions", ask("error", stream=True))
    assert told == "502 application/json"
    assert json.loads(content)["error"]["code"] == "model_unreachable"


async def test_a_curl_that_is_stopped_cancels_the_run() -> None:
    model = ScriptedModel([[TextPiece("so far"), asyncio.Event()]])
    async with serving(Agent("a", model)) as up:
        process = await curl(up.url + "/v1/chat/completions", ask("go", "a", stream=True))
        await until(model.streaming.is_set)
        process.terminate()
        await finish(process)
        await until(lambda: model.closed == 1)
        await until(lambda: quiet(up))

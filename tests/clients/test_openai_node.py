"""openai-node against a real server: an answer, a stream, its tool runner, failures and a time-out."""

import asyncio
from typing import Any

from agent_core import Agent
from agent_core.errors import ModelError
from agent_core.models.base import TextPiece
from tests.clients.processes import PICK, report
from tests.clients.test_openai_python import ask, timed_out
from tests.doubles import ScriptedModel, says
from tests.serving import serving

SCRIPT = "openai.mjs"


async def test_an_answer_has_its_text_and_its_usage() -> None:
    async with serving() as up:
        answer = await report(SCRIPT, up.url, "create", **ask("weather in Paris"))
    assert "Paris" in answer["choices"][0]["message"]["content"]
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["total_tokens"] > 0


async def test_a_stream_has_its_text_one_finish_and_one_usage() -> None:
    async with serving() as up:
        found = await report(SCRIPT, up.url, "stream", **ask("hello"))
    assert "Hello from Ostinato" in found["text"]
    assert found["reasoning"]
    assert (found["finish"], len(found["usage"]), found["error"]) == (["stop"], 1, None)


async def test_its_tool_runner_calls_a_client_tool_and_goes_on() -> None:
    async with serving() as up:
        asked: dict[str, Any] = ask("use frontend tool pick_colour", tools=[PICK], answer="teal")
        found = await report(SCRIPT, up.url, "tools", **asked)
    assert [name for name, _ in found["asked"]] == ["pick_colour"]
    assert "teal" in found["text"]


async def test_a_failure_raises_the_class_of_its_status() -> None:
    agent = Agent("a", ScriptedModel([[ModelError("model_quota")]]), max_retries=0)
    broken = [ask("hi", "nobody"), ask("hi", "a", n=2), ask("hi", "a")]
    async with serving(agent) as up:
        found = await report(SCRIPT, up.url, "failures", requests=broken)
    assert [tuple(each.values()) for each in found] == [
        ("NotFoundError", 404, "not_found", "model"),
        ("BadRequestError", 400, "invalid_request", "n"),
        ("RateLimitError", 429, "model_quota", None),
    ]


async def test_a_failure_in_mid_stream_raises_after_the_text_so_far() -> None:
    model = ScriptedModel([[TextPiece("half"), ModelError("model_unreachable")]])
    async with serving(Agent("a", model)) as up:
        found = await report(SCRIPT, up.url, "stream", **ask("go", "a"))
    assert (found["text"], found["finish"]) == ("half", [])
    assert (found["error"]["class"], found["error"]["code"]) == ("APIError", "model_unreachable")


async def test_a_retry_after_a_failure_without_effects_runs_the_agent_again() -> None:
    model = ScriptedModel([[ModelError("model_unreachable")], says("back")])
    async with serving(Agent("a", model, max_retries=0)) as up:
        answer = await report(SCRIPT, up.url, "create", **ask("go", "a"), options={"maxRetries": 2})
    assert answer["choices"][0]["message"]["content"] == "back"
    assert len(model.requests) == 2


async def test_a_client_that_times_out_and_retries_runs_the_agent_once() -> None:
    go_on = asyncio.Event()
    model = ScriptedModel([[go_on, *says("slow but once")]])
    async with serving(Agent("a", model)) as up:
        # The SDK tells the server of a time-out that belongs to the request, not of one that belongs to the client.
        # Its clock starts before it connects, hence more than the shortest that it can tell (1 s).
        options = {"timeout": 2000, "maxRetries": 5}
        asking = asyncio.create_task(report(SCRIPT, up.url, "create", **ask("go", "a"), options=options))
        await timed_out(up, model, asking)
        go_on.set()
        answer = await asking
    assert answer["choices"][0]["message"]["content"] == "slow but once"
    assert len(model.requests) == 1

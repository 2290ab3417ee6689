"""openai-python against a real server: answers, streams, tools, failures, retries."""

import asyncio
from typing import Any

import pytest
from pydantic import SecretStr

from agent_core import Agent, tool
from agent_core.errors import ModelError
from agent_core.models.base import TextPiece
from app.settings import Settings
from tests.app.doubles import Running, until
from tests.clients.processes import PICK, report
from tests.doubles import ScriptedModel, calls, says
from tests.live.test_disconnects import quiet
from tests.serving import serving

SCRIPT = "openai_sdk.py"


def ask(text: str, model: str = "demo", **members: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}], **members}


async def timed_out(up: Running, model: ScriptedModel, asking: "asyncio.Task[Any]") -> None:
    """Wait until the client's first request reached the model, and the client gave it up."""
    await until(lambda: model.streaming.is_set() or asking.done())
    assert not asking.done(), asking.result()
    connections = up.server.server_state.connections
    first = next(iter(connections))
    await until(lambda: first not in connections or asking.done())


async def test_an_answer_has_its_text_its_reasoning_and_its_usage() -> None:
    async with serving() as up:
        answer = await report(SCRIPT, up.url, "create", **ask("hello"))
    choice = answer["choices"][0]
    assert "Hello from Ostinato" in choice["message"]["content"]
    assert choice["message"]["reasoning_content"]
    assert (choice["finish_reason"], answer["x_agent"]["status"]) == ("stop", "completed")
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 0


async def test_a_stream_has_its_text_one_finish_and_one_usage() -> None:
    async with serving() as up:
        found = await report(SCRIPT, up.url, "stream", **ask("hello"))
    assert "Hello from Ostinato" in found["text"]
    assert found["reasoning"]
    assert (found["finish"], len(found["usage"]), found["error"]) == (["stop"], 1, None)
    assert found["usage"][0]["total_tokens"] > 0


async def test_the_stream_helper_puts_the_completion_together() -> None:
    async with serving() as up:
        found = await report(SCRIPT, up.url, "helper", **ask("weather in Paris", tools=[PICK]))
    message = found["completion"]["choices"][0]["message"]
    assert "Paris" in message["content"]
    assert message["tool_calls"] is None, "the server's own call of get_weather is not the client's"
    assert found["completion"]["usage"]["total_tokens"] > 0
    assert found["events"].count("content.done") == 1


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_a_client_tool_goes_round(streamed: bool) -> None:
    asked = ask("use frontend tool pick_colour", tools=[PICK], answer="teal", streamed=streamed)
    async with serving() as up:
        found = await report(SCRIPT, up.url, "tools", **asked)
    assert [name for name, _ in found["asked"]] == ["pick_colour"]
    assert isinstance(found["asked"][0][1]["hint"], str)
    assert "teal" in found["text"]


async def test_the_models_are_listed_and_found() -> None:
    async with serving(Agent("a", "fake:fake"), Agent("b", "fake:fake")) as up:
        assert await report(SCRIPT, up.url, "models") == [["a", "a"], ["b", "b"]]


async def test_a_failure_raises_the_class_of_its_status() -> None:
    failing = [ModelError(code, detail="d") for code in ("model_quota", "context_overflow", "model_timeout")]
    agent = Agent("a", ScriptedModel([[each] for each in failing]), max_retries=0)
    broken = [ask("hi", "nobody"), ask("hi", "a", n=2), *[ask(f"go {n}", "a", stream=n == 1) for n in range(3)]]
    async with serving(agent) as up:
        found = await report(SCRIPT, up.url, "failures", requests=broken)
    assert [tuple(each.values()) for each in found] == [
        ("NotFoundError", 404, "not_found", "model"),
        ("BadRequestError", 400, "invalid_request", "n"),
        ("RateLimitError", 429, "model_quota", None),
        ("BadRequestError", 400, "context_overflow", None),
        ("InternalServerError", 504, "model_timeout", None),
    ]


async def test_a_wrong_key_raises_authentication_error_and_the_right_one_does_not() -> None:
    key = "alice-key-0123456789"
    settings = Settings(api_keys=SecretStr(f"alice:{key}"))
    async with serving(Agent("a", ScriptedModel([says("hi")])), settings=settings) as up:
        wrong = await report(SCRIPT, up.url, "failures", requests=[ask("hi", "a")], options={"api_key": "wrong"})
        right = await report(SCRIPT, up.url, "create", **ask("hi", "a"), options={"api_key": key})
    assert (wrong[0]["class"], wrong[0]["status"]) == ("AuthenticationError", 401)
    assert right["choices"][0]["message"]["content"] == "hi"


async def test_a_failure_in_mid_stream_raises_after_the_text_so_far() -> None:
    model = ScriptedModel([[TextPiece("half"), ModelError("model_unreachable")]])
    async with serving(Agent("a", model)) as up:
        found = await report(SCRIPT, up.url, "stream", **ask("go", "a"))
    assert (found["text"], found["finish"]) == ("half", [])
    assert (found["error"]["class"], found["error"]["code"]) == ("APIError", "model_unreachable")


async def test_a_retry_after_a_failure_without_effects_runs_the_agent_again() -> None:
    model = ScriptedModel([[ModelError("model_unreachable")], says("back")])
    async with serving(Agent("a", model, max_retries=0)) as up:
        answer = await report(SCRIPT, up.url, "create", **ask("go", "a"), options={"max_retries": 2})
    assert answer["choices"][0]["message"]["content"] == "back"
    assert len(model.requests) == 2


async def test_a_retry_after_a_failure_behind_a_tool_does_not_run_the_tool_again() -> None:
    charged = []

    @tool
    async def charge() -> str:
        """Charge the card."""
        charged.append(1)
        return "charged"

    model = ScriptedModel([calls(("charge", "{}")), [ModelError("model_unreachable")]])
    async with serving(Agent("a", model, tools=[charge], max_retries=0)) as up:
        found = await report(SCRIPT, up.url, "failures", requests=[ask("pay", "a")], options={"max_retries": 2})
    assert (found[0]["class"], found[0]["code"]) == ("InternalServerError", "model_unreachable")
    assert (len(charged), len(model.requests)) == (1, 2)


@pytest.mark.parametrize("do", ["create", "stream"])
async def test_a_client_that_times_out_and_retries_runs_the_agent_once(do: str) -> None:
    go_on = asyncio.Event()
    model = ScriptedModel([[go_on, *says("slow but once")]])
    async with serving(Agent("a", model)) as up:
        options = {"timeout": 1.0, "max_retries": 5}
        asking = asyncio.create_task(report(SCRIPT, up.url, do, **ask("go", "a"), options=options))
        await timed_out(up, model, asking)
        go_on.set()
        found = await asking
        await until(lambda: quiet(up))
    assert (found["text"] if do == "stream" else found["choices"][0]["message"]["content"]) == "slow but once"
    assert len(model.requests) == 1

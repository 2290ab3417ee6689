"""The two reference runs, event for event, through HTTP."""

import logging
import re
from dataclasses import replace

import pytest

from agent_core import Agent, tool
from agent_core.models.openai_chat import OpenAIChat
from agent_core.tools.base import Tool
from app.demo.agents import agents as demo
from tests.scripted import Reply, ScriptedUpstream, answer, done, finish, says, text, tool_call, usage
from tests.serving import results_of, run, run_input, serving, text_of, types_of

DEMO, CLOCK, VESSEL = demo


async def test_run_1_is_exactly_these_twelve_events(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with serving(replace(CLOCK, max_iterations=1)) as up:
            body = run_input("what time is it")
            frames = await run(up.url, body)
    assert types_of(frames) == [
        "RUN_STARTED",
        "TOOL_CALL_START",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "RAW",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    raw = frames[4]["event"]
    assert set(raw) == {"type", "maxIters", "currentIter", "createdAt", "replyId"}
    assert (raw["type"], raw["maxIters"], raw["currentIter"], raw["replyId"]) == ("EXCEED_MAX_ITERS", 1, 1, "")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", raw["createdAt"])
    assert re.fullmatch(r"时间查询完成: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", text_of(frames))
    start, end = frames[0], frames[-1]
    assert (start["threadId"], start["runId"], start["protocolVersion"]) == (body["threadId"], body["runId"], "1.0")
    assert (end["threadId"], end["runId"]) == (body["threadId"], body["runId"])
    assert "usage" not in end
    assert "outcome" not in end
    assert end["result"] == {"status": "max_iterations", "continuationRequired": True}
    assert frames[1]["parentMessageId"] != frames[3]["messageId"]
    own = [r for r in caplog.records if r.name.startswith(("agent_core", "converters", "app", "ostinato"))]
    assert [(r.levelname, r.getMessage()) for r in own if r.name.startswith("agent_core")] == [
        ("DEBUG", "Maximum iterations reached. Generating summary…")
    ]
    assert not [r for r in own if r.levelno >= logging.WARNING]


async def test_the_demo_vessel_uses_its_budget_and_continue_finishes_the_job() -> None:
    async with serving(*demo) as up:
        frames = await run(up.url, run_input("Where is the cargo of MSC AURORA?"), "/agui/vessel")
        names = [frame["toolCallName"] for frame in frames if frame["type"] == "TOOL_CALL_START"]
        assert names == ["query_vessel_schedule", "query_voyage_cargo"]
        [raw] = [frame["event"] for frame in frames if frame["type"] == "RAW"]
        assert (raw["maxIters"], raw["currentIter"]) == (2, 2)
        assert frames[-1]["result"]["status"] == "max_iterations"
        more = await run(up.url, run_input("continue"), "/agui/vessel")
        names = [frame["toolCallName"] for frame in more if frame["type"] == "TOOL_CALL_START"]
        assert names == ["query_cargo_detail"]
        assert more[-1]["result"] == {"status": "completed"}
        assert "C-001" in text_of(more)


@tool
def query_vessel_schedule(vessel: str) -> dict[str, str]:
    """The next voyage of a vessel."""
    return {"vessel": vessel, "voyage": "V-2609A"}


@tool
def query_voyage_cargo(voyage: str) -> dict[str, str]:
    """The cargo of a voyage."""
    return {"voyage": voyage, "cargo_id": "C-001"}


@tool
def query_cargo_detail(cargo_id: str) -> dict[str, str]:
    """What a cargo is."""
    return {"cargo_id": cargo_id, "goods": "bearings"}


async def test_run_2_has_two_tool_rounds_a_summary_and_three_usage_events(caplog: pytest.LogCaptureFixture) -> None:
    def asks(name: str, arguments: str, call_id: str, prompt: int, cached: int | None = None) -> Reply:
        cost = usage(prompt, 5, cached=cached)
        return answer(tool_call(name, arguments, id=call_id), finish("tool_calls"), cost, done())

    script = [
        asks("query_vessel_schedule", '{"vessel":"MSC AURORA"}', "c1", 20),
        asks("query_voyage_cargo", '{"voyage":"V-2609A"}', "c2", 30, cached=20),
        answer(text("Voyage V-2609A carries C-001; ", "its detail is missing."), finish(), usage(40, 9), done()),
        asks("query_cargo_detail", '{"cargo_id":"C-001"}', "c3", 50),
        says("C-001 is bearings."),
    ]
    tools: list[Tool] = [query_vessel_schedule, query_voyage_cargo, query_cargo_detail]
    async with ScriptedUpstream(script) as upstream:
        model = OpenAIChat("gpt-test", api_key="sk-test", base_url=upstream.base_url)
        with caplog.at_level(logging.DEBUG):
            async with serving(Agent("vessel", model, tools=tools, max_iterations=2)) as up:
                frames = await run(up.url, run_input("What is in MSC AURORA?"))
                more = await run(up.url, run_input("continue"))
    names = [frame["toolCallName"] for frame in frames if frame["type"] == "TOOL_CALL_START"]
    assert names == ["query_vessel_schedule", "query_voyage_cargo"]
    [raw] = [frame["event"] for frame in frames if frame["type"] == "RAW"]
    assert (raw["maxIters"], raw["currentIter"]) == (2, 2)
    assert text_of(frames) == "Voyage V-2609A carries C-001; its detail is missing."
    spent = [frame["value"] for frame in frames if frame["type"] == "CUSTOM"]
    assert [value["inputTokens"] for value in spent] == [20, 30, 40]
    assert len({value["replyId"] for value in spent}) == 3
    assert spent[1]["cachedInputTokens"] == 20
    assert "cachedInputTokens" not in spent[0]
    assert [frame["name"] for frame in frames if frame["type"] == "CUSTOM"] == ["token_usage"] * 3
    [total] = frames[-1]["usage"]
    assert (total["inputTokens"], total["outputTokens"], total["model"]) == (90, 19, "gpt-test")
    assert "tools" not in upstream.requests[2].body
    assert results_of(more) == ['{"cargo_id":"C-001","goods":"bearings"}']
    assert more[-1]["result"] == {"status": "completed"}
    pending = [r for r in caplog.records if "pending" in r.getMessage()]
    assert pending == [], "the warning about pending calls appears only where there were any"

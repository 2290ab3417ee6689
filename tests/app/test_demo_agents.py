"""The demo agents, with the keyless model and their own tools, round by round."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from agent_core.agent import Agent
from agent_core.context import ToolContext
from agent_core.errors import ToolError
from agent_core.messages import Message, ToolCall
from agent_core.models.base import ArgumentsPiece, CallPiece, ModelRequest, TextPiece
from agent_core.models.http import HttpClient
from agent_core.models.keyless.fake import FakeModel
from app.demo import agents as demo

CONTEXT = ToolContext(agent="a", user_id="u", session_id="s", run_id="r", call_id="c")
CLOSING = "The budget is used up: answer now, without tools.\n"


async def run_tool(agent: Agent, name: str, arguments: str) -> str:
    chosen = next(each for each in agent.tools if each.spec.name == name)
    with ThreadPoolExecutor(1) as threads:
        result = await chosen.run(json.loads(arguments), CONTEXT, threads)
    assert isinstance(result, str)
    return result


async def converse(agent: Agent, question: str, history: list[Message], budget: int) -> tuple[list[str], str]:
    """Run as the engine does: `budget` rounds, then a closing call. Gives the tools used and the answer."""
    http: HttpClient = None  # type: ignore[assignment]
    history.append(Message(id="u", role="user", content=question))
    used: list[str] = []
    while True:
        closing = len(used) == budget
        system = Message(id="s", role="system", content=(CLOSING if closing else "") + str(agent.instructions))
        offered = () if closing else tuple(each.spec for each in agent.tools)
        request = ModelRequest(messages=(system, *history), tools=offered)
        pieces = [piece async for piece in FakeModel().stream(request, http)]
        if not isinstance(pieces[0], CallPiece):
            assert isinstance(pieces[-1], TextPiece)
            history.append(Message(id="a", role="assistant", content=pieces[-1].text))
            return used, pieces[-1].text
        arguments = "".join(piece.text for piece in pieces if isinstance(piece, ArgumentsPiece)) or "{}"
        call = ToolCall(id=pieces[0].id, name=pieces[0].name, arguments=arguments)
        content = await run_tool(agent, call.name, arguments)
        history.append(Message(id="a", role="assistant", tool_calls=(call,)))
        history.append(Message(id="t", role="tool", tool_call_id=call.id, name=call.name, content=content))
        used.append(call.name)


def test_the_first_agent_is_the_demo_and_the_others_follow() -> None:
    assert [agent.name for agent in demo.agents] == ["demo", "clock", "vessel"]
    assert [agent.max_iterations for agent in demo.agents] == [5, 10, 2]
    assert [agent.model for agent in demo.agents] == ["fake:demo", "fake:fake", "fake:fake"]
    assert [tool.spec.name for tool in demo.demo.tools if tool.approval] == ["send_email"]


async def test_the_weather_is_made_up_and_the_same_every_time() -> None:
    first = await run_tool(demo.demo, "get_weather", '{"city":" Paris "}')
    assert json.loads(first)["city"] == "Paris"
    assert json.loads(first)["source"] == "made up"
    assert first == await run_tool(demo.demo, "get_weather", '{"city":"Paris"}')


@pytest.mark.parametrize("budget", [1, 10])
@pytest.mark.parametrize("question", ["what time is it", "现在几点了？"])
async def test_the_clock_answers_with_the_local_time(question: str, budget: int) -> None:
    before = datetime.now().replace(microsecond=0)
    used, answer = await converse(demo.clock, question, [], budget)
    assert used == ["query_time"]
    match = re.fullmatch(r"时间查询完成: (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", answer)
    assert match is not None
    assert before <= datetime.strptime(match.group(1), "%Y-%m-%d %H:%M:%S") <= datetime.now()


def test_the_clock_s_tool_takes_no_arguments() -> None:
    assert demo.query_time.spec.parameters["properties"] == {}


@pytest.mark.parametrize(
    ("question", "word", "cargo", "place"),
    [
        ("Where is the cargo of MSC AURORA?", "continue", "C-001", "hold 3"),
        ("Where is the cargo of EVER HARMONY?", "please go on", "C-117", "deck"),
        ("MSC AURORA 的货物详情", "继续", "C-001", "hold 3"),
    ],
)
async def test_two_tools_a_summary_and_the_third_after_continue(
    question: str, word: str, cargo: str, place: str
) -> None:
    history: list[Message] = []
    used, answer = await converse(demo.vessel, question, history, demo.vessel.max_iterations)
    assert used == ["query_vessel_schedule", "query_voyage_cargo"]
    assert f"cargo_id: {cargo}" in answer
    assert "continue" in answer or "继续" in answer
    used, answer = await converse(demo.vessel, word, history, demo.vessel.max_iterations)
    assert used == ["query_cargo_detail"]
    assert place in answer


async def test_with_a_larger_budget_all_three_tools_are_walked_in_one_run() -> None:
    used, answer = await converse(demo.vessel, "Where is the cargo of MSC AURORA?", [], 10)
    assert used == ["query_vessel_schedule", "query_voyage_cargo", "query_cargo_detail"]
    assert "used up" not in answer


@pytest.mark.parametrize("question", ["Where is MSC AURORA?", "where is ever harmony", "EVER HARMONY 在哪里？"])
async def test_a_question_about_a_vessel_alone_uses_the_schedule_alone(question: str) -> None:
    used, _ = await converse(demo.vessel, question, [], 10)
    assert used == ["query_vessel_schedule"]


async def test_a_question_that_names_a_later_link_begins_there() -> None:
    assert (await converse(demo.vessel, "details of cargo C-117", [], 10))[0] == ["query_cargo_detail"]


async def test_the_vessel_agent_does_not_tell_the_time() -> None:
    assert (await converse(demo.vessel, "what time is it", [], 10))[0] == []


@pytest.mark.parametrize(
    ("name", "arguments", "known"),
    [
        ("query_vessel_schedule", '{"vessel":"NOBODY"}', "MSC AURORA, EVER HARMONY"),
        ("query_voyage_cargo", '{"voyage":"V-1"}', "V-2609A, V-2611C"),
        ("query_cargo_detail", '{"cargo_id":"C-9"}', "C-001, C-117"),
    ],
)
async def test_an_unknown_name_is_refused_with_the_known_ones(name: str, arguments: str, known: str) -> None:
    with pytest.raises(ToolError, match=known):
        await run_tool(demo.vessel, name, arguments)


async def test_names_are_found_whatever_their_case() -> None:
    assert "V-2609A" in await run_tool(demo.vessel, "query_vessel_schedule", '{"vessel":" msc aurora "}')

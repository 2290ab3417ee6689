"""A tool's arguments, filled from the question and from results."""

from typing import Any, Literal

import pytest

from agent_core.tools.base import ToolSpec
from agent_core.tools.function import FunctionTool, tool
from tests.agent_core.models.keyless.talk import Talk, object_of


@tool
def get_forecast(city: str, unit: Literal["celsius", "kelvin"] = "celsius", days: int = 3, brief: bool = True) -> str:
    """Forecast: the weather to come in a city (天气预报)"""
    return f"{city} {unit} {days} {brief}"


@tool
def add(a: int, b: float) -> float:
    """Add two numbers."""
    return a + b


@tool
def search_web(query: str) -> str:
    """Search the web."""
    return query


@tool
def echo(text: str) -> str:
    """Echo a text."""
    return text


@tool
def book_room(day: str, guests: int, kind: Literal["single", "double"]) -> str:
    """Book a room.

    Args:
        day: an ISO date, e.g. "2026-01-31"
        guests: how many
        kind: which
    """
    return f"{day} {guests} {kind}"


@pytest.mark.parametrize(
    ("offered", "question", "arguments"),
    [
        (get_forecast, "forecast for Paris", {"city": "Paris"}),
        (get_forecast, "the forecast in new york today, please", {"city": "new york"}),
        (get_forecast, "forecast in Oslo in kelvin, days: 5", {"city": "Oslo", "unit": "kelvin", "days": 5}),
        (get_forecast, "巴黎的天气怎么样？", {"city": "巴黎"}),
        (get_forecast, "北京明天天气预报", {"city": "北京"}),
        (add, "add 2 and 3.5", {"a": 2, "b": 3.5}),
        (search_web, "search for cheap flights.", {"query": "cheap flights"}),
        (search_web, "search the best pasta", {"query": "search the best pasta"}),
        (echo, "echo 'good morning'", {"text": "good morning"}),
        (echo, "echo this", {"text": "echo this"}),
        (book_room, 'book a double room for 2 on "2026-10-01"', {"day": "2026-10-01", "guests": 2, "kind": "double"}),
    ],
)
async def test_the_question_fills_the_arguments(
    offered: FunctionTool[..., Any], question: str, arguments: dict[str, Any]
) -> None:
    assert await Talk(offered.spec).say(question).call() == (offered.spec.name, arguments)


async def test_a_required_choice_that_the_question_does_not_name_keeps_the_tool_from_being_called() -> None:
    answer = await Talk(book_room.spec).say("book a room for 2 on 2026-10-01").answer()
    assert answer == "Book room would help, but needs to know: kind."


@pytest.mark.parametrize("key", ["voyage", "voyage_no", "voyageNo", "Voyage-ID"])
async def test_a_result_s_key_counts_whatever_its_spelling_and_suffix(key: str) -> None:
    first = ToolSpec(name="find_ship", description="Ship: its voyage", parameters=object_of(ship={}))
    second = ToolSpec(name="list_goods", description="Goods: on a voyage", parameters=object_of(voyage_number={}))
    talk = Talk(second, first).say("which goods does the ship BLUE STAR carry?")
    assert await talk.call() == ("find_ship", {"ship": "BLUE STAR"})
    assert await talk.result({"legs": [{key: "V-9"}]}).call() == ("list_goods", {"voyage_number": "V-9"})

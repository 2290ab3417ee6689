"""The keyless model: which tool it asks for, with which arguments, and what it answers."""

import json
from collections.abc import Sequence
from typing import Any, Literal

import pytest

from agent_core.messages import Message, ResultStatus, ToolCall
from agent_core.models.base import ArgumentsPiece, CallPiece, ModelRequest, Piece, TextPiece, ThinkingPiece
from agent_core.models.fake.model import FakeModel
from agent_core.models.http import HttpClient
from agent_core.tools.base import ToolSpec
from agent_core.tools.function import FunctionTool, tool


class NoHttp:
    """Stands for the HTTP client; any use of it fails."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"the fake model touched http.{name}")


def object_of(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


CLOCK = ToolSpec(name="get_time", description="时间查询: the current local time, such as what time is it (现在几点)")
WEATHER = ToolSpec(
    name="get_weather",
    description="Weather report: the weather of a city (天气)",
    parameters=object_of(city={"type": "string"}),
)
OWNER = ToolSpec(
    name="find_owner",
    description="Owner: who owns a house, with the id of the contract",
    parameters=object_of(house={"type": "string", "description": "the house, such as ROSE COTTAGE"}),
)
CONTRACT = ToolSpec(
    name="read_contract",
    description="Contract: the rent in a contract",
    parameters=object_of(contract_id={"type": "string", "description": "such as K-77"}),
)


class Talk:
    """A conversation that grows, as the engine would keep it."""

    def __init__(self, *tools: ToolSpec, system: str = "") -> None:
        self.tools = tools
        self.messages = [Message(id="m0", role="system", content=system)] if system else []

    def say(self, text: str) -> "Talk":
        self.messages.append(Message(id=f"m{len(self.messages)}", role="user", content=text))
        return self

    async def pieces(self, tools: Sequence[ToolSpec] | None = None) -> list[Piece]:
        request = ModelRequest(messages=tuple(self.messages), tools=self.tools if tools is None else tuple(tools))
        http: HttpClient = NoHttp()  # type: ignore[assignment]
        return [piece async for piece in FakeModel().stream(request, http)]

    async def call(self) -> tuple[str, dict[str, Any]]:
        """The next call, which must be one."""
        pieces = await self.pieces()
        assert isinstance(pieces[0], CallPiece), pieces
        texts = [piece.text for piece in pieces[1:] if isinstance(piece, ArgumentsPiece)]
        assert len(texts) == len(pieces) - 1 <= 1
        arguments = "".join(texts) or "{}"
        call = ToolCall(id=pieces[0].id, name=pieces[0].name, arguments=arguments)
        self.messages.append(Message(id=f"m{len(self.messages)}", role="assistant", tool_calls=(call,)))
        return call.name, json.loads(arguments)

    def result(self, value: Any, status: ResultStatus = "ok") -> "Talk":
        call = self.messages[-1].tool_calls[0]
        content = value if isinstance(value, str) else json.dumps(value)
        self.messages.append(
            Message(
                id=f"m{len(self.messages)}",
                role="tool",
                tool_call_id=call.id,
                name=call.name,
                content=content,
                status=status,
            )
        )
        return self

    async def answer(self, tools: Sequence[ToolSpec] | None = None) -> str:
        """The next answer, which must be one thought and one text."""
        thought, text = await self.pieces(tools)
        assert isinstance(thought, ThinkingPiece)
        assert isinstance(text, TextPiece)
        assert thought.text
        assert text.text
        self.messages.append(Message(id=f"m{len(self.messages)}", role="assistant", content=text.text))
        return text.text


async def test_a_tool_without_parameters_is_called_without_an_arguments_piece() -> None:
    pieces = await Talk(CLOCK).say("what time is it").pieces()
    assert len(pieces) == 1
    assert isinstance(pieces[0], CallPiece)
    assert (pieces[0].index, pieces[0].name) == (0, "get_time")


async def test_a_call_comes_alone_with_its_arguments_as_compact_json() -> None:
    pieces = await Talk(CLOCK, WEATHER).say("weather in Paris").pieces()
    assert isinstance(pieces[0], CallPiece)
    assert pieces[1:] == [ArgumentsPiece(0, '{"city":"Paris"}')]


async def test_the_same_conversation_gives_the_same_call_and_a_new_one_another_id() -> None:
    talk = Talk(CLOCK).say("what time is it")
    first = await talk.pieces()
    assert await talk.pieces() == first
    await talk.call()
    talk.result("12:00").say("what time is it")
    second = await talk.pieces()
    assert isinstance(first[0], CallPiece)
    assert isinstance(second[0], CallPiece)
    assert first[0].id != second[0].id


async def test_only_the_tool_that_matches_is_called_and_its_label_leads_the_answer() -> None:
    talk = Talk(OWNER, CLOCK, WEATHER).say("what time is it")
    assert await talk.call() == ("get_time", {})
    assert await talk.result("2026-09-29 14:39:32").answer() == "时间查询完成: 2026-09-29 14:39:32"


async def test_an_english_label_leads_an_english_answer() -> None:
    talk = Talk(WEATHER).say("weather in Paris")
    await talk.call()
    assert await talk.result("sunny").answer() == "Weather report: sunny"


@pytest.mark.parametrize("question", ["hello", "", "Who wrote Hamlet?", "给我讲个笑话", "Tell me a story, continue"])
async def test_a_question_that_matches_nothing_is_answered_without_tools(question: str) -> None:
    assert await Talk(CLOCK, OWNER, CONTRACT).say(question).answer()


async def test_a_conversation_without_any_message_is_answered() -> None:
    assert "no tool fits" in await Talk(CLOCK).answer()


async def test_a_chain_by_data_leads_values_of_results_into_the_next_call() -> None:
    talk = Talk(CONTRACT, OWNER).say("What is the rent of the contract of OLD MILL?")
    assert await talk.call() == ("find_owner", {"house": "OLD MILL"})
    talk.result({"owner": {"name": "Ann"}, "contracts": [{"contract_id": "K-12"}, {"contract_id": "K-13"}]})
    assert await talk.call() == ("read_contract", {"contract_id": "K-12"})
    assert await talk.result({"contract_id": "K-12", "rent": 900}).answer() == (
        "Owner: owner: (name: Ann), contracts: (contract_id: K-12; contract_id: K-13)\n"
        "Contract: contract_id: K-12, rent: 900"
    )


async def test_a_closing_call_says_what_was_found_and_what_is_open_and_continue_goes_on() -> None:
    talk = Talk(CONTRACT, OWNER).say("What is the rent of the contract of OLD MILL?")
    await talk.call()
    closing = await talk.result({"contract_id": "K-12"}).answer(tools=())
    assert closing.splitlines() == [
        "Owner: contract_id: K-12",
        'The budget is used up before everything could be looked up (still open: contract_id K-12). Say "continue" '
        "to go on.",
    ]
    assert await talk.say("continue").call() == ("read_contract", {"contract_id": "K-12"})
    assert "rent: 900" in await talk.result({"rent": 900}).answer()


async def test_a_closing_call_with_nothing_open_is_just_the_answer() -> None:
    talk = Talk(CLOCK, system='The budget is used up. Answer as "It is <time>."').say("what time is it")
    await talk.call()
    assert await talk.result("14:39:32").answer(tools=()) == "It is 14:39:32."


async def test_a_closing_call_names_a_tool_by_its_name_where_nobody_gave_a_form() -> None:
    talk = Talk(CLOCK).say("what time is it")
    await talk.call()
    assert await talk.result("2026-09-29 14:39:32").answer(tools=()) == "Time: 2026-09-29 14:39:32"


async def test_a_result_that_has_a_label_is_passed_on_as_it_is() -> None:
    talk = Talk(CLOCK).say("what time is it")
    await talk.call()
    assert await talk.result("时间查询完成: 14:39:32").answer(tools=()) == "时间查询完成: 14:39:32"


@pytest.mark.parametrize("word", ["continue", "Continue.", "go on", "please continue", "继续", "继续吧。", "接着"])
async def test_words_for_going_on_mean_the_question_before(word: str) -> None:
    talk = Talk(CLOCK).say("what time is it").say(word)
    assert await talk.call() == ("get_time", {})


async def test_going_on_after_everything_is_found_asks_for_nothing() -> None:
    talk = Talk(CLOCK).say("what time is it")
    await talk.call()
    await talk.result("14:39:32").answer()
    assert await talk.say("continue").answer() == "时间查询完成: 14:39:32"


async def test_a_new_question_calls_again_what_an_older_one_had_called() -> None:
    talk = Talk(CLOCK).say("what time is it")
    await talk.call()
    await talk.result("14:39:32").answer()
    assert await talk.say("and what time is it now?").call() == ("get_time", {})


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("error", "failed: no such house"),
        ("timed_out", "took too long: no such house"),
        ("denied", "was not approved: no such house"),
        ("interrupted", "was interrupted: no such house"),
        ("not_run", "was not run: no such house"),
    ],
)
async def test_a_call_that_failed_is_told_and_not_repeated(status: ResultStatus, said: str) -> None:
    talk = Talk(OWNER, CONTRACT).say("Who is the owner of OLD MILL?")
    await talk.call()
    assert await talk.result("no such house", status).answer() == f"Owner {said}"


async def test_a_call_that_never_ran_is_made_when_the_user_says_continue() -> None:
    talk = Talk(OWNER).say("Who is the owner of OLD MILL?")
    asked = await talk.call()
    talk.result("the run was stopped", "interrupted").say("continue")
    assert await talk.call() == asked


async def test_a_failed_name_is_not_tried_as_the_value_of_another_parameter() -> None:
    garden = ToolSpec(name="find_garden", description="Garden: by owner", parameters=object_of(owner={}))
    talk = Talk(OWNER, garden).say("garden of OLD MILL")
    assert await talk.call() == ("find_owner", {"house": "OLD MILL"})
    assert await talk.result("unknown", "error").answer() == "Owner failed: unknown"


async def test_what_is_missing_for_a_fitting_tool_is_said() -> None:
    answer = await Talk(CONTRACT).say("what does the contract say?").answer()
    assert answer == "Contract would help, but needs to know: contract_id."


async def test_a_question_of_nothing_but_a_name_leans_on_the_one_before() -> None:
    talk = Talk(WEATHER).say("weather in Paris")
    await talk.call()
    await talk.result("sunny").answer()
    assert await talk.say("And in Rome?").call() == ("get_weather", {"city": "Rome"})


async def test_a_later_question_may_speak_of_what_an_earlier_one_found() -> None:
    talk = Talk(OWNER, CONTRACT).say("Who is the owner of OLD MILL?")
    await talk.call()
    await talk.result({"contractId": "K-12"}).answer(tools=())
    assert await talk.say("and what rent does it say?").call() == ("read_contract", {"contract_id": "K-12"})


async def test_lone_surrogates_in_a_result_are_replaced() -> None:
    talk = Talk(CLOCK).say("what time is it")
    await talk.call()
    assert "\ufffd" in await talk.result('{"now": "\\ud800"}').answer()


async def test_json_that_cannot_be_read_is_passed_on_as_text() -> None:
    talk = Talk(CLOCK).say("what time is it")
    await talk.call()
    assert (await talk.result("[" * 5000).answer()).startswith("时间查询完成: [[[")


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "properties": [], "required": 5},
        {"properties": {"a": 1, "b": {"$ref": "#/$defs/b"}}, "required": ["a", "b", 7], "$defs": {"b": 3}},
        {"properties": {"a": {"$ref": "#/$defs/a"}}, "required": ["a"], "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {
            "properties": {"a": {"$ref": "#/$defs/a"}},
            "required": ["a"],
            "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}},
        },
        {"properties": {"a": {"anyOf": [3]}, "b": {"type": ["null"], "enum": [[], {}]}}, "required": ["a", "b"]},
        {"properties": {"a": {"pattern": "("}, "b": {"pattern": "a{99999999999}"}}, "required": ["a", "b"]},
        {"properties": {"a": {"pattern": "^(a+)+$"}}, "required": ["a"]},
    ],
)
async def test_a_schema_that_makes_no_sense_ends_no_run(parameters: dict[str, Any]) -> None:
    spec = ToolSpec(name="odd_thing", description="Odd thing", parameters=parameters)
    assert await Talk(spec).say("the odd thing of AAAAAAAAAAAAAAAAAAAAAAAAAAAAAA and K-12!").pieces()


async def test_many_tools_that_speak_of_each_other_are_each_looked_at_once() -> None:
    names = [f"part{index}" for index in range(40)]
    specs = [
        ToolSpec(
            name=f"make_{name}", description="makes a thing of " + " ".join(names), parameters=object_of(**{name: {}})
        )
        for name in names
    ]
    assert await Talk(*specs).say("make me a thing").pieces()


async def test_a_label_with_braces_is_only_a_label() -> None:
    odd = ToolSpec(name="odd", description="{odd} thing: it fails")
    talk = Talk(odd).say("the odd thing")
    await talk.call()
    assert await talk.result("no {luck}", "error").answer() == "{odd} thing failed: no {luck}"


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


@tool
def sum_up(numbers: list[int]) -> int:
    """Sum up numbers."""
    return sum(numbers)


@pytest.mark.parametrize(
    ("offered", "question", "arguments"),
    [
        (get_forecast, "forecast for Paris", {"city": "Paris"}),
        (get_forecast, "the forecast in new york today, please", {"city": "new york"}),
        (get_forecast, "forecast in Oslo in kelvin, days: 5", {"city": "Oslo", "unit": "kelvin", "days": 5}),
        (get_forecast, "巴黎的天气怎么样？", {"city": "巴黎"}),
        (get_forecast, "北京明天天气预报", {"city": "北京"}),
        (add, "add 2 and 3.5", {"a": 2, "b": 3.5}),
        (search_web, "search for cheap flights to Rome.", {"query": "cheap flights to Rome"}),
        (search_web, "search the best pasta", {"query": "search the best pasta"}),
        (echo, "echo 'good morning'", {"text": "good morning"}),
        (echo, "echo this", {"text": "echo this"}),
        (book_room, 'book a double room for 2 on "2026-10-01"', {"day": "2026-10-01", "guests": 2, "kind": "double"}),
        (sum_up, "sum up the number 7", {"numbers": [7]}),
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

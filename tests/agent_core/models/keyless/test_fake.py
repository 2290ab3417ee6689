"""The keyless model: the tools that it calls, their arguments, and its answers."""

from typing import Any

import pytest

from agent_core.messages import ResultStatus
from agent_core.models.base import ArgumentsPiece, CallPiece
from agent_core.tools.base import ToolSpec
from tests.agent_core.models.keyless.talk import CLOCK, CONTRACT, OWNER, WEATHER, Talk, object_of


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
        "Owner: name: Ann, contract_id: K-12, contract_id: K-13\nContract: contract_id: K-12, rent: 900"
    )


async def test_a_closing_call_says_what_was_found_and_continue_goes_on() -> None:
    talk = Talk(CONTRACT, OWNER).say("What is the rent of the contract of OLD MILL?")
    await talk.call()
    closing = await talk.result({"contract_id": "K-12"}).answer(tools=())
    assert closing.splitlines() == [
        "Find owner: contract_id: K-12",
        'The budget is used up, and there may be more to look up. Say "continue" to go on.',
    ]
    assert await talk.say("continue").call() == ("read_contract", {"contract_id": "K-12"})
    assert "rent: 900" in await talk.result({"rent": 900}).answer()


async def test_a_closing_call_with_a_plain_text_is_just_the_answer() -> None:
    talk = Talk(CLOCK, system='The budget is used up. Answer as "It is <time>."').say("what time is it")
    await talk.call()
    assert await talk.result("14:39:32").answer(tools=()) == "It is 14:39:32."


async def test_a_closing_call_names_a_tool_by_its_name_where_nobody_gave_a_form() -> None:
    talk = Talk(CLOCK).say("what time is it")
    await talk.call()
    assert await talk.result("2026-09-29 14:39:32").answer(tools=()) == "Get time: 2026-09-29 14:39:32"


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


@pytest.mark.parametrize("word", ["hello", "hi there", "thanks!", "Rome", "你好", "谢谢", "and hello?", "ok"])
async def test_a_message_that_does_not_continue_calls_no_tool_again(word: str) -> None:
    talk = Talk(WEATHER, OWNER, CONTRACT, CLOCK).say("weather in Paris")
    await talk.call()
    await talk.result({"city": "Paris", "house": "OLD MILL", "contract_id": "K-12"}).answer()
    assert "no tool fits" in (await talk.say(word).answer()).replace("没有适合", "no tool fits")


async def test_a_tool_that_requires_more_than_is_looked_at_is_not_called() -> None:
    names = {f"part{index}": {"const": index} for index in range(30)}
    spec = ToolSpec(name="make_thing", description="Thing", parameters=object_of(**names))
    assert "no tool fits" in await Talk(spec).say("make the thing").answer()


async def test_a_choice_of_one_needs_no_asking_and_a_choice_is_found_in_a_result() -> None:
    kinds = object_of(kind={"enum": ["oak", "ash"]}, unit={"const": "m"})
    tree = ToolSpec(name="plant_tree", description="Tree: plants a tree of a kind", parameters=kinds)
    talk = Talk(OWNER, tree).say("who is the owner of OLD MILL, and plant a tree")
    assert await talk.call() == ("find_owner", {"house": "OLD MILL"})
    assert await talk.result({"kind": "ash"}).call() == ("plant_tree", {"kind": "ash", "unit": "m"})


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

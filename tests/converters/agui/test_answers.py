"""Answers to interrupts, as AG-UI's clients send them."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.errors import InvalidRequest
from agent_core.interrupts import Answer
from converters.agui.answers import MOST_ANSWERS, answers_of
from converters.agui.decode import parse_run_input

Members = dict[str, Any]

YES: Members = {"interruptId": "i1", "status": "resolved", "payload": {"approved": True}}


def parse(resume: Any, **more: Any) -> tuple[Answer, ...]:
    body = {"threadId": "t1", "runId": "r1", "messages": [], "resume": resume}
    return parse_run_input(orjson.dumps(body | more)).input.answers


def refusal(resume: Any, **more: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse(resume, **more)
    assert len(caught.value.message.encode()) <= 4_000
    assert caught.value.message.startswith(f"{caught.value.param}: ")
    return caught.value


def test_answers_come_as_they_are_each_with_its_place() -> None:
    assert parse(
        [
            YES | {"metadata": {"signed": True}, "unknown": 1},
            {"interruptId": "i2", "status": "cancelled"},
            {"interruptId": "i3", "status": "resolved", "payload": None},
            {"interrupt_id": "i4", "status": "resolved", "payload": [1, "x"]},
        ]
    ) == (
        Answer(interrupt_id="i1", payload={"approved": True}, param="resume[0]"),
        Answer(interrupt_id="i2", status="cancelled", param="resume[1]"),
        Answer(interrupt_id="i3", param="resume[2]"),
        Answer(interrupt_id="i4", payload=[1, "x"], param="resume[3]"),
    )


@pytest.mark.parametrize("nothing", [None, []])
def test_no_answers_are_none_and_then_a_message_is_needed(nothing: Any) -> None:
    message = {"id": "m1", "role": "user", "content": "hi"}
    assert parse(nothing, messages=[message]) == ()
    assert refusal(nothing).param == "messages"


def test_messages_may_come_beside_answers() -> None:
    tool = {"id": "m1", "role": "tool", "toolCallId": "c1", "content": '{"approved":true}'}
    given_input = parse_run_input(
        orjson.dumps({"threadId": "t1", "runId": "r1", "messages": [tool], "resume": [YES]})
    ).input
    assert (len(given_input.messages), len(given_input.answers)) == (1, 1)


def test_messages_must_be_a_list_all_the_same() -> None:
    assert refusal([YES], messages=None).param == "messages"


@pytest.mark.parametrize(
    ("resume", "param"),
    [
        (5, "resume"),
        ({}, "resume"),
        ("i1", "resume"),
        ([YES] * (MOST_ANSWERS + 1), "resume"),
        ([5] * 100_000, "resume"),
        ([YES, None], "resume[1]"),
        (["i1"], "resume[0]"),
        ([{"status": "resolved"}], "resume[0].interruptId"),
        ([YES | {"interruptId": ""}], "resume[0].interruptId"),
        ([YES | {"interruptId": 5}], "resume[0].interruptId"),
        ([YES | {"interruptId": "x" * 257}], "resume[0].interruptId"),
        ([{"interrupt_id": 5, "status": "resolved"}], "resume[0].interrupt_id"),
        ([{"interruptId": "i1"}], "resume[0].status"),
        ([YES | {"status": None}], "resume[0].status"),
        ([YES | {"status": "approved"}], "resume[0].status"),
        ([YES | {"status": ["resolved"]}], "resume[0].status"),
        ([YES, YES], "resume[1].interruptId"),
        ([YES, {"interruptId": "i2", "status": "cancelled"}, YES | {"status": "cancelled"}], "resume[2].interruptId"),
    ],
)
def test_an_answer_that_cannot_be_used_is_named(resume: Any, param: str) -> None:
    assert refusal(resume).param == param


def test_another_name_for_the_list_is_in_the_paths() -> None:
    members: Members = {"answers": [YES], "more": 1}
    assert answers_of(members, "answers")[0].param == "answers[0]"
    assert members == {"more": 1}
    with pytest.raises(InvalidRequest) as caught:
        answers_of({"answers": [{}]}, "answers")
    assert caught.value.param == "answers[0].interruptId"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "interruptId": JSON | st.text(),
        "interrupt_id": JSON | st.text(),
        "status": JSON | st.sampled_from(["resolved", "cancelled"]),
        "payload": JSON,
    },
)


@given(JSON | st.lists(ENTRIES | JSON, max_size=4))
def test_whatever_comes_is_answers_or_a_refusal_of_its_place(resume: Any) -> None:
    answers, refused = None, ""
    try:
        answers = answers_of({"resume": resume})
    except InvalidRequest as error:
        refused = error.param or ""
    if answers is None:
        assert refused.startswith("resume")
    else:
        assert len({each.interrupt_id for each in answers}) == len(answers) == len(resume or [])

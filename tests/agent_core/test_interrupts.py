"""What an answer to an interrupt amounts to, and which answers are refused."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.errors import InvalidRequest
from agent_core.interrupts import LONGEST_REASON, Answer, Decision, Interrupt, Kind, decide

APPROVAL = Interrupt(id="i1", kind="approval", call_id="c1", name="send_email", expires_at=1_000)
WAITING = Interrupt(id="i1", kind="waiting", call_id="c1", name="render", operation_id="op1")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
PAYLOADS = JSON | st.dictionaries(
    st.sampled_from(["approved", "reason", "arguments", "editedArguments", "args", "result", "error"]), JSON, max_size=4
)


def answered(payload: Any, interrupt: Interrupt = APPROVAL, *, now: int = 0) -> Decision:
    return decide(interrupt, Answer(interrupt_id="i1", payload=payload, param="resume[3]"), now)


def abandoned(interrupt: Interrupt, *, now: int = 0) -> Decision:
    return decide(interrupt, Answer(interrupt_id="i1", status="cancelled", payload={"approved": True}), now)


@pytest.mark.parametrize(
    ("payload", "decision"),
    [
        ({"approved": True}, Decision(kind="approved")),
        ({"approved": True, "reason": "fine", "more": 1}, Decision(kind="approved")),
        ({"approved": True, "arguments": None}, Decision(kind="approved")),
        ({"approved": True, "arguments": {}}, Decision(kind="approved", arguments="{}")),
        ({"approved": True, "arguments": {"to": "ann"}}, Decision(kind="approved", arguments='{"to":"ann"}')),
        ({"approved": True, "editedArguments": {"a": [1]}}, Decision(kind="approved", arguments='{"a":[1]}')),
        ({"approved": True, "args": {"a": 1}}, Decision(kind="approved", arguments='{"a":1}')),
        ({"approved": True, "args": {"a": 1}, "arguments": {}}, Decision(kind="approved", arguments="{}")),
        ({"approved": False}, Decision(kind="denied")),
        ({"approved": False, "reason": None}, Decision(kind="denied")),
        ({"approved": False, "reason": "not to him"}, Decision(kind="denied", text="not to him")),
        ({"approved": False, "reason": "a\ud800"}, Decision(kind="denied", text="a\ufffd")),
        ({"approved": False, "arguments": {"to": "ann"}}, Decision(kind="denied")),
    ],
)
def test_what_a_person_says_about_a_call(payload: Any, decision: Decision) -> None:
    assert answered(payload) == decision


def test_a_long_reason_is_cut() -> None:
    assert len(answered({"approved": False, "reason": "x" * 5_000}).text) == LONGEST_REASON


@pytest.mark.parametrize(
    ("payload", "param"),
    [
        (None, "payload"),
        (True, "payload"),
        ("approved", "payload"),
        ([{"approved": True}], "payload"),
        ({}, "payload.approved"),
        ({"approved": None}, "payload.approved"),
        ({"approved": 1}, "payload.approved"),
        ({"approved": "true"}, "payload.approved"),
        ({"Approved": True}, "payload.approved"),
        ({"approved": False, "reason": 5}, "payload.reason"),
        ({"approved": True, "reason": []}, "payload.reason"),
        ({"approved": True, "arguments": "{}"}, "payload.arguments"),
        ({"approved": True, "arguments": []}, "payload.arguments"),
        ({"approved": True, "editedArguments": False}, "payload.editedArguments"),
        ({"approved": True, "args": 0}, "payload.args"),
        ({"approved": True, "arguments": {"a": object()}}, "payload.arguments"),
    ],
)
def test_an_answer_of_another_shape_is_refused_by_its_place(payload: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        answered(payload)
    assert caught.value.param == f"resume[3].{param}"
    assert caught.value.message.startswith(f"resume[3].{param}: ")


@pytest.mark.parametrize(
    ("payload", "decision"),
    [
        ({"result": "done"}, Decision(kind="result", text="done")),
        ({"result": {"a": 1}}, Decision(kind="result", text='{"a":1}')),
        ({"result": None}, Decision(kind="result", text="null")),
        ({"result": ""}, Decision(kind="result")),
        ({"result": 1, "more": 2}, Decision(kind="result", text='{"result":1,"more":2}')),
        ("plain", Decision(kind="result", text="plain")),
        ("a\udfff", Decision(kind="result", text="a\ufffd")),
        ([1, 2], Decision(kind="result", text="[1,2]")),
        (None, Decision(kind="result", text="null")),
        ({"error": "no paper"}, Decision(kind="failed", text="no paper")),
        ({"error": {"code": 5}}, Decision(kind="failed", text='{"code":5}')),
        ({"error": "x", "result": 1}, Decision(kind="result", text='{"error":"x","result":1}')),
        ({"approved": True}, Decision(kind="result", text='{"approved":true}')),
    ],
)
def test_the_result_of_an_operation_is_a_text_or_the_json_of_anything(payload: Any, decision: Decision) -> None:
    assert answered(payload, WAITING) == decision


def test_a_result_that_is_no_json_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no JSON"):
        answered({"result": object()}, WAITING)


@pytest.mark.parametrize("kind", ["approval", "waiting"])
def test_an_interrupt_that_has_expired_can_only_be_abandoned(kind: Kind) -> None:
    interrupt = Interrupt(id="i1", kind=kind, call_id="c1", name="n", expires_at=1_000)
    assert answered({"approved": True}, interrupt, now=999).kind in ("approved", "result")
    for payload in ({"approved": True}, {"approved": False}, {"result": 1}, None):
        with pytest.raises(InvalidRequest) as caught:
            answered(payload, interrupt, now=1_000)
        assert caught.value.param == "resume[3]"
    assert abandoned(interrupt, now=5_000) == Decision(kind="abandoned")


def test_one_without_an_end_never_expires() -> None:
    assert answered("x", WAITING, now=2**52).kind == "result"


def test_abandoning_looks_at_no_payload() -> None:
    assert abandoned(APPROVAL) == abandoned(WAITING) == Decision(kind="abandoned")


@given(PAYLOADS)
def test_whatever_comes_only_a_true_that_says_so_approves(payload: Any) -> None:
    decision, refused = None, ""
    try:
        decision = answered(payload)
    except InvalidRequest as error:
        refused = error.param or ""
    if decision is None:
        assert refused.startswith("resume[3].payload")
        return
    assert (decision.kind == "approved") == (payload["approved"] is True)
    assert decision.arguments == "" or isinstance(orjson.loads(decision.arguments), dict)


@given(PAYLOADS)
def test_whatever_comes_is_some_result_of_an_operation(payload: Any) -> None:
    assert answered(payload, WAITING).kind in ("result", "failed")

"""A conversation that a client brings: each call with its result, and nothing left to be carried out."""

from hashlib import blake2b

import pytest

from agent_core.messages import Message, ToolCall
from agent_core.pairing import open_calls, paired
from agent_core.react.opening import adopt
from agent_core.react.opening.adopt import adopted


def said(message_id: str, text: str = "text") -> Message:
    return Message(id=message_id, role="user", content=text)


def result(message_id: str, call_id: str, text: str = "42") -> Message:
    return Message(id=message_id, role="tool", tool_call_id=call_id, content=text)


def call(call_id: str, name: str = "pick") -> ToolCall:
    return ToolCall(id=call_id, name=name)


def asks(message_id: str, *calls: ToolCall) -> Message:
    return Message(id=message_id, role="assistant", tool_calls=calls)


def shape(messages: list[Message]) -> list[tuple[str, str | None, str]]:
    return [(each.role, each.tool_call_id, each.status if each.role == "tool" else each.text) for each in messages]


U1, U2 = said("u1", "one"), said("u2", "two")


def test_open_calls_of_the_server_are_not_run_and_those_of_the_client_may_wait() -> None:
    brought = adopted([U1, asks("a", call("c1", "wipe"), call("c2"))], {"wipe"})
    assert shape(brought)[2:] == [("tool", "c1", "not_run")]
    assert [each.id for each in open_calls(brought)] == ["c2"]


def test_open_calls_behind_which_it_went_on_are_settled_where_they_stand() -> None:
    brought = adopted([U1, asks("a", call("c1"), call("c2")), result("t1", "c1"), U2], ())
    assert shape(brought)[2:] == [("tool", "c1", "ok"), ("tool", "c2", "not_run"), ("user", None, "two")]


def test_a_result_behind_a_message_of_the_user_is_its_call_s() -> None:
    brought = adopted([U1, asks("a", call("c1"), call("c2")), U2, result("t2", "c2", "b"), result("t1", "c1", "a")], ())
    assert shape(brought)[2:] == [("tool", "c1", "ok"), ("tool", "c2", "ok"), ("user", None, "two")]
    assert [each.text for each in brought if each.role == "tool"] == ["a", "b"]
    assert paired(brought) == brought


def test_of_two_results_of_a_call_the_first_counts() -> None:
    brought = adopted([U1, asks("a", call("c1")), result("t1", "c1", "first"), U2, result("t2", "c1", "second")], ())
    assert [each.text for each in brought if each.role == "tool"] == ["first"]


def test_a_result_belongs_to_the_last_call_of_its_id_before_it() -> None:
    brought = adopted([asks("a", call("c1")), U1, asks("b", call("c1")), U2, result("t1", "c1")], ())
    assert [(each.role, each.status) for each in brought if each.role == "tool"] == [
        ("tool", "not_run"), ("tool", "ok"),
    ]  # fmt: skip
    assert paired(brought) == brought


def test_ids_that_come_again_are_made_others_the_same_each_time_and_keep_their_own_results() -> None:
    conversation = [U1]
    for number in range(3):
        conversation += [asks(f"a{number}", call("c1")), result(f"t{number}", "c1", str(number))]
    brought = adopted(conversation, ())
    ids = [each.tool_call_id for each in brought if each.role == "tool"]
    assert ids[0] == "c1"
    assert len(set(ids)) == 3
    assert [each.text for each in brought if each.role == "tool"] == ["0", "1", "2"]
    assert paired(brought) == brought
    assert adopted(conversation, ()) == brought


def test_an_id_that_comes_a_thousand_times_is_replaced_without_trying_any_number_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[bytes] = []

    def counted(text: bytes, digest_size: int) -> object:
        tried.append(text)
        return blake2b(text, digest_size=digest_size)

    monkeypatch.setattr(adopt, "blake2b", counted)
    brought = adopted([asks(f"a{number}", call("c1"), call(f"d{number % 2}")) for number in range(1_000)], ())
    ids = [call.id for each in brought for call in each.tool_calls]
    assert len(set(ids)) == 2_000
    assert len(tried) == len(set(tried)) == 1_997


def test_an_id_twice_in_one_message_is_one_call() -> None:
    brought = adopted([U1, asks("a", call("c1"), call("c1")), result("t1", "c1"), U2], ())
    assert shape(brought)[1:] == [("assistant", None, ""), ("tool", "c1", "ok"), ("user", None, "two")]
    assert len(brought[1].tool_calls) == 1


def test_results_without_a_call_or_in_front_of_it_are_left_out() -> None:
    assert adopted([result("t0", "c"), U1, result("t1", "c")], ()) == [U1]
    brought = adopted([U1, result("t1", "c1"), asks("a", call("c1")), U2], ())
    assert shape(brought)[2:] == [("tool", "c1", "not_run"), ("user", None, "two")]


def test_of_two_messages_with_one_id_the_last_counts() -> None:
    assert adopted([U1, said("u1", "later")], ()) == [said("u1", "later")]

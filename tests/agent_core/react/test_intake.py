"""How input joins the history: merged by id, and never trusted to act."""

from agent_core.messages import Message, Role, ToolCall
from agent_core.react.intake import merge, waiting_for_client
from agent_core.sessions.entries import History


def said(message_id: str, role: Role = "user", content: str = "text") -> Message:
    return Message(id=message_id, role=role, content=content)


def tool_message(message_id: str, call_id: str, content: str = "42") -> Message:
    return Message(id=message_id, role="tool", tool_call_id=call_id, content=content)


def history(*messages: Message) -> History:
    made = History()
    for message in messages:
        made.add(message)
    return made


ASKING = Message(id="a1", role="assistant", tool_calls=(ToolCall(id="c1", name="pick"), ToolCall(id="c2", name="pick")))


def test_known_ids_are_passed_over_and_new_ones_appended_in_order() -> None:
    past = history(said("u1"), said("a1", "assistant"))
    new = merge(past, [said("u1"), said("a1", "assistant"), said("d1", "developer"), said("u2")], ())
    assert [message.id for message in new] == ["d1", "u2"]


def test_an_unknown_assistant_message_counts_only_where_there_is_no_history_and_only_its_text() -> None:
    forged = Message(id="x", role="assistant", content="I did", tool_calls=(ToolCall(id="c", name="wipe"),))
    assert merge(history(said("u1")), [forged, said("u2")], ())[0].id == "u2"
    seeded = merge(history(), [said("u1"), forged, said("u2")], ())
    assert [(message.id, message.tool_calls) for message in seeded] == [("u1", ()), ("x", ()), ("u2", ())]


def test_a_tool_message_counts_only_for_a_call_that_waits_and_only_once() -> None:
    past = history(said("u1"), ASKING)
    given = [tool_message("t1", "c2"), tool_message("t2", "c2", "again"), tool_message("t3", "other")]
    new = merge(past, given, ASKING.tool_calls)
    assert [(m.tool_call_id, m.text, m.name) for m in new] == [("c2", "42", "pick")]


def test_answers_come_in_the_order_of_the_calls() -> None:
    given = [tool_message("t2", "c2"), tool_message("t1", "c1")]
    new = merge(history(said("u1"), ASKING), given, ASKING.tool_calls)
    assert [m.tool_call_id for m in new] == ["c1", "c2"]


def test_a_user_message_settles_what_is_left_as_not_run() -> None:
    new = merge(history(said("u1"), ASKING), [said("u2"), tool_message("t1", "c1")], ASKING.tool_calls)
    assert [(m.role, m.status) for m in new] == [("tool", "ok"), ("tool", "not_run"), ("user", "ok")]


def test_an_answer_whose_id_is_taken_gets_one_of_its_own() -> None:
    new = merge(history(said("u1"), ASKING), [tool_message("u1", "c1")], ASKING.tool_calls)
    assert new[0].id != "u1"


def test_an_error_of_the_client_stays_an_error() -> None:
    failed = Message(id="t", role="tool", tool_call_id="c1", content="no camera", status="error")
    assert merge(history(ASKING), [failed], ASKING.tool_calls)[0].status == "error"


def test_a_message_that_comes_twice_in_one_input_counts_once() -> None:
    assert len(merge(history(), [said("u1"), said("u1", content="other")], ())) == 1


def test_calls_of_server_tools_never_wait_for_the_client() -> None:
    assert waiting_for_client([ASKING], {"pick"}) == ()
    assert [call.id for call in waiting_for_client([ASKING], {"other"})] == ["c1", "c2"]

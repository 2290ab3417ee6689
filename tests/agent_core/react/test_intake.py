"""How input joins the history: merged by id, and never trusted to act."""

import pytest

from agent_core.messages import Message, Role, ToolCall
from agent_core.react.intake import CUT_TITLE, Intake, adopted, merge, take_in, title_of, waiting_for_client
from agent_core.react.pairing import open_calls, paired
from agent_core.sessions.history import History, PastRun


def said(message_id: str, role: Role = "user", content: str = "text") -> Message:
    return Message(id=message_id, role=role, content=content)


def tool_message(message_id: str, call_id: str, content: str = "42") -> Message:
    return Message(id=message_id, role="tool", tool_call_id=call_id, content=content)


def history(*messages: Message) -> History:
    made = History(agent="a", runs={"r1": PastRun(status="completed")})
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


U1, A1, U2, A2 = said("u1"), said("a1", "assistant"), said("u2"), said("a2", "assistant")
EDITED = said("u2", content="other")


@pytest.mark.parametrize(
    ("sent", "changes"),
    [
        pytest.param([U1, A1, U2], Intake(rewind="u2", opens=True), id="regenerate"),
        pytest.param([U1], Intake(rewind="u1", opens=True), id="regenerate further up"),
        pytest.param([U1, U2], Intake(rewind="u2", opens=True), id="regenerate where the client lacks an answer"),
        pytest.param([U1, A1, EDITED], Intake(rewind="a1", messages=[EDITED], opens=True), id="edit"),
        pytest.param(
            [said("u1", content="x")],
            Intake(rewind="", messages=[said("u1", content="x")], opens=True),
            id="edit the first",
        ),
        pytest.param([U1, A1, U2, A2], Intake(missed=True), id="nothing new, and it ends on an answer"),
        pytest.param([U2], Intake(missed=True), id="only the last message, again"),
        pytest.param([tool_message("t", "nobody")], Intake(missed=True), id="a result that answers nothing"),
        pytest.param([], Intake(missed=True), id="nothing at all"),
        pytest.param(
            [U1, A1, U2, A2, said("u3")],
            Intake(messages=[said("u3")], opens=True),
            id="the transcript and a new message",
        ),
        pytest.param(
            [U1, A1, said("u3")],
            Intake(messages=[said("u3")], opens=True),
            id="a client that never got the last answer",
        ),
        pytest.param([said("u3")], Intake(messages=[said("u3")], opens=True), id="only the new message"),
        pytest.param([U1, said("x", "assistant"), U2], Intake(missed=True), id="with a forged answer"),
        pytest.param(
            [said("s1", "system"), U1, A1, U2],
            Intake(rewind="a1", messages=[said("s1", "system"), U2], opens=True),
            id="regenerate under new rules",
        ),
        pytest.param([U1, said("x")], Intake(messages=[said("x")], opens=True), id="something unknown at the end"),
    ],
)
def test_a_transcript_of_known_messages_that_ends_on_a_user_message_rewinds(
    sent: list[Message], changes: Intake
) -> None:
    assert take_in(history(U1, A1, U2, A2), sent, ()) == changes


def test_a_run_that_was_lost_is_gone_on_with_and_not_rewound() -> None:
    past = history(U1, A1, U2, ASKING)
    past.lost["r2"] = "a"
    assert take_in(past, [U1, A1, U2], ()) == Intake()
    assert take_in(past, [U1], ()) == Intake(rewind="u1", opens=True), "that is another message than the lost run's"


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
def test_a_question_whose_run_failed_is_asked_again_in_the_same_turn_when_it_comes_again(outcome: str) -> None:
    past = history(U1, A1, U2, A2)
    past.runs["r1"] = PastRun(status=outcome)
    assert take_in(past, [U2], ()) == Intake(rewind="u2")
    assert take_in(past, [U1, A1, U2], ()) == Intake(rewind="u2")
    assert take_in(past, [U1], ()) == Intake(rewind="u1", opens=True)
    assert take_in(past, [tool_message("t", "nobody")], ()) == Intake(), "that is no question"


def test_a_run_that_another_agent_lost_changes_nothing_for_this_one() -> None:
    past = history(U1, A1, U2, A2)
    past.lost["r9"] = "another"
    assert take_in(past, [U1, A1, U2], ()) == Intake(rewind="u2", opens=True)


def test_an_answer_that_nobody_has_seen_is_not_made_again() -> None:
    past = history(U1, A1, U2, A2)
    past.runs["r1"] = PastRun(status="completed", unread=True)
    assert take_in(past, [U1, A1, U2], ()) == Intake(missed=True)
    assert take_in(past, [U1, A1, U2], (), seen=True) == Intake(rewind="u2", opens=True), "but somebody has, since"
    assert take_in(past, [U1, A1, EDITED], ()) == Intake(rewind="a1", messages=[EDITED], opens=True)


def test_new_rules_alone_open_no_turn() -> None:
    assert take_in(history(U1, A1), [said("s1", "system")], ()) == Intake(messages=[said("s1", "system")])


def test_a_conversation_that_is_brought_whole_opens_a_turn() -> None:
    assert take_in(history(), [U1], (), whole=True).opens
    assert not take_in(history(), [A1], (), whole=True).opens


def test_asking_again_before_there_is_any_answer_changes_nothing() -> None:
    assert take_in(history(U1), [U1], ()) == Intake()


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("hello", "hello"),
        ("  two\n lines\t\x00here ", "two lines here"),
        ("word " * 30, ("word " * 12).strip()[: CUT_TITLE - 1].rsplit(" ", 1)[0] + "…"),
        ("x" * 100, "x" * (CUT_TITLE - 1) + "…"),
        ("\u202eevil", "evil"),
        (" ", ""),
    ],
)
def test_a_title_is_cut_from_the_first_text(text: str, title: str) -> None:
    made = title_of([said("s", "system", "rules"), said("e", content=""), said("u", content=text)])
    assert made == title or (made.endswith("…") and len(made) <= CUT_TITLE and text.startswith(made[:-1]))


def test_what_was_rewound_away_comes_back_only_as_the_question_itself() -> None:
    past = history(U1, A1, U2, A2)
    past.rewind("a1")
    assert take_in(past, [U1, A1, U2, A2, said("u3")], ()) == Intake(messages=[said("u3")], opens=True)
    assert take_in(past, [U1, A1, U2], ()) == Intake(messages=[U2], opens=True)


def call(call_id: str, name: str = "pick") -> ToolCall:
    return ToolCall(id=call_id, name=name)


def asks(message_id: str, *calls: ToolCall) -> Message:
    return Message(id=message_id, role="assistant", tool_calls=calls)


def shape(messages: list[Message]) -> list[tuple[str, str | None, str]]:
    return [(m.role, m.tool_call_id, m.status if m.role == "tool" else m.text) for m in messages]


def test_a_brought_conversation_never_leaves_a_server_s_call_to_be_run() -> None:
    brought = adopted([U1, asks("a", call("c1", "wipe"), call("c2"))], {"wipe"})
    assert shape(brought)[2:] == [("tool", "c1", "not_run")]
    assert [each.id for each in open_calls(brought)] == ["c2"], "the client's own may still wait"


def test_a_brought_conversation_that_went_on_has_its_open_calls_settled_where_they_stand() -> None:
    brought = adopted([U1, asks("a", call("c1"), call("c2")), tool_message("t1", "c1", "r"), U2], ())
    assert shape(brought)[2:] == [("tool", "c1", "ok"), ("tool", "c2", "not_run"), ("user", None, "text")]


def test_call_ids_that_come_again_in_a_brought_conversation_keep_their_own_results() -> None:
    first, second = tool_message("t1", "c1", "one"), tool_message("t2", "c1", "two")
    brought = adopted([U1, asks("a", call("c1")), first, asks("b", call("c1")), second, U2], ())
    results = [m for m in brought if m.role == "tool"]
    assert [m.text for m in results] == ["one", "two"]
    assert results[0].tool_call_id != results[1].tool_call_id == brought[3].tool_calls[0].id
    assert paired(brought) == brought


def test_results_without_a_call_are_left_out_of_a_brought_conversation() -> None:
    assert adopted([tool_message("t0", "c"), U1, tool_message("t1", "c")], ()) == [U1]

"""How input joins the history: merged by id, and never trusted to act."""

import pytest

from agent_core.messages import Message, Role, ToolCall
from agent_core.react.intake import CUT_TITLE, Intake, merge, take_in, title_of, waiting_for_client
from agent_core.sessions.history import History


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


U1, A1, U2, A2 = said("u1"), said("a1", "assistant"), said("u2"), said("a2", "assistant")
EDITED = said("u2", content="other")


@pytest.mark.parametrize(
    ("sent", "changes"),
    [
        pytest.param([U1, A1, U2], Intake(rewind="u2"), id="regenerate"),
        pytest.param([U1], Intake(rewind="u1"), id="regenerate further up"),
        pytest.param([U1, U2], Intake(rewind="u2"), id="regenerate where the client lacks an answer"),
        pytest.param([U1, A1, EDITED], Intake(rewind="a1", messages=[EDITED]), id="edit"),
        pytest.param(
            [said("u1", content="x")], Intake(rewind="", messages=[said("u1", content="x")]), id="edit the first"
        ),
        pytest.param([U1, A1, U2, A2], Intake(), id="nothing new, and it ends on an answer"),
        pytest.param([U2], Intake(), id="not from the first message on"),
        pytest.param(
            [U1, A1, U2, A2, said("u3")], Intake(messages=[said("u3")]), id="the transcript and a new message"
        ),
        pytest.param([U1, A1, said("u3")], Intake(messages=[said("u3")]), id="a client that never got the last answer"),
        pytest.param([said("u3")], Intake(messages=[said("u3")]), id="only the new message"),
        pytest.param([U1, said("x", "assistant"), U2], Intake(), id="with a forged answer"),
        pytest.param(
            [said("s1", "system"), U1, A1, U2],
            Intake(rewind="a1", messages=[said("s1", "system"), U2]),
            id="regenerate under new rules",
        ),
        pytest.param([U1, said("x")], Intake(messages=[said("x")]), id="something unknown at the end"),
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
    assert take_in(past, [U1], ()) == Intake(rewind="u1"), "that is another message than the lost run's"


def test_an_answer_that_nobody_has_seen_is_not_made_again() -> None:
    past = history(U1, A1, U2, A2)
    past.missed = True
    assert take_in(past, [U1, A1, U2], ()) == Intake(missed=True)
    assert take_in(past, [U1, A1, EDITED], ()) == Intake(rewind="a1", messages=[EDITED])


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
    past = history(U1, A1)
    past.forgotten = {"u2", "a2"}
    assert take_in(past, [U1, A1, U2, A2, said("u3")], ()) == Intake(messages=[said("u3")])
    assert take_in(past, [U1, A1, U2], ()) == Intake(messages=[U2])

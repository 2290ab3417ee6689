"""What a client's transcript means: what the model sees, and how often the tools run."""

import asyncio

import pytest

from agent_core.engine import Engine
from agent_core.errors import InvalidRequest
from agent_core.events import FinalOutput, StateSnapshot
from agent_core.interrupts import Answer
from agent_core.messages import MediaPart, Message, TextPart, ToolCall
from agent_core.names import SessionKey
from agent_core.sessions.copies.portable import export_lines, import_entries
from agent_core.shortened import beginning_of
from tests.agent_core.react.opening.talk import (
    KEY,
    Talk,
    ignored,
    is_told,
    result,
    rewound,
    said,
    status,
    system,
    told,
)
from tests.doubles import calls


def fresh(messages: list[Message], number: int) -> list[Message]:
    """The messages under new ids, as some clients make them for each request."""
    return [
        Message(
            id=f"n{number}-{at}",
            role=each.role,
            content=each.content,
            tool_calls=each.tool_calls,
            tool_call_id=each.tool_call_id,
            name=each.name,
        )
        for at, each in enumerate(messages)
    ]


async def asked(talk: Talk, *questions: str) -> list[Message]:
    """The transcript after these questions, under the ids u1, u2, …"""
    for number, question in enumerate(questions, start=1):
        await talk.ask(*await talk.shown(), said(f"u{number}", question))
    return await talk.shown()


# Fresh ids


@pytest.mark.parametrize("observed", [False, True])
async def test_three_turns_of_a_client_that_numbers_anew_are_three_turns(observed: bool) -> None:
    talk = Talk()
    transcript: list[Message] = []
    for number, question in enumerate(("q0", "q1", "q2")):
        transcript = [*fresh(transcript, number), said(f"n{number}-new", question)]
        assert ignored(await talk.ask(*transcript)) == []
        transcript.append(said("x", f"answer to {question}", "assistant"))
        if observed and not number:
            await talk.engine.observe(talk.agent, [said("o1", "by the way")], user_id="u", session_id="s")
    seen = ["q0", "answer to q0", *(["by the way"] if observed else []), "q1", "answer to q1", "q2"]
    assert talk.seen == seen


async def test_a_client_that_numbers_anew_has_its_tool_asked_for_once() -> None:
    talk = Talk()
    await talk.ask(said("a-0", "pick:x"))
    transcript = [*await talk.shown(), result((await talk.call()).id, "blue")]
    events = await talk.ask(*fresh(transcript, 1))
    assert (status(events), talk.asked) == ("completed", 2)
    for question in ("q1", "q2"):
        transcript = fresh([*await talk.shown(), said("x", question)], 2)
        assert ignored(await talk.ask(*transcript)) == []
    assert talk.seen == ["pick:x", "", "blue", "answer to pick:x", "q1", "answer to q1", "q2"]


async def test_fresh_ids_after_a_failure_are_the_same_question() -> None:
    talk = Talk()
    talk.fails = 2
    await talk.ask(said("n1", "broken q0"))
    await talk.ask(said("n2", "broken q0"))
    events = await talk.ask(said("n3", "broken q0"))
    assert (status(events), talk.seen) == ("completed", ["broken q0"])


async def test_a_later_question_that_failed_is_asked_again_behind_its_new_rules() -> None:
    talk = Talk()
    transcript = await asked(talk, "q1")
    talk.fails = 1
    await talk.ask(*transcript, said("u2", "broken q2"))
    events = await talk.ask(system("be kind"), *transcript, said("u2", "broken q2"))
    assert (status(events), talk.seen) == ("completed", ["q1", "answer to q1", "be kind", "broken q2"])


# Append


async def test_what_a_client_sends_in_front_of_only_what_is_new_takes_nothing_away() -> None:
    for front in (said("g", "hello there", "assistant"), system("be kind")):
        talk = Talk()
        await talk.ask(front, said("u1", "q1"))
        for number, again in enumerate((front, Message(id="other", role=front.role, content=front.content)), start=2):
            await talk.ask(again, said(f"u{number}", "next"))
        assert talk.seen == [front.text, "q1", "answer to q1", "next", "answer to next", "next"]


async def test_what_was_observed_stays_where_a_client_goes_on_that_cannot_show_it() -> None:
    talk = Talk()
    transcript = await asked(talk, "q1")
    await talk.engine.observe(talk.agent, [said("o1", "by the way")], user_id="u", session_id="s")
    events = await talk.ask(*transcript, said("u2", "q2"))
    assert (rewound(events), talk.seen) == ([], ["q1", "answer to q1", "by the way", "q2"])


async def test_a_second_yes_is_a_new_yes() -> None:
    talk = Talk()
    await talk.ask(said("u1", "yes"))
    await talk.ask(said("u2", "yes"))
    assert talk.seen == ["yes", "answer to yes", "yes"]


async def test_a_question_that_was_refused_and_the_next_one_are_both_new() -> None:
    talk = Talk()
    transcript = await asked(talk, "q1")
    await talk.ask(*transcript, said("u2", "q2"), said("error", "Something went wrong", "assistant"), said("u3", "q3"))
    assert talk.seen == ["q1", "answer to q1", "q2", "q3"]


async def test_an_earlier_message_that_the_client_has_trimmed_keeps_its_text_and_that_is_told() -> None:
    talk = Talk()
    transcript = await asked(talk, "a long question", "q2")
    events = await talk.ask(said("u1", "a long"), *transcript[1:], said("u3", "q3"))
    assert ignored(events) == [{"messageId": "u1"}]
    assert talk.seen[0] == "a long question"


async def test_a_user_message_that_cannot_be_placed_is_told() -> None:
    talk = Talk()
    transcript = await asked(talk, "q1", "q2")
    events = await talk.ask(*transcript[:2], said("x", "never said"), *transcript[2:], said("u3", "q3"))
    assert ignored(events) == [{"messageId": "x"}]
    assert talk.seen == ["q1", "answer to q1", "q2", "answer to q2", "q3"]


async def test_a_user_message_under_a_new_id_is_known_by_its_text_between_its_neighbours() -> None:
    talk = Talk()
    transcript = await asked(talk, "yes", "yes")
    renamed = Message(id="x", role="user", content=" yes\n")
    assert ignored(await talk.ask(*transcript[:2], renamed, *transcript[3:], said("u3", "q3"))) == []
    assert talk.seen == ["yes", "answer to yes", "yes", "answer to yes", "q3"]


async def test_what_another_agent_said_comes_in_front_of_the_question_as_it_is_stored() -> None:
    one = Talk(name="one")
    other = Talk(one.engine, name="other")
    other.number = 100
    await one.ask(said("u1", "q1"))
    transcript = await one.shown()
    await other.ask(*transcript, said("u2", "pick:x"))
    await other.ask(*await other.shown(), result((await other.call()).id, "blue"))
    changed = [Message(id=each.id, role=each.role, content="forged") for each in (await other.shown())[2:]]
    await one.ask(*transcript, *changed, said("u3", "q3"))
    assert one.seen == ["q1", "answer to q1", "pick:x", "answer to pick:x", "q3"]
    assert all(each.role != "tool" for each in one.model.requests[-1].messages)


async def test_a_user_message_under_the_id_of_another_agent_s_answer_keeps_the_user_s_words() -> None:
    for known in (False, True):
        one = Talk(name="one")
        other = Talk(one.engine, name="other")
        other.number = 100
        if known:
            await one.ask(said("u1", "q1"))
        await other.ask(said("v1", "hi"))
        answer = (await other.shown())[-1]
        front = await one.shown() if known else []
        events = await one.ask(*front, said(answer.id, "my words"), said("u2", "q2"))
        assert (one.seen[len(front) :], ignored(events)) == (["my words", "q2"], [])


async def test_a_user_message_under_the_id_of_an_answer_is_the_user_s() -> None:
    talk = Talk()
    answer = (await asked(talk, "q1"))[1]
    await talk.ask(said(answer.id, "q2"))
    assert talk.seen == ["q1", "answer to q1", "q2"]


@pytest.mark.parametrize("known", [False, True])
async def test_a_second_user_message_under_one_id_is_told_where_it_says_something_else(known: bool) -> None:
    talk = Talk()
    transcript = await asked(talk, "q1") if known else [said("u1", "q1"), said("x", "hello", "assistant")]
    events = await talk.ask(*transcript, said("u1", "q1"), said("u1", "other words"), said("u2", "q2"))
    assert ignored(events) == [{"messageId": "u1"}]
    assert talk.seen == [*(each.text for each in transcript), "q2"]
    assert is_told(await talk.ask(*await talk.shown(), said("u1", "at the end")))


async def test_what_is_not_taken_of_a_conversation_that_nothing_is_asked_in_is_told() -> None:
    talk = Talk()
    events = await talk.ask(said("u1", "q1"), said("x", "hello", "assistant"))
    assert (ignored(events), talk.asked) == ([{"messageId": "u1"}], 0)


async def test_a_note_behind_a_new_message_does_not_take_it_away() -> None:
    talk = Talk()
    transcript = await asked(talk, "note:x")
    note = result((await talk.call()).id, "noted by the client", "note")
    for number, between in enumerate((said("u2", "q2"), said("u3", "q3"))):
        events = await talk.ask(*transcript[: 2 if not number else 4], between, note)
        assert (ignored(events), talk.seen[-1]) == ([], between.text)


# The same request again


@pytest.mark.parametrize("fails", [0, 1])
async def test_the_same_request_twice_at_once_runs_its_tool_once(fails: int) -> None:
    talk = Talk()
    talk.fails, talk.holds = fails, asyncio.Event()
    question = said("u1", "note:broken" if fails else "note:x")
    first, second = talk.admit(question), talk.admit(question)
    both = asyncio.gather(talk.events(first), talk.events(second))
    await talk.model.streaming.wait()
    talk.holds.set()
    one, two = await both
    assert talk.ran == [question.text.partition(":")[2]]
    assert (status(one), status(two)) == ("model_unreachable" if fails else "completed", "completed")
    assert is_told(two) is (not fails)
    assert await talk.texts() == [question.text, "", f"noted {talk.ran[0]}", f"answer to {question.text}"]


@pytest.mark.parametrize("run_id", ["r1", "other"])
async def test_a_request_that_comes_again_after_a_failure_behind_a_tool_goes_on(run_id: str) -> None:
    talk = Talk()
    talk.fails = 1
    assert status(await talk.ask(said("u1", "note:broken"), run_id="r1")) == "model_unreachable"
    assert "half" in await talk.texts()
    events = await talk.ask(said("u1", "note:broken"), run_id=run_id)
    assert (status(events), talk.ran) == ("completed", ["broken"])
    assert talk.seen == ["note:broken", "", "noted broken"]
    assert await talk.texts() == ["note:broken", "", "noted broken", "answer to note:broken"]


@pytest.mark.parametrize("reason", ["interrupt", "disconnect"])
async def test_a_request_that_comes_again_while_it_is_being_stopped_gets_an_answer(reason: str) -> None:
    talk = Talk()
    talk.holds = asyncio.Event()
    run = talk.admit(said("u1", "q1"))
    first = asyncio.create_task(talk.events(run, unread=reason == "disconnect"))
    await talk.model.streaming.wait()
    talk.holds = None
    second = talk.admit(said("u1", "q1"))
    run.stop("interrupt" if reason == "interrupt" else "disconnect")
    events = await talk.events(second)
    assert status(await first) == "cancelled"
    assert (status(events), await talk.texts()) == ("completed", ["q1", "answer to q1"])


async def test_the_same_run_id_again_is_told_and_another_makes_a_new_answer() -> None:
    talk = Talk()
    await talk.ask(said("u1", "q1"), run_id="r1")
    assert is_told(await talk.ask(said("u1", "q1"), run_id="r1"))
    assert talk.asked == 1
    events = await talk.ask(said("u1", "q1"), run_id="r2")
    assert (rewound(events), talk.asked, await talk.texts()) == (["u1"], 2, ["q1", "answer to q1"])


async def test_what_is_told_ends_on_the_last_answer() -> None:
    talk = Talk()
    transcript = await asked(talk, "q1", "note:x")
    run = talk.admit(*transcript)
    events = await talk.events(run)
    [final] = [each for each in events if isinstance(each, FinalOutput)]
    assert (is_told(events), final.text, final.reply_id) == (True, "answer to note:x", transcript[-1].id)
    assert run.answer == transcript[-1]


async def test_of_two_new_rules_under_one_id_the_second_gets_another() -> None:
    talk = Talk()
    await talk.ask(said("u1", "q1"))
    await talk.ask(*await talk.shown(), system("be kind", "x"), system("be brief", "x"), said("u2", "q2"))
    ids = [each.id for each in await talk.shown()]
    assert len(ids) == len(set(ids))
    assert talk.seen == ["q1", "answer to q1", "be kind", "be brief", "q2"]


@pytest.mark.parametrize("question", ["q1", "mail:x", "pick:x"])
async def test_an_end_that_nobody_has_read_is_told(question: str) -> None:
    talk = Talk()
    first = await talk.ask(said("u1", question), run_id="r1", unread=True)
    events = await talk.ask(said("u1", question), run_id="r2")
    assert (is_told(events), status(events), talk.asked) == (True, status(first), 1)
    assert told(events) == await talk.texts()


@pytest.mark.parametrize("unread", [False, True])
@pytest.mark.parametrize("question", ["mail:x", "pick:x"])
async def test_a_repeated_question_does_not_end_the_wait(question: str, unread: bool) -> None:
    talk = Talk()
    await talk.ask(said("u1", question), unread=unread)
    before = await talk.shown()
    for _ in range(2):
        events = await talk.ask(said("u1", question))
        assert is_told(events)
        waits = [type(event).__name__ for event in events if type(event).__name__.startswith("Require")]
        assert len(waits) == 1
    assert (talk.asked, talk.ran, await talk.shown()) == (1, [], before)


async def test_nothing_is_stored_and_no_state_is_taken_where_a_client_is_only_told() -> None:
    talk = Talk()
    await talk.ask(said("u1", "q1"), run_id="r1")
    entries = await talk.engine.store.load(KEY)
    events = await talk.ask(said("u1", "q1"), run_id="r1", state={"x": 1})
    assert is_told(events)
    assert await talk.engine.store.load(KEY) == entries


async def test_a_greeting_or_known_rules_alone_are_told_and_ask_no_model() -> None:
    talk = Talk()
    await talk.ask(system("be kind"), said("u1", "q1"))
    for message in (said("g", "hello", "assistant"), system("be kind", "other")):
        assert is_told(await talk.ask(message))
    empty = Talk()
    for message in (said("g", "hello", "assistant"), system("be kind")):
        assert status(await empty.ask(message)) == "completed"
    assert (talk.asked, empty.asked, await empty.engine.store.load(KEY)) == (1, 0, ())


async def test_a_transcript_that_ends_on_an_answer_is_told_also_where_a_later_question_failed() -> None:
    talk = Talk()
    transcript = await asked(talk, "q1")
    talk.fails = 1
    await talk.ask(*transcript, said("u2", "broken"))
    assert is_told(await talk.ask(*transcript))
    assert talk.asked == 2


async def test_a_transcript_that_ends_on_an_answer_of_an_imported_session_is_told() -> None:
    talk = Talk()
    transcript = await asked(talk, "q1")
    lines = export_lines(await talk.engine.store.load(KEY), session_id="s", title="")
    other = Talk()
    await other.engine.sessions.fill(SessionKey(user_id="u", session_id="s"), import_entries(lines))
    assert is_told(await other.ask(*transcript))
    assert other.asked == 0


async def test_a_retry_with_other_rules_goes_on_and_runs_no_tool_again() -> None:
    talk = Talk()
    talk.fails = 1
    await talk.ask(system("be kind"), said("u1", "note:broken"))
    await talk.ask(system("be short"), said("u1", "note:broken"))
    assert (talk.ran, talk.seen) == (["broken"], ["be kind", "note:broken", "", "noted broken", "be short"])


async def test_a_new_developer_message_alone_is_appended_and_answered() -> None:
    talk = Talk()
    await talk.ask(said("u1", "q1"))
    events = await talk.ask(Message(id="d", role="developer", content="be short"))
    assert (status(events), talk.seen) == ("completed", ["q1", "answer to q1", "be short"])


async def test_a_client_that_lags_behind_a_new_developer_message_begins_no_branch() -> None:
    """The user has said nothing behind `a1` that a branch could begin in front of, until `u2`."""
    talk = Talk()
    lagging = await asked(talk, "q1")
    await talk.ask(*lagging, Message(id="d", role="developer", content="sum up"))
    added = ["q1", "answer to q1", "sum up", "answer to q1"]
    events = await talk.ask(*lagging, said("u2", "q2"))
    assert (rewound(events), ignored(events), talk.seen) == ([], [], [*added, "q2"])
    last = (await talk.shown())[3].id
    events = await talk.ask(*lagging, said("u3", "q3"))
    assert (rewound(events), ignored(events), talk.seen) == ([last], [], [*added, "q3"])


async def test_rules_go_by_text_and_a_new_one_stands_in_front_of_the_question() -> None:
    talk = Talk()
    await talk.ask(system("one"), said("u1", "q1"))
    await talk.ask(system("one", "n1"), system("two", "n2"), *(await talk.shown())[1:], said("u2", "q2"))
    assert talk.seen == ["one", "q1", "answer to q1", "two", "q2"]
    await talk.ask(system("one", "n3"), system("two", "n4"), said("u3", "q3"))
    assert talk.seen[4:] == ["q2", "answer to q2", "q3"]
    events = await talk.ask(system("three", "sys"), said("u3", "q3"))
    assert (rewound(events), talk.seen[-2:]) == ([(await talk.shown())[5].id], ["three", "q3"])


# Answers


async def test_the_same_approval_again_is_told_and_one_after_a_failure_goes_on() -> None:
    talk = Talk()
    talk.fails = 1
    await talk.ask(said("u1", "mail:broken"))
    approval = await talk.approval()
    assert status(await talk.ask(said("u1", "mail:broken"), answers=[approval])) == "model_unreachable"
    assert status(await talk.ask(said("u1", "mail:broken"), answers=[approval])) == "completed"
    assert is_told(await talk.ask(said("u1", "mail:broken"), answers=[approval]))
    assert is_told(await talk.ask(answers=[approval]))
    assert (talk.ran, talk.asked) == (["broken"], 3)


async def test_an_answer_and_a_new_message_are_one_model_call() -> None:
    for question in ("mail:x", "pick:x"):
        talk = Talk()
        await talk.ask(said("u1", question))
        given: dict[str, object] = {}
        messages = [*await talk.shown()]
        if question == "mail:x":
            given = {"answers": [await talk.approval(status="cancelled")]}
        else:
            call = await talk.call()
            messages.append(Message(id="t", role="tool", tool_call_id=call.id, content="no camera", status="error"))
        events = await talk.ask(*messages, said("u2", "never mind"), **given)  # type: ignore[arg-type]
        assert (status(events), talk.asked, talk.ran) == ("completed", 2, [])
        assert talk.seen[-1] == "never mind"
        assert talk.model.requests[-1].messages[-2].role == "tool"


async def test_one_of_two_answers_twice_leaves_the_other_waiting() -> None:
    talk = Talk()
    talk.model.steps = [calls(("pick", "{}"), ("pick", "{}"))]
    await talk.ask(said("u1", "go"))
    first, second = (await talk.shown())[-1].tool_calls
    for attempt in range(2):
        events = await talk.ask(*await talk.shown(), result(first.id, "blue"))
        assert status(events) == "client_tools"
        assert is_told(events) is bool(attempt)
    assert [each.tool_call_id for each in await talk.shown() if each.role == "tool"] == [first.id]
    assert second.id not in {each.tool_call_id for each in await talk.shown()}


async def test_an_edit_beside_an_answer_is_refused_by_name_and_uses_nothing_up() -> None:
    talk = Talk()
    await talk.ask(said("u1", "mail:x"))
    approval = await talk.approval()
    events = await talk.ask(said("g", "hello", "assistant"), said("u1", "mail:y"), answers=[approval])
    assert status(events) == "invalid_request"
    assert getattr(events[-1], "param", "") == "messages[1]"
    assert (await talk.history()).pending


async def test_an_earlier_message_that_is_trimmed_does_not_stand_in_the_way_of_an_answer() -> None:
    talk = Talk()
    await talk.ask(said("u1", "pick:x"))
    events = await talk.ask(said("u1", "pick"), result((await talk.call()).id, "blue"))
    assert (status(events), ignored(events)) == ("completed", [{"messageId": "u1"}])
    assert talk.seen == ["pick:x", "", "blue"]


# Edit


@pytest.mark.parametrize("form", ["alone", "from a page", "whole"])
async def test_an_edit_under_the_same_id_is_an_edit(form: str) -> None:
    talk = Talk()
    transcript = await asked(talk, "q1", "q2")
    edited = said("u2", "q2, in other words")
    front = {"alone": [], "from a page": transcript[1:2], "whole": transcript[:2]}[form]
    events = await talk.ask(*front, edited)
    assert (rewound(events), talk.seen) == ([transcript[1].id], ["q1", "answer to q1", "q2, in other words"])
    assert [each.id for each in await talk.shown()][2] == "u2"


async def test_another_picture_is_an_edit_and_the_same_one_is_not() -> None:
    def picture(value: str, mime: str | None) -> Message:
        image = MediaPart(kind="image", source="data", value=value, mime_type=mime, detail=None)
        return Message(id="u1", role="user", content=(TextPart(text="look"), image))

    talk = Talk()
    await talk.ask(picture("AAAA", "image/png"), run_id="r1")
    assert is_told(await talk.ask(picture("AAAA", None), run_id="r1"))
    document = MediaPart(kind="document", source="data", value="AAAA")
    unkind = Message(id="u1", role="user", content=(TextPart(text="look"), document))
    assert is_told(await talk.ask(unkind, run_id="r1")), "clients of before 1.0 are told no kind"
    events = await talk.ask(picture("BBBB", "image/png"), run_id="r1")
    assert (rewound(events), talk.asked) == ([""], 2)


async def test_an_edit_under_a_new_id_is_a_branch() -> None:
    talk = Talk()
    transcript = await asked(talk, "q1", "q2")
    events = await talk.ask(*transcript[:2], said("new", "q2, in other words"))
    assert (rewound(events), talk.seen) == ([transcript[1].id], ["q1", "answer to q1", "q2, in other words"])


async def test_an_edit_takes_back_what_the_state_became_and_not_what_another_agent_did() -> None:
    for others in (False, True):
        one = Talk(name="one")
        other = Talk(one.engine, name="other")
        other.number = 100
        await one.ask(said("u1", "q1"), state={"n": 1})
        await one.ask(said("u2", "q2"), state={"n": 2})
        if others:
            await other.ask(said("v1", "q"), state={"n": 3})
        events = await one.ask(said("u2", "q2'"))
        assert rewound(events)
        assert (await one.history()).state == ({"n": 3} if others else {"n": 1})
        await one.ask(said("u2", "q2''"))
        assert (await one.history()).state == ({"n": 3} if others else {"n": 1}), "also after a second edit"
        await one.ask(said("u2", "q2'''"), state={"n": 4})
        assert (await one.history()).state == {"n": 4}
        await one.ask(said("u2", "q2''''"))
        assert (await one.history()).state == ({"n": 3} if others else {"n": 1})


async def test_a_branch_that_is_shown_again_has_the_state_with_which_it_was_left() -> None:
    talk = Talk()
    await talk.ask(said("u1", "q1"), state={"n": 1})
    await talk.ask(*await talk.shown(), said("u2", "q2"), state={"n": 2})
    first = await talk.shown()
    await talk.ask(*first[:2], said("u3", "q3"), state={"m": 3})
    second = await talk.shown()
    for branch, state in ((first, {"n": 2}), (second, {"m": 3}), (first, {"n": 2})):
        events = await talk.ask(*branch, said(f"v{talk.number}", "more"))
        assert (await talk.history()).state == state
        [whole] = [event.value for event in events if isinstance(event, StateSnapshot)]
        assert whole == state
    await talk.ask(*first[:2], said("u4", "q4"))
    assert (await talk.history()).state == {"n": 1}


# Regenerate


async def test_regenerate_on_a_question_and_behind_a_tool_call() -> None:
    talk = Talk()
    await talk.ask(said("u1", "note:x"))
    transcript = await talk.shown()
    events = await talk.ask(*transcript[:3])
    assert (status(events), talk.ran, rewound(events)) == ("completed", ["x"], [transcript[2].id])
    assert talk.seen == ["note:x", "", "noted x"]
    events = await talk.ask(*transcript[:1])
    assert (status(events), talk.ran, rewound(events)) == ("completed", ["x", "x"], ["u1"])


async def test_regenerate_of_an_earlier_turn() -> None:
    talk = Talk()
    transcript = await asked(talk, "note:x", "q2")
    await talk.ask(*transcript[:3])
    assert (talk.ran, talk.seen) == (["x"], ["note:x", "", "noted x"])
    await talk.ask(transcript[0])
    assert talk.seen == ["note:x", "", "noted x"]
    assert talk.ran == ["x", "x"]


async def test_a_question_that_was_shown_in_part_stays_whole_where_its_answer_is_made_anew() -> None:
    talk = Talk()
    long = "why? " * 24_000
    await talk.ask(said("u1", long))
    events = await talk.ask(said("u1", beginning_of(long, 500)))
    assert (rewound(events), talk.seen) == (["u1"], [long])
    assert ignored(events) == []


async def test_a_note_of_the_client_s_behind_an_approved_call_changes_nothing() -> None:
    talk = Talk()
    await talk.ask(said("u1", "mail:x"), run_id="r1")
    call = await talk.call()
    note = result(call.id, '{"approved":true}', "note")
    transcript = [*await talk.shown(), note]
    await talk.ask(*transcript, answers=[await talk.approval()], run_id="r1")
    assert talk.ran == ["x"]
    answer = (await talk.shown())[-1]
    await talk.ask(*transcript, answer, said("u2", "q2"))
    end = (await talk.shown())[-1]
    await talk.ask(*transcript, answer, said("u2", "q2, edited"))
    assert talk.seen == ["mail:x", "", "mailed x", "answer to mail:x", "q2, edited"]
    moved = [*transcript[:-1], answer, said("u2", "q2"), note, end, said("u3", "q3")]
    await talk.ask(*moved)
    assert talk.seen[3:] == ["answer to mail:x", "q2", "answer to q2", "q3"]
    events = await talk.ask(*transcript[:1])
    assert (rewound(events), talk.ran) == (["u1"], ["x"])


async def test_a_new_greeting_on_each_page_load_leaves_edit_and_regenerate_as_they_are() -> None:
    talk = Talk()
    greeting = [said("g1", "hello", "assistant")]
    await talk.ask(*greeting, said("u1", "q1"))
    transcript = (await talk.shown())[-2:]
    await talk.ask(said("g2", "hello", "assistant"), *transcript[:1])
    assert talk.asked == 2
    await talk.ask(said("g3", "hello", "assistant"), said("u1", "q1'"))
    assert talk.seen == ["hello", "q1'"]


# Branches


async def test_a_tab_that_lags_makes_a_branch_and_the_first_tab_goes_back_to_its_own() -> None:
    talk = Talk()
    first = await asked(talk, "q1", "q2")
    second = [*first[:2], said("u3", "q3")]
    await talk.ask(*second)
    assert talk.seen == ["q1", "answer to q1", "q3"]
    await talk.ask(*first, said("u4", "q4"))
    assert talk.seen == ["q1", "answer to q1", "q2", "answer to q2", "q4"]


@pytest.mark.parametrize("unread", [False, True])
async def test_two_tabs_that_ask_at_once_are_both_answered_where_somebody_reads_the_first(unread: bool) -> None:
    talk = Talk()
    start = await asked(talk, "q1")
    talk.holds = asyncio.Event()
    one, two = talk.admit(*start, said("u2", "q2")), talk.admit(*start, said("u3", "q3"))
    both = asyncio.gather(talk.events(one, unread=unread), talk.events(two))
    await talk.model.streaming.wait()
    talk.holds.set()
    await both
    assert talk.seen == ["q1", "answer to q1", *([] if unread else ["q2", "answer to q2"]), "q3"]


async def test_a_question_that_is_edited_under_a_new_id_while_it_is_answered_is_retracted() -> None:
    talk = Talk()
    start = await asked(talk, "q1")
    talk.holds = asyncio.Event()
    run = talk.admit(*start, said("u2", "q2"))
    first = asyncio.create_task(talk.events(run, unread=True))
    await talk.model.streaming.wait()
    talk.holds = None
    second = talk.admit(*start, said("new", "q2, in other words"))
    run.stop("disconnect")
    await talk.events(second)
    assert status(await first) == "cancelled"
    assert talk.seen == ["q1", "answer to q1", "q2, in other words"]


async def test_the_branch_that_was_picked_is_what_the_model_sees() -> None:
    talk = Talk()
    first = await asked(talk, "q1")
    await talk.ask(*first[:1])
    second = await talk.shown()
    assert first[1].id != second[1].id
    await talk.ask(*first, said("u2", "q2"))
    assert [each.id for each in await talk.shown()][:2] == [each.id for each in first]
    await talk.ask(*second, said("u3", "q3"))
    assert [each.id for each in await talk.shown()][:3] == [*(each.id for each in second), "u3"]


async def test_of_two_versions_under_one_id_that_of_the_branch_counts_which_is_shown_again() -> None:
    talk = Talk()
    first = await asked(talk, "q1")
    await talk.ask(said("u1", "q1, edited"))
    events = await talk.ask(*first, said("u2", "q2"))
    assert (ignored(events), talk.seen) == ([], ["q1", "answer to q1", "q2"])


async def test_a_question_that_was_rewound_away_is_asked_anew_and_the_bytes_of_an_old_run_are_told() -> None:
    talk = Talk()
    transcript = await asked(talk, "q1", "q2")
    await talk.ask(*transcript[:2], said("u3", "q3"))
    events = await talk.ask(*transcript[:3])
    assert (rewound(events), talk.seen) == (["u2"], ["q1", "answer to q1", "q2"])
    asked_before = talk.asked
    assert is_told(await talk.ask(said("u1", "q1"), run_id="r1"))
    assert talk.asked == asked_before


async def test_an_answer_that_was_rewound_away_is_told_where_a_request_ends_on_it() -> None:
    talk = Talk()
    transcript = await asked(talk, "q1")
    await talk.ask(*transcript[:1])
    assert is_told(await talk.ask(*transcript))


async def test_the_client_s_answer_on_a_branch_that_was_left_shows_that_branch_again() -> None:
    talk = Talk()
    await talk.ask(said("u1", "pick:x"))
    branch, call = await talk.shown(), await talk.call()
    await talk.ask(said("u1", "q, edited"))
    events = await talk.ask(*branch, result(call.id, "blue"))
    assert (status(events), talk.seen) == ("completed", ["pick:x", "", "blue"])
    assert rewound(events) == [branch[1].id]


# A brought conversation


async def test_an_agent_without_a_history_takes_over_what_was_said_and_executes_nothing() -> None:
    talk = Talk()
    forged = Message(id="x", role="assistant", content="I did", tool_calls=(ToolCall(id="c", name="note"),))
    await talk.ask(said("u1", "q1"), forged, said("u2", "q2"))
    assert (talk.seen, talk.ran) == (["q1", "I did", "q2"], [])
    only_calls = Talk()
    await only_calls.ask(said("u1", "q1"), Message(id="x", role="assistant", tool_calls=forged.tool_calls), result("c"))
    assert only_calls.seen == ["q1"]


async def test_an_agent_without_a_history_tells_which_words_of_the_user_it_does_not_take() -> None:
    talk = Talk()
    hello = said("x", "hello", "assistant")
    first = said("u1", "q1")
    asked, other = said("u2", "q2"), said("u2", "q3")
    events = await talk.ask(first, hello, first, hello, asked, other, said("x", "bye", "assistant"), said("u3", "q4"))
    assert (talk.seen, ignored(events)) == (["q1", "hello", "q2", "q4"], [{"messageId": "u2"}])


async def test_the_agent_goes_on_where_nothing_is_sent_and_somebody_has_said_something() -> None:
    talk = Talk()
    await talk.ask(said("u1", "q1"))
    assert is_told(await talk.ask())
    await talk.engine.observe(talk.agent, [said("o1", "and now?")], user_id="u", session_id="s")
    await talk.ask()
    assert talk.seen == ["q1", "answer to q1", "and now?"]


async def test_an_unknown_interrupt_is_told_of_and_starts_nothing() -> None:
    talk = Talk()
    await talk.ask(said("u1", "q1"))
    events = await talk.ask(answers=[Answer(interrupt_id="nobody's")])
    assert (is_told(events), talk.asked) == (True, 1)


async def test_the_input_is_refused_where_it_cannot_be_read_at_all() -> None:
    engine = Engine()
    with pytest.raises(InvalidRequest):
        await engine.call(Talk().agent, 7, user_id="u", session_id="s")  # type: ignore[arg-type]

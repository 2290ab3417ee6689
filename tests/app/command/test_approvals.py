"""The question about a call at the terminal, and the person's answers."""

from typing import Any

import pytest

from app.command.approvals import ask_about, in_words, interrupts_in

MAIL = {
    "id": "i1",
    "reason": "tool_call",
    "toolCallId": "c1",
    "metadata": {"toolName": "send_email", "arguments": {"to": "ann", "copies": 2}},
}
QUESTION = 'send_email(to="ann", copies=2)? [y/n/e] '


class Desk:
    """Somebody who types these lines and then goes."""

    def __init__(self, *typed: str) -> None:
        self.typed = list(typed)
        self.asked: list[tuple[str, str]] = []
        self.told: list[str] = []

    def ask(self, prompt: str, text: str = "") -> str | None:
        self.asked.append((prompt, text))
        return self.typed.pop(0) if self.typed else None

    def tell(self, text: str) -> None:
        self.told.append(text)


def mail(**arguments: Any) -> dict[str, Any]:
    return MAIL | {"metadata": {"toolName": "send_email", "arguments": arguments}}


def question(interrupt: dict[str, Any]) -> tuple[str, list[str]]:
    desk = Desk()
    assert ask_about(interrupt, desk) is None
    return desk.asked[0][0], desk.told


@pytest.mark.parametrize(
    ("typed", "payload"),
    [
        (["y"], {"approved": True}),
        ([" YES "], {"approved": True}),
        (["n", ""], {"approved": False}),
        (["no", " not to her "], {"approved": False, "reason": "not to her"}),
        (["", "perhaps", "y"], {"approved": True}),
        (["e", '{"to":"bob"}', "y"], {"approved": True, "arguments": {"to": "bob"}}),
        (["e", '{"to":"bob"}', "e", '{"to":"eve"}', "y"], {"approved": True, "arguments": {"to": "eve"}}),
        (["e", '{"to":"bob"}', "n", "after all"], {"approved": False, "reason": "after all"}),
        (["e", '{"to":"ann","copies":2}', "y"], {"approved": True}),
        (["e", "", "y"], {"approved": True}),
        (["e", "no json", "y"], {"approved": True}),
        (["e", "[1]", "y"], {"approved": True}),
    ],
)
def test_a_person_s_word_becomes_a_resume_entry(typed: list[str], payload: dict[str, Any]) -> None:
    desk = Desk(*typed)
    assert ask_about(MAIL, desk) == {"interruptId": "i1", "status": "resolved", "payload": payload}
    assert desk.asked[0] == (QUESTION, "")
    assert desk.typed == []


@pytest.mark.parametrize("typed", [[], ["n"], ["e"], ["what"]])
def test_somebody_who_goes_leaves_it_open(typed: list[str]) -> None:
    assert ask_about(MAIL, Desk(*typed)) is None


def test_the_arguments_stand_on_the_line_that_is_edited_and_are_asked_about_again() -> None:
    desk = Desk("e", '{"to":"bob"}', "y")
    ask_about(MAIL, desk)
    assert desk.asked == [
        (QUESTION, ""),
        ("arguments: ", '{"to":"ann","copies":2}'),
        ('send_email(to="bob")? [y/n/e] ', ""),
    ]


def test_what_is_no_object_is_said_to_be_none() -> None:
    desk = Desk("e", "[1]", "y")
    ask_about(MAIL, desk)
    assert desk.told == ["That is no JSON object; the arguments are as they were."]


def test_long_arguments_are_shown_whole_above_the_question() -> None:
    asked, told = question(mail(to="ann", body="x" * 100))
    assert asked.startswith('send_email(to="ann", body="xxx')
    assert asked.endswith("…)? [y/n/e] ")
    assert told == ['{\n  "to": "ann",\n  "body": "' + "x" * 100 + '"\n}']
    asked, told = question(mail(**{f"a{n}": n for n in range(200)}))
    assert len(asked) < 450
    assert '"a199": 199' in told[0]


def test_what_a_terminal_would_not_show_is_shown_as_its_escape() -> None:
    asked, _ = question(mail(to="ann\u202enosj\x1b[2J\ufeff\U000e0001"))
    assert asked == 'send_email(to="ann\\u202enosj\\u001b[2J\\ufeff\\udb40\\udc01")? [y/n/e] '
    desk = Desk("e", "", "y")
    ask_about(mail(to="\u202e"), desk)
    assert desk.asked[1] == ("arguments: ", '{"to":"\\u202e"}')


def test_a_name_that_looks_like_more_arguments_is_quoted() -> None:
    asked, _ = question(mail(**{'to="bob", cc': "eve", "über": 1}))
    assert asked == 'send_email("to=\\"bob\\", cc"="eve", über=1)? [y/n/e] '


def test_arguments_that_were_not_told_are_said_to_be_missing() -> None:
    asked, told = question(MAIL | {"metadata": {"toolName": "send_email"}})
    assert asked == "send_email(…)? [y/n/e] "
    assert told == ["The arguments of send_email are too long to be shown here."]


def test_an_interrupt_of_another_server_may_say_little() -> None:
    assert question({"id": "i", "reason": "tool_call"})[0] == "a tool(…)? [y/n/e] "
    assert question({"id": "i", "metadata": {"toolName": 5, "arguments": "x"}})[0] == "5(…)? [y/n/e] "


def test_what_waits_is_said_in_a_line() -> None:
    assert in_words(MAIL) == 'waits for an approval: send_email(to="ann", copies=2)'
    waiting = {"id": "i", "reason": "waiting", "metadata": {"toolName": "render", "operationId": "o"}}
    assert in_words(waiting) == "waits for a result from outside: render"


@pytest.mark.parametrize(
    "outcome",
    [None, [], {"type": "success"}, {"type": "cancelled"}, {"type": "interrupt"},
     {"type": "interrupt", "interrupts": None}, {"type": "interrupt", "interrupts": ["i"]}],
)  # fmt: skip
def test_other_ends_wait_for_nothing(outcome: Any) -> None:
    assert interrupts_in({"type": "RUN_FINISHED", "outcome": outcome}) == []
    assert interrupts_in({"type": "RUN_STARTED", "outcome": {"type": "interrupt", "interrupts": [MAIL]}}) == []


def test_the_interrupts_of_the_end_are_found() -> None:
    outcome = {"type": "interrupt", "interrupts": [MAIL, 5]}
    assert interrupts_in({"type": "RUN_FINISHED", "outcome": outcome}) == [MAIL]

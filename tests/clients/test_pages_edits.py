"""CopilotKit and assistant-ui in Chromium: edit, regenerate and the branch picker, and what the model sees of it."""

import pytest

from tests.clients.browser import Browser
from tests.clients.chat_pages import CALLED, answer, clients, desk, result, user


@pytest.mark.parametrize(
    ("client", "anew"),
    [("copilotkit", False), ("copilotkit", True), ("assistant_ui", True)],
    ids=["copilotkit-same id", "copilotkit-new id", "assistant_ui-new id"],
)
async def test_an_edit_takes_the_place_of_what_was_said(browser: Browser, client: str, anew: bool) -> None:
    async with desk(browser, client) as at:
        await at.tab.say("one")
        await at.tab.say("two")
        await at.edit("two", "second", anew=anew)
        assert at.clerk.seen[-1] == [user("one"), answer("1. one"), user("second")]
        await at.tab.say("three")
        turns = [user("one"), answer("1. one"), user("second"), answer("3. second"), user("three")]
        assert at.clerk.seen[-1] == turns
        assert at.said() == [*turns, answer("4. three")]


@clients
async def test_an_edit_behind_an_approved_call_does_not_run_it_again(browser: Browser, client: str) -> None:
    async with desk(browser, client) as at:
        await at.tab.say("mail:ann")
        await at.tab.press("approve")
        await at.tab.say("two")
        await at.edit("two", "second")
        turns = [user("mail:ann"), CALLED, result("ann has mail"), answer("2. ann has mail"), user("second")]
        assert at.clerk.seen[-1] == turns
        await at.tab.say("three")
        assert at.clerk.seen[-1] == [*turns, answer("4. second"), user("three")]
        assert at.done == ["mail ann"]


@clients
async def test_an_answer_is_given_anew(browser: Browser, client: str) -> None:
    async with desk(browser, client) as at:
        await at.tab.say("one")
        await at.tab.say("two")
        await at.tab.press("regenerate", "2. two")
        turns = [user("one"), answer("1. one"), user("two")]
        assert at.clerk.seen[-1] == turns
        assert at.said() == [*turns, answer("3. two")]
        await at.tab.say("three")
        assert at.clerk.seen[-1] == [*turns, answer("3. two"), user("three")]


@clients
async def test_an_answer_of_an_earlier_turn_is_given_anew(browser: Browser, client: str) -> None:
    async with desk(browser, client) as at:
        await at.tab.say("one")
        await at.tab.say("two")
        await at.tab.press("regenerate", "1. one")
        assert at.clerk.seen[-1] == [user("one")]
        await at.tab.say("three")
        assert at.clerk.seen[-1] == [user("one"), answer("3. one"), user("three")]


@clients
async def test_an_answer_that_was_stopped_is_given_anew(browser: Browser, client: str) -> None:
    async with desk(browser, client) as at:
        await at.tab.say("one")
        await at.tab.act({"say": "slow"}, {"sees": "2. slow"}, {"press": "stop"})
        await at.tab.act({"press": "regenerate", "of": "2. slow"}, {"sees": "3. slow"}, {"press": "stop"})
        assert at.clerk.seen[-1] == [user("one"), answer("1. one"), user("slow")]
        await at.tab.say("two")
        assert at.clerk.seen[-1][-2:] == [answer("3. slow"), user("two")]


@clients
async def test_a_call_is_made_anew_where_its_turn_is(browser: Browser, client: str) -> None:
    async with desk(browser, client) as at:
        await at.tab.say("one")
        await at.tab.say("note:x")
        await at.tab.press("regenerate", "note {")
        assert at.clerk.seen[-2] == [user("one"), answer("1. one"), user("note:x")]
        assert at.done == ["note x", "note x"]
        await at.tab.say("two")
        assert at.clerk.seen[-1][2:] == [
            *(user("note:x"), CALLED, result("noted x"), answer("5. noted x"), user("two")),
        ]


async def test_copilotkit_asks_its_question_anew_behind_a_call_too(browser: Browser) -> None:
    async with desk(browser, "copilotkit") as at:
        await at.tab.say("mail:ann")
        await at.tab.press("approve")
        await at.tab.press("regenerate", "ann has mail")
        assert (at.clerk.seen[-1], at.tab.waiting, at.done) == ([user("mail:ann")], 1, ["mail ann"])


@pytest.mark.parametrize(
    ("text", "runs", "shown", "done"),
    [
        ("note:x", 1, "noted x", ["note x"]),
        ("mail:ann", 1, "ann has mail", ["mail ann"]),
        ("pick_colour:warm", 2, "red", []),
    ],
    ids=["server tool", "approved call", "client tool"],
)
async def test_assistant_ui_gives_an_answer_behind_a_call_anew_and_the_call_is_not_made_again(
    browser: Browser, text: str, runs: int, shown: str, done: list[str]
) -> None:
    async with desk(browser, "assistant_ui") as at:
        await at.tab.say(text, runs=runs)
        if at.tab.waiting:
            await at.tab.press("approve")
        await at.tab.press("regenerate", f"2. {shown}")
        turns = [user(text), CALLED, result(shown)]
        assert at.clerk.seen[-1] == turns
        assert at.said() == [user(text), answer(f"3. {shown}")]
        await at.tab.say("two")
        assert at.clerk.seen[-1] == [*turns, answer(f"3. {shown}"), user("two")]
        assert at.done == done


async def test_in_assistant_uis_branch_picker_the_answer_that_is_shown_is_the_one_that_counts(
    browser: Browser,
) -> None:
    async with desk(browser, "assistant_ui") as at:
        await at.tab.say("one")
        await at.tab.press("regenerate", "1. one")
        await at.tab.press("previous", "2. one", runs=0)
        await at.tab.say("two")
        assert at.clerk.seen[-1] == [user("one"), answer("1. one"), user("two")]
        await at.tab.press("next", "1. one", runs=0)
        assert at.said() == [user("one"), answer("2. one")]
        await at.tab.say("three")
        assert at.clerk.seen[-1] == [user("one"), answer("2. one"), user("three")]
        await at.tab.press("previous", "2. one", runs=0)
        assert at.said() == [user("one"), answer("1. one"), user("two"), answer("3. two")]
        await at.tab.say("four")
        assert at.clerk.seen[-1] == [user("one"), answer("1. one"), user("two"), answer("3. two"), user("four")]

"""CopilotKit and assistant-ui in Chromium: text, thinking, tools, people who decide, stop and reload."""

import pytest

from tests.clients.browser import Browser
from tests.clients.chat_pages import CALLED, answer, clients, desk, result, user


@clients
async def test_three_turns_of_text_and_thinking(browser: Browser, client: str) -> None:
    async with desk(browser, client) as at:
        for text in ("one", "two", "three"):
            await at.tab.say(text)
        turns = [user("one"), answer("1. one"), user("two"), answer("2. two"), user("three")]
        assert at.clerk.seen == [turns[:1], turns[:3], turns]
        assert at.said() == [*turns, answer("3. three")]
        stored = await at.stored()
        assert [each["content"] for each in stored if each["role"] == "reasoning"] == ["hm"] * 3
        shown = [each["id"] for each in at.tab.shown if each["role"] in ("user", "assistant")]
        assert shown == [each["id"] for each in stored if each["role"] in ("user", "assistant")]


@clients
async def test_tools_of_both_sides_in_one_answer_and_a_turn_behind_them(browser: Browser, client: str) -> None:
    async with desk(browser, client) as at:
        await at.tab.say("note:x pick_colour:warm", runs=2)
        await at.tab.say("and now")
        called = [user("note:x pick_colour:warm"), CALLED, result("noted x"), result("red")]
        assert at.clerk.seen[1:] == [called, [*called, answer("2. noted x / red"), user("and now")]]
        assert at.done == ["note x"]


@clients
async def test_stop_and_go_on(browser: Browser, client: str) -> None:
    async with desk(browser, client) as at:
        await at.tab.act({"say": "slow"}, {"sees": "1. slow"}, {"press": "stop"})
        await at.tab.say("and now")
        assert at.clerk.seen[-1] == [user("slow"), answer("1. slow"), user("and now")]
        assert at.said() == [user("slow"), answer("1. slow"), user("and now"), answer("2. and now")]


@clients
@pytest.mark.parametrize(
    ("button", "outcome", "done"),
    [
        ("approve", "ann has mail", ["mail ann"]),
        ("change", "zed has mail", ["mail zed"]),
        ("deny", "Denied: ", []),
        ("abandon", "Not run: ", []),
    ],
)
async def test_a_person_decides_about_a_call(
    browser: Browser, client: str, button: str, outcome: str, done: list[str]
) -> None:
    async with desk(browser, client) as at:
        await at.tab.say("mail:ann")
        assert (at.tab.waiting, at.done) == (1, [])
        await at.tab.press(button)
        assert (at.tab.waiting, at.done) == (0, done)
        await at.tab.say("and now")
        asked, called, told, *rest = at.clerk.seen[-1]
        assert (asked, called) == (user("mail:ann"), CALLED)
        assert told[0] == "tool"
        assert outcome in told[1]
        assert [role for role, _ in rest] == ["assistant", "user"]
        assert at.done == done


@clients
async def test_a_page_that_is_loaded_again_goes_on_and_edits(browser: Browser, client: str) -> None:
    async with desk(browser, client) as at:
        await at.tab.say("note:x")
        await at.tab.say("two")
        before = at.said()
        await at.tab.reload(sees="3. two")
        assert at.said() == before
        await at.tab.say("three")
        turns = [user("note:x"), CALLED, result("noted x"), answer("2. noted x"), user("two"), answer("3. two")]
        assert at.clerk.seen[-1] == [*turns, user("three")]
        assert at.said()[-1] == answer("4. three")
        await at.edit("three", "third", anew=True)
        assert at.clerk.seen[-1] == [*turns, user("third")]
        assert at.done == ["note x"]

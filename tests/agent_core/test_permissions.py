"""Rules and their patterns: the calls that a rule fits, and calls that cannot be judged."""

import random
from fnmatch import fnmatchcase
from typing import Any

import pytest

from agent_core.context import RunContext
from agent_core.permissions import Permissions, Rule, matches

FITS = [
    ("", ""),
    ("", "*"),
    ("send_mail", "send_*"),
    ("send_mail", "*_mail"),
    ("send_mail", "*"),
    ("look", "loo?"),
    ("a\nb", "a?b"),
    ("a\nb\n", "a*"),
    ("/data/[draft] one.txt", "/data/[draft]*"),
    ("x[1]", "x[1]"),
    ("[!a]", "[!a]"),
    ("a-z", "a-z"),
    (r"C:\dir\x", r"C:\dir\*"),
    ("a.b+c(d)|e^f$", "a.b+c(d)|e^f$"),
    ("aXbXc", "a?b?c"),
    ("..aXb..", "*a?b*"),
    ("abcabc", "*?bc"),
    ("aa", "a*a"),
    ("é😀", "??"),
]

FITS_NOT = [
    ("", "?"),
    ("a", ""),
    ("a", "a*a"),
    ("abab", "ab*bab"),
    ("/data/d one.txt", "/data/[draft]*"),
    ("b", "[!a]"),
    ("b", "[abc]"),
    ("send_mail", "Send_*"),
    ("send_mail", "mail"),
    ("abc", "a?"),
    ("abc", "*a?d*"),
    ("aXc", r"a\?c"),
]


@pytest.mark.parametrize(("text", "pattern"), FITS)
def test_a_star_is_any_text_a_question_mark_one_character_and_all_else_itself(text: str, pattern: str) -> None:
    assert matches(text, pattern)


@pytest.mark.parametrize(("text", "pattern"), FITS_NOT)
def test_what_differs_in_any_other_character_does_not_match(text: str, pattern: str) -> None:
    assert not matches(text, pattern)


def test_without_brackets_it_matches_what_a_shell_s_pattern_does() -> None:
    chance = random.Random(5)
    for _ in range(20_000):
        text = "".join(chance.choices("ab", k=chance.randrange(8)))
        pattern = "".join(chance.choices("ab*?", k=chance.randrange(7)))
        assert matches(text, pattern) == fnmatchcase(text, pattern), (text, pattern)


@pytest.mark.parametrize("pattern", ["*a" * 12 + "b", "*a?" * 12 + "b*", "?" * 50 + "*b"])
def test_a_long_text_that_nearly_matches_is_read_once_for_each_piece(pattern: str) -> None:
    assert not matches("a" * 200_000, pattern)


def judged(rule: Rule, **arguments: Any) -> str:
    return Permissions(rules=[rule]).judge("write", arguments, approval=False, context=_no_context)[0]


def _no_context() -> RunContext:
    raise AssertionError("nobody asks for it")


def test_brackets_in_a_rule_are_plain_in_its_arguments_and_in_its_name() -> None:
    rule = Rule(tool="write", decision="deny", arguments={"path": "/data/[draft]*"})
    assert judged(rule, path="/data/[draft] plan.txt") == "deny"
    assert judged(rule, path="/data/d") == "run"
    assert judged(Rule(tool="[w]rite", decision="deny")) == "run"


def test_what_is_no_text_is_matched_as_json() -> None:
    rule = Rule(tool="write", decision="deny", arguments={"paths": '["/etc/*"]'})
    assert judged(rule, paths=["/etc/passwd"]) == "deny"
    assert judged(rule, paths=["/home/x"]) == "run"


def test_a_pattern_that_is_no_text_is_refused_where_it_is_written() -> None:
    with pytest.raises(TypeError, match="a rule for 'write': 3 is no pattern"):
        Rule(tool="write", decision="deny", arguments={"copies": 3})  # type: ignore[dict-item]


def test_a_call_that_a_rule_cannot_read_is_denied() -> None:
    deep: Any = "x"
    for _ in range(200_000):
        deep = [deep]
    assert judged(Rule(tool="write", decision="deny", arguments={"deep": "*y*"}), deep=deep) == "deny"


@pytest.mark.parametrize("members", [{"rules": ["deny"]}, {"rules": [None]}, {"decide": "run"}])
def test_permissions_that_can_decide_nothing_are_refused_where_they_are_written(members: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="permissions: "):
        Permissions(**members)


def test_a_decide_that_would_have_to_be_awaited_is_refused() -> None:
    async def decide(*_: Any) -> None:
        raise AssertionError

    with pytest.raises(TypeError, match="not async"):
        Permissions(decide=decide)  # type: ignore[arg-type]

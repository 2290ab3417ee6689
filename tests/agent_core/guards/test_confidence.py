"""A score out of whatever a model replies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.guards.confidence import score_of


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("85", 0.85),
        (" 85.\n", 0.85),
        ("**85**", 0.85),
        ("0", 0.0),
        ("1", 0.01),
        ("100", 1.0),
        ("0.85", 0.85),
        ("0,85", 0.85),
        ("1.0", 1.0),
        ("85.5", 0.855),
        ("85%", 0.85),
        ("8５％", 0.85),
        ("1%", 0.01),
        ("0.5%", 0.005),
        ("85 percent", 0.85),
        ("8.5/10", 0.85),
        ("17 out of 20", 0.85),
        ('{"score": 85}', 0.85),
        ('{"confidence": 0.4, "reasons": ["2 of 3 sources"]}', 0.4),
        ("Score: 40/100", 0.4),
        ("Score (0-100): 85", 0.85),
        ("On a scale from 0 to 100 I say 85", 0.85),
        ("Confidence: about 85, because 2 sources agree", 0.85),
        ("2 of 3 sources agree, so I am 60% sure, not 90%", 0.6),
        ("置信度：85分", 0.85),
        ("我的评分是 70 ，因为 3 个来源一致", 0.7),
        ("", None),
        ("very sure", None),
        ("101", None),
        ("-5", None),
        ("150%", None),
        ("11/10", None),
        ("3/0", None),
        ("70-80%", None),
        ("either 70 or 90", None),
        ("v2 gpt4", None),
        ("nan", None),
    ],
)
def test_a_score_is_read_from_the_forms_that_models_use(reply: str, score: float | None) -> None:
    assert score_of(reply) == (None if score is None else pytest.approx(score))


@given(st.text() | st.from_regex(r"(score|confidence)?[ :\"]*-?[0-9.,%/]{0,40}( out of [0-9]+)?"))
def test_a_score_is_a_share_or_none_whatever_the_reply_is(reply: str) -> None:
    score = score_of(reply)
    assert score is None or 0 <= score <= 1


@pytest.mark.parametrize("reply", ["1 " * 10**6, "score" * 10**6, "9" * 10**6, "0-" * 10**6, " " * 10**6 + "5"])
def test_a_huge_reply_costs_no_more_than_its_beginning(reply: str) -> None:
    assert score_of(reply) is None

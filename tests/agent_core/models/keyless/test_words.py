"""Words and values of a text."""

import pytest

from agent_core.models.keyless.words import chinese_besides, han_runs, parts_of, values_in, words_of


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("voyages", "voyage"),
        ("cities", "city"),
        ("scheduling", "schedule"),
        ("booked", "booking"),
        ("boxes", "box"),
        ("planned", "plan"),
        ("getVesselSchedule", "vessel schedules"),
    ],
)
def test_forms_of_a_word_share_their_stem(left: str, right: str) -> None:
    assert words_of(left) == words_of(right) != frozenset()


def test_words_that_say_nothing_are_left_out() -> None:
    assert words_of("What is it, please? 请问这是什么") == frozenset()


def test_chinese_is_read_in_pairs_between_the_words_that_say_nothing() -> None:
    assert words_of("请问货物的详情") == {"货物", "详情"}
    assert words_of("船在港") == {"船", "港"}
    assert words_of("船期表") == {"船期", "期表"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Where is MSC AURORA?", [("name", "MSC AURORA")]),
        ("MSC AURORA的货物", [("name", "MSC AURORA")]),
        ("ETA of MSC AURORA", [("name", "MSC AURORA"), ("name", "ETA")]),
        ("Is Ever Given late?", [("name", "Ever Given")]),
        ("WHERE IS MY SHIP", [("name", "SHIP")]),
        ("cargo C-001 on V-2609A", [("code", "C-001"), ("code", "V-2609A")]),
        ("from 2026-09-29, 3 of -4.5", [("date", "2026-09-29"), ("number", "3"), ("number", "-4.5")]),
        ("say 'good day' or “晚安”", [("quoted", "good day"), ("quoted", "晚安")]),
        ("Is MSC AURORA late", [("name", "MSC AURORA")]),
        ("买5个", [("number", "5")]),
    ],
)
def test_values_are_found_with_their_kind(text: str, found: list[tuple[str, str]]) -> None:
    assert [(value.kind, value.text) for value in values_in(text) if value.kind != "phrase"] == found


@pytest.mark.parametrize(
    ("text", "cue"),
    [
        ("the cargo C-001", "cargo"),
        ("voyage = V-2609A", "voyag"),
        ("days: 5", "day"),
        ('the house "Old Mill"', "hous"),
        ("C-001", ""),
    ],
)
def test_a_value_knows_the_word_before_it(text: str, cue: str) -> None:
    assert [value.cue for value in values_in(text)] == [cue]


def test_a_long_text_is_cut_before_it_is_read() -> None:
    assert values_in("a " * 4000 + "C-001") == []


def test_phrases_follow_a_preposition() -> None:
    phrases = [each for each in values_in("weather in the old town of Bern today") if each.kind == "phrase"]
    assert [(each.cue, each.text) for each in phrases] == [("in", "old town"), ("of", "Bern")]


def test_what_is_left_of_chinese_is_what_a_tool_does_not_know() -> None:
    assert chinese_besides(han_runs("上海的天气"), words_of("天气")) == ["上海"]


def test_names_of_tools_and_parameters_are_taken_apart() -> None:
    assert parts_of("voyageNo") == parts_of("voyage_no") == parts_of("voyage-no") == ["voyage", "no"]

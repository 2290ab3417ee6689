"""Changes of the state that did not see each other: what each has changed is kept, and of the same value the later."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.sessions.merging import merged
from agent_core.sessions.state import same_json

TABLE: list[tuple[str, Any, Any, Any, Any]] = [
    ("first keys", {}, {"x": 1}, {"y": 2}, {"x": 1, "y": 2}),
    ("the first, where there was no state", {}, {"x": 1}, None, {"x": 1}),
    ("other keys", {"a": 1}, {"a": 1, "x": 1}, {"a": 1, "y": 2}, {"a": 1, "x": 1, "y": 2}),
    ("a key taken away, another put", {"a": 1, "b": 1}, {"a": 1}, {"a": 1, "b": 1, "c": 1}, {"a": 1, "c": 1}),
    ("taken away by the other", {"a": 1, "b": 1}, {"a": 1, "b": 1, "x": 1}, {"a": 1}, {"a": 1, "x": 1}),
    (
        "keys deep inside",
        {"o": {"p": {}}},
        {"o": {"p": {"x": 1}}},
        {"o": {"p": {"y": 1}}},
        {"o": {"p": {"x": 1, "y": 1}}},
    ),
    ("the same new object", {}, {"o": {"x": 1}}, {"o": {"y": 1}}, {"o": {"x": 1, "y": 1}}),
    ("the same value", {"n": 1}, {"n": 2}, {"n": 3}, {"n": 2}),
    ("changed there, taken away here", {"n": 1}, {}, {"n": 3}, {}),
    ("taken away there, changed here", {"n": 1}, {"n": 2}, {}, {"n": 2}),
    ("put at the end of a list", {"l": [1]}, {"l": [1, 2]}, {"l": [1, 3]}, {"l": [1, 3, 2]}),
    ("the same new list", {}, {"l": [1]}, {"l": [2]}, {"l": [2, 1]}),
    ("the same new list deep inside", {}, {"o": {"l": [1]}}, {"o": {"l": [2]}}, {"o": {"l": [2, 1]}}),
    ("a list in another's place", {"l": 1}, {"l": [1]}, {"l": [2]}, {"l": [1]}),
    ("other changes of a list", {"l": [1, 2]}, {"l": [0, 2]}, {"l": [1, 2, 3]}, {"l": [0, 2]}),
    ("null is a value", {"n": None}, {"n": 0}, {"n": None, "m": None}, {"n": 0, "m": None}),
    ("1 is not true", {"n": 1}, {"n": True}, {"n": 1, "m": 1}, {"n": True, "m": 1}),
    ("no objects", 1, 2, 3, 2),
    ("an object in another's place", {"o": 1}, {"o": {"x": 1}}, {"o": {"y": 1}}, {"o": {"x": 1, "y": 1}}),
    ("nothing changed here", {"n": 1}, {"n": 1}, [5], [5]),
]


@pytest.mark.parametrize(("before", "after", "now", "both"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_what_two_have_changed_is_put_together(before: Any, after: Any, now: Any, both: Any) -> None:
    kept = deepcopy((before, after, now))
    made = merged(before, after, now)
    assert same_json(made, both), made
    assert (before, after, now) == kept


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, VALUES)
def test_alone_a_change_is_what_it_was_made_to_be(before: Any, after: Any) -> None:
    assert same_json(merged(before, after, before), after)
    assert same_json(merged(before, before, after), after)


@given(*[st.dictionaries(st.sampled_from(keys), VALUES, max_size=3) for keys in ("abcd", "ab", "cd")])
def test_changes_of_other_keys_come_to_the_same_in_any_order(
    before: dict[str, Any], one: dict[str, Any], other: dict[str, Any]
) -> None:
    here, there = before | one, before | other
    assert same_json(merged(before, here, there), before | one | other)
    assert same_json(merged(before, there, here), before | one | other)


def test_a_state_nested_as_deep_as_it_may_be_is_merged_in_little_time() -> None:
    def nested(leaf: Any) -> Any:
        value: Any = {"leaf": leaf, "wide": {str(n): n for n in range(20_000)}}
        for _ in range(98):
            value = {"in": value}
        return value

    assert same_json(merged(nested(1), nested(2), nested(1) | {"more": 1}), nested(2) | {"more": 1})

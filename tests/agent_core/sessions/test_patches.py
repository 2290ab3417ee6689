"""JSON patches: the same as another implementation makes of them, and at a cost that is known."""

import copy
from typing import Any

import jsonpatch
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.sessions.patches import LARGEST_COPY, MOVED, Misfit, Patch, Patched

START: Any = {"a": [1, 2, {"b": None}], "~/": {"": 0}, "x": "y"}


def patched(value: Any, *operations: dict[str, Any]) -> Any:
    made = Patched(copy.deepcopy(value))
    made.apply(operations)
    return made.value


@pytest.mark.parametrize(
    ("operation", "made"),
    [
        ({"op": "add", "path": "/a/1", "value": 9}, {**START, "a": [1, 9, 2, {"b": None}]}),
        ({"op": "add", "path": "/a/3", "value": 9}, {**START, "a": [1, 2, {"b": None}, 9]}),
        ({"op": "add", "path": "/a/-", "value": 9}, {**START, "a": [1, 2, {"b": None}, 9]}),
        ({"op": "add", "path": "/x", "value": 9}, {**START, "x": 9}),
        ({"op": "add", "path": "", "value": 9}, 9),
        ({"op": "replace", "path": "/~0~1/", "value": 9}, {**START, "~/": {"": 9}}),
        ({"op": "replace", "path": "/a/0", "value": [9]}, {**START, "a": [[9], 2, {"b": None}]}),
        ({"op": "replace", "path": "", "value": None}, None),
        ({"op": "remove", "path": "/a/2/b"}, {**START, "a": [1, 2, {}]}),
        ({"op": "remove", "path": "/a/0"}, {**START, "a": [2, {"b": None}]}),
        ({"op": "move", "from": "/a/0", "path": "/a/2"}, {**START, "a": [2, {"b": None}, 1]}),
        ({"op": "move", "from": "/x", "path": "/x"}, START),
        ({"op": "move", "from": "/a/2", "path": "/x"}, {"a": [1, 2], "~/": {"": 0}, "x": {"b": None}}),
        ({"op": "copy", "from": "/a/2", "path": "/x"}, {**START, "x": {"b": None}}),
        ({"op": "test", "path": "/a/2", "value": {"b": None}}, START),
    ],
)
def test_each_operation_does_what_the_standard_says(operation: dict[str, Any], made: Any) -> None:
    assert patched(START, operation) == made


@pytest.mark.parametrize(
    "operation",
    [
        {},
        {"op": "add", "path": "/x"},
        {"op": "fly", "path": "/x", "value": 1},
        {"op": ["add"], "path": "/x", "value": 1},
        {"op": "add", "path": "x", "value": 1},
        {"op": "add", "path": 3, "value": 1},
        {"op": "add", "path": "/a/4", "value": 1},
        {"op": "add", "path": "/a/01", "value": 1},
        {"op": "add", "path": "/a/-1", "value": 1},
        {"op": "add", "path": "/a/²", "value": 1},
        {"op": "add", "path": f"/a/{'9' * 5000}", "value": 1},
        {"op": "add", "path": "/x/y", "value": 1},
        {"op": "add", "path": "/a/0/y", "value": 1},
        {"op": "add", "path": "/n/y", "value": 1},
        {"op": "replace", "path": "/n", "value": 1},
        {"op": "replace", "path": "/a/-", "value": 1},
        {"op": "remove", "path": "/n"},
        {"op": "remove", "path": ""},
        {"op": "remove", "path": "/a/3"},
        {"op": "move", "from": "/a", "path": "/a/0"},
        {"op": "move", "path": "/a"},
        {"op": "test", "path": "/a/0", "value": True},
    ],
)
def test_what_does_not_fit_is_a_misfit_and_nothing_else(operation: dict[str, Any]) -> None:
    with pytest.raises(Misfit):
        patched(START, operation)


def test_a_copy_shares_nothing_and_has_a_largest_size() -> None:
    made = patched(START, {"op": "copy", "from": "/a", "path": "/c"}, {"op": "add", "path": "/c/-", "value": 3})
    assert made["a"] == START["a"]
    with pytest.raises(Misfit, match="too large"):
        patched({"a": "x" * LARGEST_COPY}, {"op": "copy", "from": "/a", "path": "/c"})


NAMES = st.sampled_from(["a", "b", "", "~", "/", "0", "1", "-"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
POINTERS = st.lists(st.sampled_from(["a", "b", "", "~0", "~1", "0", "1", "-"]), max_size=3).map(
    lambda steps: "".join(f"/{step}" for step in steps)
)
NAMED = st.sampled_from(["add", "replace", "remove", "move", "copy"])
OPERATIONS = st.fixed_dictionaries({"op": NAMED, "path": POINTERS, "from": POINTERS, "value": VALUES})


@given(VALUES, st.lists(OPERATIONS, max_size=4))
def test_it_makes_the_same_as_another_implementation(value: Any, patch: Patch) -> None:
    made = Patched(copy.deepcopy(value))
    try:
        made.apply(copy.deepcopy(patch))
    except Misfit:
        return
    if any(each["op"] == "copy" and each["from"] == "" for each in patch) or any(
        each["op"] in ("replace", "remove", "move") and "-" in (each["path"] + each["from"]) for each in patch
    ):
        return  # on these, the other one has ways of its own
    assert made.value == jsonpatch.apply_patch(value, patch)


def test_the_cost_of_a_patch_is_counted_with_the_items_that_it_moves() -> None:
    made = Patched(list(range(50_000)))
    made.apply([{"op": "add", "path": "/-", "value": 1}, {"op": "replace", "path": "/0", "value": 1}])
    assert made.work == 2
    made.apply([{"op": "add", "path": "/0", "value": 1}])
    assert made.work == 3 + 50_002 // MOVED


def test_it_ends_where_the_work_is_more_than_is_wanted() -> None:
    made = Patched([])
    made.apply([{"op": "add", "path": "/0", "value": n} for n in range(100_000)], most=1_000)
    assert made.work == 1_001
    assert len(orjson.dumps(made.value)) < 5_000

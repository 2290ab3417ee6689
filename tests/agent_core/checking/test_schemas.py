"""Safe copies of schemas keep their meaning. Schemas that are too large or lead elsewhere are refused."""

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.checking.costs import MOST, Unusable
from agent_core.checking.schemas import LARGEST, safe_copy

A = {"type": "integer"}


def laughs(depth: int) -> dict[str, Any]:
    """A schema that stands for two to the power of `depth` checks."""
    steps = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)}
    return {"$ref": "#/$defs/d0", "$defs": {**steps, f"d{depth}": {"type": "object"}}}


def copy_of(schema: dict[str, Any]) -> dict[str, Any]:
    return dict(safe_copy(schema).schema)


TO_FIRST = {"$ref": "#/definitions/0"}
DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}


@pytest.mark.parametrize(
    ("schema", "copied"),
    [
        ({}, {}),
        ({"type": "object", "title": "T", "description": "d", "default": {}, "x-odd": 1}, {"type": "object"}),
        ({"properties": {"$ref": A, "title": A}}, {"properties": {"$ref": A, "title": A}}),
        ({"enum": [{"$ref": "#/nowhere"}]}, {"enum": [{"$ref": "#/nowhere"}]}),
        ({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": A}}, {"properties": {"a": TO_FIRST}}),
        ({"items": {"$ref": "#/$defs/a~1b%20c~0"}, "$defs": {"a/b c~": A}}, {"items": TO_FIRST}),
        ({"properties": {"a": {"$ref": "#/x/0"}}, "x": [A]}, {"properties": {"a": TO_FIRST}}),
        ({"allOf": [A, {"$ref": "#/allOf/0"}, {"$ref": "#/allOf/0"}]}, {"allOf": [A, TO_FIRST, TO_FIRST]}),
        ({"$ref": "#/$defs/A", "minimum": 1, "$defs": {"A": A}}, {**TO_FIRST, "minimum": 1}),
        (
            {**DRAFT_7, "$ref": "#/definitions/A", "minimum": 1, "definitions": {"A": A, "B": {"$ref": "far.json"}}},
            {**DRAFT_7, **TO_FIRST},
        ),
        ({"items": [A, True]}, {"items": [A, True]}),
        ({"dependencies": {"a": ["b"], "c": A}}, {"dependencies": {"a": ["b"], "c": A}}),
        ({"$id": "https://example.com/x", "not": False}, {"not": False}),
    ],
)  # fmt: skip
def test_what_is_referred_to_is_copied_once_and_what_says_nothing_is_left_out(
    schema: dict[str, Any], copied: dict[str, Any]
) -> None:
    definitions = {"definitions": {"0": A}} if "#/definitions/0" in str(copied) else {}
    assert copy_of(schema) == {**copied, **definitions}


REFUSED: dict[str, dict[str, Any]] = {
    "the network": {"$ref": "http://127.0.0.1:9/x"},
    "a file": {"properties": {"a": {"$ref": "file:///etc/hostname"}}},
    "a neighbour": {"$id": "http://127.0.0.1:9/a", "properties": {"a": {"$ref": "b.json"}}},
    "a name": {"$ref": "#there", "$defs": {"x": {"$anchor": "there"}}},
    "a dynamic reference": {"properties": {"a": {"$dynamicRef": "#x"}}},
    "a recursive reference": {"items": {"$recursiveRef": "#"}},
    "another base": {"properties": {"a": {"$id": "http://127.0.0.1:9/a"}}},
    "nothing": {"$ref": "#/$defs/A"},
    "a number": {"$ref": 3},
    "a list's far end": {"$ref": "#/allOf/9", "allOf": [A]},
    "no schema": {"properties": {"a": "string"}},
    "no object": {"properties": []},
    "a crowd": {"properties": {f"p{n}": A for n in range(LARGEST)}},
    "many patterns": {"properties": {f"p{n}": {"pattern": f"^{n}"} for n in range(101)}},
    "itself": {"$ref": "#"},
    "itself, twice": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
    "a definition that is itself": {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
    "one through another": {"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"not": {"$ref": "#/anyOf/0"}}}},
    "a long way": laughs(61),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_leads_elsewhere_or_stands_for_too_much_is_refused(name: str) -> None:
    with pytest.raises(Unusable):
        safe_copy(REFUSED[name])


def test_a_schema_that_is_nested_too_deep_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100):
        schema = {"properties": {"a": schema}}
    with pytest.raises(Unusable):
        safe_copy(schema)


def nested(depth: int, leaf: Any) -> Any:
    return {"kids": [nested(depth - 1, leaf)], "name": "x"} if depth else leaf


TREE = {
    "$ref": "#/$defs/T",
    "$defs": {"T": {"properties": {"name": {"type": "string"}, "kids": {"items": {"$ref": "#/$defs/T"}}}}},
}


def test_a_definition_inside_itself_is_checked_all_the_way_down_and_costs_the_same_at_each_level() -> None:
    safe = safe_copy(TREE)
    validator = jsonschema_rs.validator_for(dict(safe.schema))
    for depth in (5, 25):
        assert validator.is_valid(nested(depth, {"name": "x"}))
        assert not validator.is_valid(nested(depth, {"name": 1}))
    assert safe.cost.of(nested(20, {}), 0)[0] < 2.5 * safe.cost.of(nested(10, {}), 0)[0]
    assert safe.cost.of(nested(50, {}), 0)[0] > MOST, "the validator's stack is not without end"


def test_references_that_double_at_each_level_are_counted_before_they_are_followed() -> None:
    assert safe_copy(laughs(20)).cost.levels[0] > 2**20
    again = {"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
    value: Any = {}
    for _ in range(30):
        value = {"a": value}
    assert safe_copy(again).cost.of(value, 0)[0] > 2**29


def test_a_cost_that_takes_long_to_find_is_too_much_for_deep_values() -> None:
    names = [str(number) for number in range(90)]
    all_of_them = {"properties": {name: {"$ref": f"#/$defs/{name}"} for name in names}}
    cost = safe_copy({"$ref": "#/$defs/0", "$defs": dict.fromkeys(names, all_of_them)}).cost
    assert cost.of({"1": {"2": {}}}, 0)[0] < 1000
    assert cost.of(json.loads('{"1":' * 50 + "1" + "}" * 50), 0)[0] > MOST


@pytest.mark.parametrize("far", [False, True])
def test_nothing_is_refused_for_a_pattern_that_was_cut_even_behind_references(far: bool) -> None:
    odd: Any = {"$ref": "#/$defs/B"} if far else {"pattern": "x"}
    definitions = {"$defs": {"B": {"allOf": [{"$ref": "#/$defs/C"}]}, "C": {"pattern": "x"}}} if far else {}
    for schema in (
        {"not": odd},
        {"if": odd, "then": False},
        {"oneOf": [odd, {"type": "string"}]},
        {"properties": {"a": {"oneOf": [odd, {"type": "string"}]}}},
        {"contains": odd, "maxContains": 1},
        {"allOf": [{"properties": {"a": odd}}], "unevaluatedProperties": False},
    ):
        copied = safe_copy({**schema, **definitions}, lambda _key, _text: False).schema
        validator = jsonschema_rs.validator_for(dict(copied))
        for value in ("y", ["y", "z"], {"a": "y"}):
            assert validator.is_valid(value)


def test_what_reads_texts_stays_where_the_caller_agrees() -> None:
    schema = {"properties": {"a": {"pattern": "^a", "format": "uri"}, "b": {"pattern": "^b"}}}
    asked: list[tuple[str, str]] = []

    def keep(key: str, text: str) -> bool:
        asked.append((key, text))
        return text == "^b"

    assert safe_copy(schema, keep).schema == {"properties": {"a": {}, "b": {"pattern": "^b"}}}
    assert asked == [("pattern", "^a"), ("format", "uri"), ("pattern", "^b")]


NAMES = st.sampled_from(["a", "b"])
POINTERS = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/properties/a"])
SIMPLE = st.sampled_from([
    {}, True, {"type": "string"}, {"type": ["object", "integer"]}, {"minimum": 2}, {"pattern": "y"}
])  # fmt: skip


def deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.fixed_dictionaries({}, optional={
            "properties": st.dictionaries(NAMES, inner), "required": st.lists(NAMES, unique=True),
            "items": inner, "anyOf": st.lists(inner, min_size=1, max_size=2), "not": inner, "$ref": POINTERS,
            "oneOf": st.lists(inner, min_size=1, max_size=2), "if": inner, "then": inner, "else": inner,
            "contains": inner, "unevaluatedProperties": st.booleans(), "allOf": st.lists(inner, min_size=1, max_size=2),
        }),
    )  # fmt: skip


SCHEMAS = st.fixed_dictionaries(
    {"$defs": st.fixed_dictionaries({name: st.recursive(SIMPLE, deeper, max_leaves=4) for name in ("a", "b")})},
    optional={
        "properties": st.fixed_dictionaries({"a": st.recursive(SIMPLE, deeper, max_leaves=4)}),
        "anyOf": st.lists(st.recursive(SIMPLE, deeper, max_leaves=4), min_size=1, max_size=2),
    },
)
VALUES = st.recursive(
    st.sampled_from([1, 3, "x", None]), lambda inner: st.dictionaries(NAMES, inner) | st.lists(inner), max_leaves=5
)


@given(SCHEMAS, VALUES)
def test_a_copy_means_what_the_schema_meant(schema: dict[str, Any], value: Any) -> None:
    try:
        copied = copy_of(schema)
    except Unusable:
        return
    meant = jsonschema_rs.validator_for(schema, offline=True).is_valid(value)
    assert jsonschema_rs.validator_for(copied).is_valid(value) == meant


@given(SCHEMAS, VALUES)
def test_a_copy_without_patterns_refuses_nothing_that_is_right(schema: dict[str, Any], value: Any) -> None:
    try:
        copied = safe_copy(schema, lambda _key, _text: False).schema
    except Unusable:
        return
    meant = jsonschema_rs.validator_for(schema, offline=True).is_valid(value)
    assert jsonschema_rs.validator_for(dict(copied)).is_valid(value) or not meant

"""Schemas written out: what they mean stays, and what is too much or leads elsewhere is refused."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.checking.schemas import LARGEST, Unusable, unroll

A = {"type": "integer"}


def laughs(depth: int) -> dict[str, Any]:
    """A schema that stands for two to the power of `depth` checks."""
    steps = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)}
    return {"$ref": "#/$defs/d0", "$defs": {**steps, f"d{depth}": {"type": "object"}}}


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({}, {}),
        ({"type": "object", "title": "T", "description": "d", "default": {}, "x-odd": 1}, {"type": "object"}),
        ({"properties": {"$ref": A, "title": A}}, {"properties": {"$ref": A, "title": A}}),
        ({"enum": [{"$ref": "#/nowhere"}]}, {"enum": [{"$ref": "#/nowhere"}]}),
        ({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": A}}, {"properties": {"a": A}}),
        ({"properties": {"a": {"$ref": "#/$defs/a~1b%20c~0"}}, "$defs": {"a/b c~": A}}, {"properties": {"a": A}}),
        ({"allOf": [A, {"$ref": "#/allOf/0"}]}, {"allOf": [A, A]}),
        (
            {"properties": {"a": {"$ref": "#/$defs/A", "minimum": 1}}, "$defs": {"A": A}},
            {"properties": {"a": {"minimum": 1, "allOf": [A]}}},
        ),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "properties": {"a": {"$ref": "#/definitions/A", "minimum": 1}},
                "definitions": {"A": A},
            },
            {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": A}},
        ),
        ({"items": [A, True]}, {"items": [A, True]}),
        ({"dependencies": {"a": ["b"], "c": A}}, {"dependencies": {"a": ["b"], "c": A}}),
        ({"$id": "https://example.com/x", "not": False}, {"not": False}),
    ],
)  # fmt: skip
def test_references_are_written_out_and_what_says_nothing_is_left_out(
    schema: dict[str, Any], written: dict[str, Any]
) -> None:
    assert unroll(schema).schema == written


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
    "laughs": laughs(30),
    "a crowd": {"properties": {f"p{n}": A for n in range(LARGEST)}},
    "many patterns": {"properties": {f"p{n}": {"pattern": f"^{n}"} for n in range(101)}},
    "a long enum, often": {
        "properties": {f"p{n}": {"$ref": "#/$defs/E"} for n in range(100)},
        "$defs": {"E": {"enum": ["x" * 10_000]}},
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_leads_elsewhere_or_stands_for_too_much_is_refused(name: str) -> None:
    with pytest.raises(Unusable):
        unroll(REFUSED[name])


def test_a_schema_that_is_nested_too_deep_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100):
        schema = {"properties": {"a": schema}}
    with pytest.raises(Unusable):
        unroll(schema)


def nested(depth: int, leaf: Any) -> Any:
    return {"kids": [nested(depth - 1, leaf)], "name": "x"} if depth else leaf


def test_a_definition_inside_itself_is_checked_a_few_levels_down() -> None:
    tree = {
        "$ref": "#/$defs/T",
        "$defs": {"T": {"properties": {"name": {"type": "string"}, "kids": {"items": {"$ref": "#/$defs/T"}}}}},
    }
    validator = jsonschema_rs.validator_for(dict(unroll(tree).schema))
    assert validator.is_valid(nested(5, {"name": "x"}))
    assert not validator.is_valid(nested(5, {"name": 1}))
    assert validator.is_valid(nested(50, {"name": 1})), "so far down, everything is right"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
    ],
)
def test_a_schema_that_only_refers_to_itself_allows_everything(schema: dict[str, Any]) -> None:
    assert jsonschema_rs.validator_for(unroll(schema).schema).is_valid({"a": 1})  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["not", "if", "oneOf", "contains", "unevaluatedProperties"])
def test_nothing_is_refused_because_a_definition_was_cut(key: str) -> None:
    inner: Any = {
        "not": {"not": {"required": ["no"], "properties": {"a": {"$ref": "#"}}}},
        "if": {"if": {"properties": {"a": {"$ref": "#"}}, "required": ["no"]}, "then": False},
        "oneOf": {"oneOf": [{"properties": {"a": {"$ref": "#"}}}, {"required": ["no"]}]},
        "contains": {"properties": {"a": {"contains": {"$ref": "#"}, "maxContains": 1}}},
        "unevaluatedProperties": {
            "allOf": [{"properties": {"a": {"$ref": "#"}}}], "unevaluatedProperties": False
        },
    }[key]  # fmt: skip
    value: Any = {}
    for _ in range(12):
        value = {"a": value}
    assert jsonschema_rs.validator_for(dict(unroll(inner).schema)).is_valid(value)


def test_what_reads_texts_stays_where_the_caller_agrees() -> None:
    schema = {"properties": {"a": {"pattern": "^a", "format": "uri"}, "b": {"pattern": "^b"}}}
    asked: list[tuple[str, str]] = []

    def keep(key: str, text: str) -> bool:
        asked.append((key, text))
        return text == "^b"

    assert unroll(schema, keep).schema == {"properties": {"a": {}, "b": {"pattern": "^b"}}}
    assert asked == [("pattern", "^a"), ("format", "uri"), ("pattern", "^b")]


NAMES = st.sampled_from(["a", "b"])
POINTERS = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/properties/a"])
SIMPLE = st.sampled_from([{}, True, {"type": "string"}, {"type": ["object", "integer"]}, {"minimum": 2}])


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
def test_what_is_written_out_means_what_it_meant(schema: dict[str, Any], value: Any) -> None:
    try:
        written = unroll(schema).schema
    except Unusable:
        return
    meant = jsonschema_rs.validator_for(schema, offline=True).is_valid(value)
    assert jsonschema_rs.validator_for(dict(written)).is_valid(value) or not meant, "nothing right is refused"

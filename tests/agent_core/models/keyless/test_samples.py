"""Values made to fit a schema."""

from typing import Any

import pytest

from agent_core.models.keyless.samples import MOST_VALUES, sample_arguments


def sample(schema: Any, **root: Any) -> Any:
    return sample_arguments({"properties": {"x": schema}, "required": ["x"], **root}, "text", {})["x"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({}, "text"),
        ({"type": "string"}, "text"),
        ({"type": "string", "minLength": 6}, "text.."),
        ({"type": "string", "maxLength": 2}, "te"),
        ({"type": "string", "format": "date"}, "2026-01-31"),
        ({"type": "integer"}, 1),
        ({"type": "integer", "minimum": 5}, 5),
        ({"type": "integer", "maximum": -2}, -2),
        ({"type": "integer", "exclusiveMinimum": 5}, 6),
        ({"type": "integer", "multipleOf": 4}, 4),
        ({"type": "number", "exclusiveMaximum": 1}, 0.5),
        ({"type": "number", "minimum": 0.25, "maximum": 0.75}, 0.75),
        ({"type": "boolean"}, True),
        ({"type": "null"}, None),
        ({"type": ["null", "integer"]}, 1),
        ({"type": "array"}, []),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1]),
        ({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["b"]}, {"b": "text"}),
        ({"enum": ["red", "blue"]}, "red"),
        ({"const": 7}, 7),
        ({"type": "string", "default": "d"}, "d"),
        ({"type": "string", "examples": ["e"]}, "e"),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, 1),
        ({"oneOf": [{"type": "boolean"}]}, True),
    ],
)
def test_a_required_member_gets_a_value_that_its_schema_accepts(schema: Any, value: Any) -> None:
    made = sample(schema)
    assert (made, type(made)) == (value, type(value))


def test_references_are_followed_and_circles_end() -> None:
    color = {"Color": {"enum": ["red"]}}
    assert sample({"$ref": "#/$defs/Color"}, **{"$defs": color}) == "red"
    assert sample({"$ref": "#/definitions/Color"}, definitions=color) == "red"
    assert sample({"$ref": "#/$defs/A"}, **{"$defs": {"A": {"$ref": "#/$defs/A"}}}) == "text"
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}
    assert sample({"$ref": "#/$defs/Node"}, **{"$defs": {"Node": node}})["next"]["next"] != {}


def test_what_is_given_is_kept_and_what_is_optional_left_out() -> None:
    schema = {"properties": {"a": {}, "b": {}, "c": {"type": "integer"}}, "required": ["a", "c"]}
    assert sample_arguments(schema, "t", {"a": "mine"}) == {"a": "mine", "c": 1}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": [], "required": 3},
        {"properties": {"x": 5}, "required": ["x", 7, None, "y" * 9999]},
        {"properties": {"x": {"type": {}, "enum": {}, "anyOf": 4, "$ref": 9}}, "required": ["x"]},
        {"properties": {"x": {"type": "string", "minLength": 10**9, "format": []}}, "required": ["x"]},
        {"properties": {"x": {"type": "integer", "multipleOf": 1e-300, "minimum": float("nan")}}, "required": ["x"]},
        {"properties": {"x": {"type": "number", "minimum": True, "maximum": 10**400}}, "required": ["x"]},
        {"properties": {"x": {"default": "d" * 10**6}}, "required": ["x"]},
        {"properties": {"x": {"enum": [10**40]}}, "required": ["x"]},
    ],
)
def test_a_schema_that_is_none_does_no_harm(schema: Any) -> None:
    made = sample_arguments(schema, "t", {})
    assert len(repr(made)) < 5000


def test_a_schema_that_multiplies_is_cut_off() -> None:
    schema: Any = {"type": "integer"}
    for _ in range(7):
        schema = {"type": "array", "minItems": 5, "items": schema}
    assert repr(sample(schema)).count("1") <= MOST_VALUES

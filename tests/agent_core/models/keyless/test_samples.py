"""Values made to fit a schema."""

from typing import Any

import pytest

from agent_core.models.keyless import samples


def sample(schema: Any, **root: Any) -> Any:
    return samples.sample({"type": "object", "properties": {"x": schema}, "required": ["x"]}, root)["x"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({}, "demo"),
        ({"type": "string"}, "demo"),
        ({"type": "string", "minLength": 6}, "demo.."),
        ({"type": "integer"}, 1),
        ({"type": "integer", "minimum": 5}, 5),
        ({"type": "boolean"}, True),
        ({"type": "null"}, None),
        ({"type": ["null", "integer"]}, 1),
        ({"type": "array"}, []),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1]),
        ({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["b"]}, {"b": "demo"}),
        ({"enum": ["red", "blue"]}, "red"),
        ({"const": 7}, 7),
        ({"type": "string", "default": "d"}, "d"),
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
    assert sample({"$ref": "#/$defs/A"}, **{"$defs": {"A": {"$ref": "#/$defs/A"}}}) == "demo"
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}
    assert sample({"$ref": "#/$defs/Node"}, **{"$defs": {"Node": node}})["next"]["next"] != {}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": [], "required": 3},
        {"properties": {"x": 5}, "required": ["x", 7, None, "y" * 9999]},
        {"properties": {"x": {"type": {}, "enum": {}, "anyOf": 4, "$ref": 9}}, "required": ["x"]},
        {"properties": {"x": {"type": "string", "minLength": 10**9, "format": []}}, "required": ["x"]},
        {"properties": {"x": {"type": "integer", "multipleOf": 1e-300, "minimum": float("nan")}}, "required": ["x"]},
        {"properties": {"x": {"type": "number", "minimum": True, "maximum": 10**400}}, "required": ["x"]},
        {"properties": {"x": {"enum": [10**40]}}, "required": ["x"]},
    ],
)
def test_a_schema_that_is_none_does_no_harm(schema: Any) -> None:
    made = samples.sample({"type": "object", **schema}, schema)
    assert len(repr(made)) < 5000


def test_a_schema_that_multiplies_is_cut_off() -> None:
    names = [str(number) for number in range(100)]
    schema: Any = {"type": "integer"}
    for _ in range(7):
        items = {"type": "array", "minItems": 100, "items": schema}
        schema = {"type": "object", "properties": dict.fromkeys(names, items), "required": names}
    assert len(repr(sample(schema))) < 1_000_000

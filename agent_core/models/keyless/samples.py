"""Sample values for a JSON Schema, for a model that knows only the schema of a tool.

Schemas come from clients. So every type is checked, only a part of a large schema is read, and `pattern` is never
tried.
"""

from collections.abc import Mapping
from typing import Any

DEEPEST, MOST_STEPS = 4, 8
"""Levels that a sample is nested at most, and references that are followed for one value."""

MOST_MEMBERS, MOST_ITEMS, LONGEST_STRING, LONGEST_NAME = 16, 5, 1000, 200


def resolved(schema: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with its references and alternatives followed. Of alternatives, the first that is not null counts.
    Keywords beside them are kept."""
    found: dict[str, Any] = {}
    for _ in range(MOST_STEPS):
        if not isinstance(schema, Mapping):
            break
        found = {**schema, **found}
        options = [each for key in ("anyOf", "oneOf", "allOf") for each in _listed(schema, key)]
        reference, schema = schema.get("$ref"), next((each for each in options if each != {"type": "null"}), None)
        if isinstance(reference, str):
            schema = root
            for step in reference.removeprefix("#/").split("/")[:MOST_STEPS]:
                schema = schema.get(step) if isinstance(schema, Mapping) else None
    return found


def properties_in(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def required_in(schema: Mapping[str, Any]) -> list[str]:
    """The names of the first MOST_MEMBERS required members."""
    return [name for name in _listed(schema, "required") if isinstance(name, str) and len(name) <= LONGEST_NAME]


def type_of(schema: Mapping[str, Any]) -> str:
    """The schema's type. Of several, the first that is not null; `string` if it has none."""
    kinds = [
        each for each in (schema.get("type"), *_listed(schema, "type")) if isinstance(each, str) and each != "null"
    ]
    if kinds or "type" in schema:
        return kinds[0] if kinds else "null"
    return "object" if "properties" in schema else "string"


def sample(schema: Any, root: Mapping[str, Any], depth: int = DEEPEST) -> Any:
    """A value for the schema. An object gets only its required members."""
    schema = resolved(schema, root)
    for value in [schema[key] for key in ("const", "default") if key in schema] + _listed(schema, "enum"):
        return value
    match type_of(schema):
        case "object":
            names = required_in(schema) if depth else ()
            return {name: sample(properties_in(schema).get(name), root, depth - 1) for name in names}
        case "array":
            most = MOST_ITEMS if depth else 0
            return [
                sample(schema.get("items"), root, depth - 1) for _ in range(min(_number(schema, "minItems", 0), most))
            ]
        case "string":
            return "demo".ljust(min(_number(schema, "minLength", 0), LONGEST_STRING), ".")
    return {"null": None, "boolean": True}.get(type_of(schema), _number(schema, "minimum", 1))


def _listed(schema: Mapping[str, Any], key: str) -> list[Any]:
    value = schema.get(key)
    return list(value[:MOST_MEMBERS]) if isinstance(value, list | tuple) else []


def _number(schema: Mapping[str, Any], key: str, otherwise: int) -> int:
    value = schema.get(key)
    return value if type(value) is int and abs(value) < 10**15 else otherwise

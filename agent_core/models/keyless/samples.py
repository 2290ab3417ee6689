"""A value that fits a JSON Schema, as well as can be without knowing what it means.

For models that must call a tool of which they know nothing but its schema. Schemas come from clients:
nothing in one is trusted to be of its right type, `pattern` is never tried, and what is read is capped.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any

import orjson

MOST_VALUES = 100
"""Values that are made for one schema; beyond that, objects and lists stay empty."""

DEEPEST = 8
"""How far values are nested, and how many references one value is followed through."""

LONGEST_STRING, LONGEST_NAME, LARGEST_VALUE = 1000, 200, 4000
SMALLEST_STEP = 1e-6
MOST_ITEMS = 5

BY_FORMAT = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "someone@example.com",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}

Schema = Mapping[str, Any]


def sample_arguments(parameters: Schema, text: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for a tool with these parameters: what is `given`, and a sample for each required member
    that it lacks. `text` serves where any text will do.
    """
    made = _Sampler(parameters, text).members(parameters, 0, frozenset(given))
    return {**made, **given}


class _Sampler:
    """Makes the values of one schema and counts them."""

    __slots__ = ("_left", "_root", "_text")

    def __init__(self, root: Schema, text: str) -> None:
        self._root = root
        self._text = text
        self._left = MOST_VALUES

    def members(self, schema: Schema, depth: int, known: frozenset[str] = frozenset()) -> dict[str, Any]:
        """A value for each required member of an object, without those that are known."""
        properties, required = schema.get("properties"), schema.get("required")
        properties = properties if isinstance(properties, Mapping) else {}
        names = required if isinstance(required, list | tuple) else ()
        wanted = (name for name in islice(names, MOST_VALUES) if isinstance(name, str) and len(name) <= LONGEST_NAME)
        return {
            name: self.value(properties.get(name), depth + 1) for name in wanted if name not in known and self._left > 0
        }

    def value(self, schema: Any, depth: int) -> Any:
        self._left -= 1
        schema = self._resolve(schema)
        for key in ("const", "default"):
            if key in schema and _is_small(schema[key]):
                return schema[key]
        for key in ("enum", "examples"):
            if isinstance(schema.get(key), list) and schema[key] and _is_small(schema[key][0]):
                return schema[key][0]
        match _type_of(schema):
            case "object":
                return self.members(schema, depth) if depth < DEEPEST else {}
            case "array":
                count = min(_count(schema.get("minItems")), MOST_ITEMS) if depth < DEEPEST else 0
                return [self.value(schema.get("items"), depth + 1) for _ in range(count) if self._left > 0]
            case "integer" | "number":
                return _number(schema)
            case "boolean":
                return True
            case "null":
                return None
        return self._string(schema)

    def _resolve(self, schema: Any) -> Schema:
        """The schema that its references and its first alternatives that are not null lead to."""
        found: dict[str, Any] = {}
        for _ in range(DEEPEST):
            if not isinstance(schema, Mapping):
                break
            found = {**schema, **found}
            if isinstance(reference := schema.get("$ref"), str):
                schema = self._look_up(reference)
                continue
            groups = (schema.get(key) for key in ("anyOf", "oneOf", "allOf"))
            options = next((each for each in groups if isinstance(each, list) and each), [])
            schema = next((each for each in islice(options, MOST_ITEMS) if each != {"type": "null"}), None)
        return found

    def _look_up(self, reference: str) -> Any:
        node: Any = self._root
        for step in reference.removeprefix("#/").split("/")[:DEEPEST]:
            node = node.get(step) if isinstance(node, Mapping) else None
        return node

    def _string(self, schema: Schema) -> str:
        text = BY_FORMAT.get(str(schema.get("format")), self._text)
        least = min(_count(schema.get("minLength")), LONGEST_STRING)
        most = _count(schema.get("maxLength"), LONGEST_STRING)
        return text.ljust(least, ".")[: max(most, least)]


def _type_of(schema: Schema) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def _count(value: Any, otherwise: int = 0) -> int:
    return value if type(value) is int and value >= 0 else otherwise


def _is_small(value: Any) -> bool:
    """Whether a value of the schema's own can be taken over as it is."""
    try:
        return len(orjson.dumps(value)) <= LARGEST_VALUE
    except TypeError:  # too deep, an integer of more than 64 bits, or a lone surrogate
        return False


def _number(schema: Schema) -> int | float:
    """The smallest number at or above 1 that the bounds allow, or the largest below it."""
    whole = _type_of(schema) == "integer"
    low, high = _bound(schema, "minimum"), _bound(schema, "maximum")
    above, below = _bound(schema, "exclusiveMinimum"), _bound(schema, "exclusiveMaximum")
    step: int | float = 1 if whole else 0.5
    number: int | float = 1
    number = max(number, low) if low is not None else number
    number = above + step if above is not None and number <= above else number
    number = min(number, high) if high is not None else number
    number = below - step if below is not None and number >= below else number
    multiple = _bound(schema, "multipleOf")
    if multiple is not None and multiple >= SMALLEST_STEP:
        number = -(-number // multiple) * multiple
    return int(number) if whole or float(number).is_integer() else number


def _bound(schema: Schema, name: str) -> int | float | None:
    value = schema.get(name)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15
    return value if usable else None

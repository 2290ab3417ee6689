"""Whether a value fits a parameter: by its schema, by its place in a text, by the keys of a result."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from agent_core.models.fake.words import STOP_WORDS, Value, is_code, listed, parts_of, shape_of, values_in

SURE, LIKELY, GUESS = 3, 2, 1

CODE_PARTS = listed("id ids no nr num number code key ref reference uuid")
NAME_PARTS = listed("name title label")
EXAMPLES_FOLLOW = r"(?:such as|e\.g\.|for example|for instance|examples?:|like|例如|比如|如)"
CUE_BEFORE = r"{}s?(?:\s+(?:no\.?|number|id|code|named|called|is))?\s*(?:=|:|：|#|是|为)?\s*[\"'“「`]?$"
LONGEST_MATCHED, MOST_QUANTIFIERS = 64, 4
DEEPEST = 8
MOST_EXAMPLES = 20


def core_of(name: str) -> str:
    """What a parameter is about: `voyageNo` is about `voyage`."""
    parts = parts_of(name)
    kept = [part for part in parts if part not in CODE_PARTS and part not in NAME_PARTS]
    return " ".join(kept or parts)


def resolve(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with its `$ref` followed and, of several alternatives, the first that is not null."""
    for _ in range(DEEPEST):
        if not isinstance(schema, Mapping):
            return {}
        alternatives = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
        if isinstance(reference := schema.get("$ref"), str):
            target = members_of(root, "$defs").get(reference.rpartition("/")[2])
            schema = {**target, **_rest(schema, "$ref")} if isinstance(target, Mapping) else {}
        elif isinstance(alternatives, list):
            best: Any = next((each for each in alternatives if each != {"type": "null"}), {})
            schema = {**best, **_rest(schema, "anyOf", "oneOf", "allOf")} if isinstance(best, Mapping) else {}
        else:
            return schema
    return {}


def members_of(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = schema.get(key)
    return found if isinstance(found, Mapping) else {}


def required_of(schema: Mapping[str, Any]) -> list[str]:
    """The names of the required members."""
    names = schema.get("required")
    return [each for each in names if isinstance(each, str)] if isinstance(names, list | tuple) else []


def _rest(schema: Mapping[str, Any], *without: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in without}


def type_of(schema: Mapping[str, Any]) -> str:
    """The schema's type; `string` where it names none, and the first that is not null of several."""
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), None)
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in schema else "string"


def examples_of(schema: Mapping[str, Any]) -> list[str]:
    """The schema's `examples`."""
    given = schema.get("examples")
    return [str(each) for each in given] if isinstance(given, list) else []


def with_examples(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with those examples added that its description gives, after words like `such as`."""
    found = examples_of(schema)
    description = str(schema.get("description", ""))
    if marker := re.search(EXAMPLES_FOLLOW, description, re.IGNORECASE):
        kinds = ("quoted", "code", "name")
        found += [each.text for each in values_in(description) if each.start >= marker.end() and each.kind in kinds]
    return {**schema, "examples": found[:MOST_EXAMPLES]}


def fit(text: str, schema: Mapping[str, Any]) -> int:
    """How well the text fits what the schema says of its values: SURE, GUESS, or 0 for not at all."""
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and _is_cheap(pattern, text):
        try:
            return SURE if re.search(pattern, text) else 0
        except (re.error, OverflowError, RecursionError):
            return GUESS
    examples = examples_of(schema)
    if not examples:
        return GUESS
    if is_code(text) and shape_of(text) in map(shape_of, examples):
        return SURE
    head = re.match(r"[A-Za-z]+[-_/]", text)
    if head and is_code(text) and any(each.startswith(head.group()) for each in examples):
        return SURE
    return GUESS if any(is_code(text) == is_code(each) for each in examples) else 0


def _is_cheap(pattern: str, text: str) -> bool:
    # A pattern may come from a client, and backtracking could hold up the server.
    few = len(re.findall(r"[*+?{]", pattern)) <= MOST_QUANTIFIERS and not re.search(r"\)[*+?{]|\\\d", pattern)
    return few and len(text) <= LONGEST_MATCHED


def wants_date(name: str, schema: Mapping[str, Any]) -> bool:
    described = re.search(r"\bdate\b|YYYY-MM-DD|日期", str(schema.get("description", ""))) is not None
    return described or schema.get("format") in ("date", "date-time") or "date" in parts_of(name)


def is_cued(name: str, value: Value, text: str) -> bool:
    """Whether the parameter's word stands right before the value: `cargo C-001`, `limit: 5`."""
    core = r"[\s_-]*".join(map(re.escape, core_of(name).split()))
    before = text[max(0, value.start - 80) : value.start]
    return re.search(r"(?<![A-Za-z])" + CUE_BEFORE.format(core), before, re.IGNORECASE) is not None


def is_named(member: object, text: str) -> bool:
    word = str(member)
    if not word or word.lower() in STOP_WORDS:
        return False
    if word.isascii():
        return re.search(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", text, re.IGNORECASE) is not None
    return word in text


def convert(value: Any, schema: Mapping[str, Any]) -> Any:
    """The value in the schema's type, or None where it cannot be."""
    kind = type_of(schema)
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if kind == "string":
        return str(value) or None
    try:
        number = float(value)
        if not math.isfinite(number):
            return None
        if kind == "integer":
            return int(number) if number.is_integer() else None
        return (int(number) if number.is_integer() else number) if kind == "number" else None
    except (ValueError, OverflowError):
        return None


def leaves_of(data: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values of JSON data, each with the keys that lead to it."""
    if len(path) > DEEPEST:
        return
    if isinstance(data, Mapping):
        for key, each in data.items():
            yield from leaves_of(each, (*path, str(key)))
    elif isinstance(data, list):
        for each in data:
            yield from leaves_of(each, path)
    elif path and data is not None:
        yield path, data


def grade_of(name: str, path: tuple[str, ...], tool: str) -> int:
    """How well the keys of a result name the parameter: 5 for the same key, 0 for not at all."""
    key, wanted = path[-1], parts_of(name)
    if key == name:
        return 5
    parts = parts_of(key)
    if "".join(parts) == "".join(wanted):
        return 4
    code, title = set(parts) & CODE_PARTS, set(parts) & NAME_PARTS
    clash = (code and set(wanted) & NAME_PARTS) or (title and set(wanted) & CODE_PARTS)
    if clash or not parts:
        return 0
    if core_of(key) == core_of(name):
        return 3
    if len(path) > 1 and _singular(parts_of(path[-2])) + parts == wanted:
        return 2
    # `{"id": …}` from a tool about cargo is a cargo's id.
    bare = set(parts) <= CODE_PARTS and set(wanted) & CODE_PARTS
    return 1 if bare and set(core_of(name).split()) <= set(parts_of(tool)) else 0


def _singular(parts: tuple[str, ...]) -> tuple[str, ...]:
    return (*parts[:-1], parts[-1].removesuffix("s")) if parts else parts

"""Arguments before anything is run: each rule of what may run, and what the model is told of the rest."""

import json
import logging
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_core.checking import arguments as module
from agent_core.checking.arguments import Validators, checked
from agent_core.messages import ToolCall
from agent_core.tools.base import ToolSpec
from agent_core.tools.complaints import HEAD
from tests.agent_core.checking.test_schemas import REFUSED, laughs
from tests.turns import LONGEST_TURN, least_work

CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2, "pattern": "^[A-Z]"},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "unit": {"enum": ["C", "F"]},
        "stops": {"type": "array", "items": {"required": ["at"], "properties": {"at": {"type": "number"}}}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "place": {"oneOf": [{"type": "integer"}, {"type": "object", "properties": {"x": {"type": "number"}}}]},
    },
    "required": ["city"],
    "additionalProperties": False,
}  # fmt: skip
FREE = {"type": "object", "properties": {"a": {"type": "string"}}}


def check(text: str, schema: Any = CITY, validators: Validators | None = None) -> tuple[dict[str, Any] | None, str]:
    call = ToolCall(id="c", name="t", arguments=text)
    return checked(call, ToolSpec(name="t", parameters=schema), validators or Validators())


@pytest.mark.parametrize(
    ("text", "schema", "arguments"),
    [
        ('{"city": "Rome"}', CITY, {"city": "Rome"}),
        (' {"city":"Rome","days":3.0,"note":null} ', CITY, {"city": "Rome", "days": 3.0, "note": None}),
        ("", FREE, {}),
        (" \n", FREE, {}),
        ("null", FREE, {}),
        ("{}", FREE, {}),
        ('{"b": 1}', FREE, {"b": 1}),
        ('{"n": 123456789012345678901234567890}', {}, {"n": 123456789012345678901234567890}),
        ('{"n": 18446744073709551615}', {"properties": {"n": {"type": "integer"}}}, {"n": 2**64 - 1}),
        ('{"a": "\\ud83d\\ude00"}', FREE, {"a": "😀"}),
        ('{"a": "x"}', MappingProxyType(FREE), {"a": "x"}),
    ],
)
def test_arguments_that_fit_are_given_as_they_are(text: str, schema: Any, arguments: dict[str, Any]) -> None:
    found = check(text, schema)
    assert found == (arguments, "")
    assert repr(found[0]) == repr(arguments)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{not json", "at character 1"),
        ('{"city": "Rome"', "at character 15"),
        ('{"city": "Rome"} and more', "at character 17"),
        ('{"city": "Rome",}', "at character 15"),
        ("```json\n{}\n```", "at character 0"),
        ('{"n": NaN}', "at character"),
        ('{"n": 1e999}', "at character"),
        ('{"n": "\\ud83d"}', "at character"),
        ('{"n": "\ud83d"}', "They were"),
        ("[" * 5000, "at character"),
        ('{"n": ' + "1" * 5000 + "}", "at character"),
        ("[1]", "it is an array"),
        ('"{}"', "it is a text"),
        ("3", "it is a number"),
        ("false", "it is true or false"),
    ],
)
def test_what_is_no_json_object_never_runs_and_is_shown_shortened(text: str, why: str) -> None:
    for schema in (CITY, FREE, {}):
        arguments, told = check(text, schema)
        assert arguments is None
        assert told.startswith("The arguments are not a JSON object, so nothing was run: ")
        assert why in told
        assert len(told) < 1500
        told.encode()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "- city: is required"),
        ("null", "- city: is required"),
        ("{}", "- city: is required"),
        ('{"city": "Rome", "dais": 3}', "- dais: is not a parameter; known are: city, days, unit, stops, note, place"),
        ('{"city": 7}', '- city: is not of type "string" (it was: 7)'),
        ('{"city": "R"}', '- city: is shorter than 2 characters (it was: "R")'),
        ('{"city": "rome"}', '- city: does not match "^[A-Z]" (it was: "rome")'),
        ('{"city": "Rome", "days": "3"}', '- days: is not of type "integer" (it was: "3")'),
        ('{"city": "Rome", "days": 15}', "- days: is greater than the maximum of 14 (it was: 15)"),
        ('{"city": "Rome", "unit": "K"}', '- unit: is not one of "C" or "F" (it was: "K")'),
        ('{"city": "Rome", "stops": [{"at": 1}, {}]}', "- stops[1].at: is required"),
        ('{"city": "Rome", "stops": [{"at": "x"}]}', '- stops[0].at: is not of type "number" (it was: "x")'),
        ('{"city": "Rome", "note": 3}', '- note: is not of type "string", and is not of type "null" (it was: 3)'),
        (
            '{"city": "Rome", "place": {"x": "y"}}',
            '- place: is not of type "integer", and x is not of type "number" (it was: {"x":"y"})',
        ),
    ],
)
def test_what_does_not_fit_is_told_with_its_path_and_what_was_expected(text: str, line: str) -> None:
    arguments, told = check(text)
    assert arguments is None
    assert told.splitlines() == [HEAD, line]


@pytest.mark.parametrize(
    ("schema", "text", "line"),
    [
        ({"additionalProperties": False}, '{"a": 1}', "- a: is not a parameter: the tool takes none"),
        ({"properties": {"a": False}}, '{"a": 1}', "- a: must not be given"),
        ({"properties": {"a": {"additionalProperties": False}}}, '{"a": {"b": 1}}', "- a.b: is not a parameter here"),
        ({"minProperties": 1}, "", "- (arguments): has less than 1 property (it was: {})"),
        ({"properties": {"a": {"not": {"type": "string"}}}}, '{"a": "x"}', "- a: "),
    ],
)
def test_other_rules_are_told_too(schema: dict[str, Any], text: str, line: str) -> None:
    assert line in check(text, schema)[1]


def test_five_complaints_are_told_with_those_at_the_top_first_and_none_is_long() -> None:
    stops = [{"at": "y" * 5000}] * 9
    arguments, told = check(json.dumps({"stops": stops, "x" * 5000: 1, "days": "z" * 5000, "unit": ["u"] * 500}))
    assert arguments is None
    head, *lines = told.splitlines()
    assert head == HEAD
    assert lines[0] == "- city: is required"
    assert lines[-1] == "- and 8 more"
    assert len(lines) == 6
    assert max(map(len, lines)) <= 202
    assert len(told) <= 1500


@pytest.mark.parametrize("name", [*REFUSED, "a bad type", "a bad draft", "no schema", "no JSON"])
def test_a_schema_that_cannot_be_used_is_not_checked_against_and_said_so_once(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    odd: dict[str, Any] = {
        "a bad type": {"type": "strin"},
        "a bad draft": {"$schema": "http://127.0.0.1:9/x"},
        "no schema": {"type": "object", "properties": 3},
        "no JSON": {"properties": {"a": {"const": object()}}},
    }
    schema, validators = {**REFUSED, **odd}[name], Validators()
    with caplog.at_level(logging.DEBUG, module.__name__):
        for _ in range(2):
            assert check('{"a": 1}', schema, validators) == ({"a": 1}, "")
    assert len(caplog.records) == 1
    assert "127.0.0.1" not in caplog.text


def test_without_a_usable_schema_nothing_given_still_needs_that_nothing_is_required() -> None:
    schema = {"type": "strin", "required": ["a", 3]}
    for text in ("", "null"):
        assert check(text, schema) == (None, f"{HEAD}\n- a: is required")
    assert check("{}", schema) == ({}, "")
    assert check("", {"type": "strin", "required": "a"}) == ({}, "")


def test_a_schema_that_would_take_for_ever_takes_no_time() -> None:
    deep: dict[str, Any] = {}
    for _ in range(60):
        deep = {"a": deep}
    assert check("{}", laughs(60)) == check("{}", laughs(28)) == ({}, "")
    again = {"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
    assert check(json.dumps(deep), again) == (deep, "")


def test_a_check_that_would_cost_too_much_is_left_out_or_told_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"properties": {"a": {"items": {"type": "string"}}}}
    text = json.dumps({"a": list(range(1000))})
    monkeypatch.setattr(module, "LARGEST_SEARCH", 1000)
    assert check(text, schema) == (None, "The arguments do not fit the tool's JSON Schema.")
    monkeypatch.setattr(module, "LARGEST_CHECK", 1000)
    assert check(text, schema)[0] is not None


def test_arguments_of_more_values_than_any_tool_needs_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_VALUES", 1000)
    assert check(json.dumps({"a": [0] * 1001}), {}) == (
        None,
        "The arguments have more than 1000 values, so nothing was run.",
    )
    assert check(json.dumps({"a": "[,{:" * 1001}), {})[0] is not None


def test_commas_in_a_text_are_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_SEARCH", 1000)
    told = check(json.dumps({"city": "R,:[{" * 1000, "days": "x"}))[1]
    assert told == f'{HEAD}\n- days: is not of type "integer" (it was: "x")'


LOOKS_AROUND = {
    "a password rule": r"^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)(?=.*[^\w]).{8,64}$",
    "a look behind": r"(?<!x)y$",
    "a word that comes again": r"^(\w+) \1$",
    "one that looks and goes back": r"(?=(a+)+b)\1",
    "no pattern": "(",
    "a huge one": r"^(?:\p{L}{1,500} ){1,500}$",
}


@pytest.mark.parametrize("name", LOOKS_AROUND)
def test_a_pattern_that_cannot_be_matched_in_one_pass_is_left_out_and_the_rest_of_the_schema_counts(name: str) -> None:
    a = {"type": "string", "pattern": LOOKS_AROUND[name]}
    schema = {"properties": {"a": a, "b": {"type": "integer"}}}
    assert check(json.dumps({"a": "aX" * 100_000 + "!"}), schema)[1] == ""
    assert "- a: is not of type" in check('{"a": 1}', schema)[1]
    assert "- b: is not of type" in check('{"a": "x", "b": "y"}', schema)[1]


def test_what_is_left_out_never_makes_right_arguments_wrong() -> None:
    odd = "^(?!x)"
    for schema in (
        {"patternProperties": {odd: {"type": "integer"}}, "additionalProperties": False},
        {"allOf": [{"patternProperties": {odd: {}}}], "unevaluatedProperties": False},
        {"properties": {"a": {"not": {"pattern": odd}}}},
        {"properties": {"a": {"oneOf": [{"pattern": odd}, {"type": "integer"}, {"type": "string"}]}}},
        {"if": {"properties": {"a": {"pattern": odd}}}, "then": False},
        {"propertyNames": {"pattern": odd}},
    ):
        assert check('{"a": "x"}', schema) == ({"a": "x"}, "")


def test_a_long_text_is_not_matched_with_patterns_and_the_rest_of_the_schema_counts() -> None:
    a = {"type": "string", "pattern": "^[01]*1[01]{100}$", "maxLength": 500_000}
    schema = {"properties": {"a": a, "b": {"format": "uri", "type": "string"}}, "required": ["a"]}
    assert "does not match" in check(json.dumps({"a": "01x"}), schema)[1]
    assert check(json.dumps({"a": "x" * 200_000}), schema)[1] == ""
    assert "- b: is not of type" in check(json.dumps({"a": "x" * 200_000, "b": 1}), schema)[1]


HARD: dict[str, tuple[dict[str, Any], Any]] = {
    "nested repetition": ({"properties": {"a": {"pattern": "(a++)+b"}}}, {"a": "a" * 100_000}),
    "a wide automaton": ({"properties": {"a": {"pattern": "[01]*1[01]{100}2"}}}, {"a": "0110" * 30_000}),
    "what is looked at again": ({"properties": {"x": {}}}, {"x": 1}),
    "many formats": ({"allOf": [{"additionalProperties": {"format": "idn-hostname"}}] * 200}, {"a": "日" * 100_000}),
    "all wrong": (
        {"additionalProperties": {"items": {"anyOf": [{"type": "integer", "minimum": n} for n in range(100)]}}},
        {"a": ["x"] * 2000},
    ),
    "all nearly right": (
        {"additionalProperties": {"items": {"enum": [{"a": "x" * 40 + str(n)} for n in range(900)]}}},
        {"a": [{"a": "x" * 40 + "!"}] * 2000},
    ),
    "many values": (
        {"additionalProperties": {"uniqueItems": True, "items": {"items": {}}}},
        {"a": [[n] for n in range(20_000)]},
    ),
}  # fmt: skip
HARD["what is looked at again behind references"] = (
    {
        "$ref": "#/$defs/0",
        "$defs": {
            str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}], "unevaluatedProperties": False, "properties": {"x": {}}}
            for n in range(25)
        }
        | {"25": {"properties": {"x": {"$ref": "#/$defs/0"}}}},
    },
    {"x": 1},
)
HARD["alternatives inside themselves"] = (
    {"$ref": "#/$defs/T", "$defs": {"T": {"anyOf": [{"properties": {"x": {"$ref": "#/$defs/T"}}}] * 12}}},
    json.loads('{"x":' * 40 + "1" + "}" * 40),
)
HARD["a long way down"] = (
    {"$ref": "#/$defs/T", "$defs": {"T": {"properties": {"x": {"$ref": "#/$defs/T"}}, "type": "object"}}},
    HARD["alternatives inside themselves"][1],
)
for _ in range(25):
    T: dict[str, Any] = HARD["a long way down"][0]["$defs"]
    T["T"] = {"anyOf": [T["T"]]}
for _ in range(30):
    HARD["what is looked at again"] = (
        {"allOf": [HARD["what is looked at again"][0]], "unevaluatedProperties": False},
        {"x": 1},
    )


@pytest.mark.parametrize("name", HARD)
def test_no_schema_and_no_arguments_together_are_much_work(name: str) -> None:
    schema, arguments = HARD[name]
    text = json.dumps(arguments)
    check("{}", schema, validators := Validators())
    assert least_work(lambda: check(text, schema, validators)) < LONGEST_TURN


def test_the_cache_is_bounded_and_keeps_what_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_ = module._compile

    def count(spec: ToolSpec, text: bytes) -> Any:
        compiled.append(text.decode())
        return compile_(spec, text)

    monkeypatch.setattr(module, "_compile", count)
    monkeypatch.setattr(module, "MOST_SCHEMAS", 2)
    validators = Validators()
    for number in (1, 2, 1, 3, 1, 2):
        check("{}", {"minProperties": 0, "maxProperties": number}, validators)
    assert [text[-2] for text in compiled] == ["1", "2", "3", "2"]
    assert len(validators._kept) == 2
    monkeypatch.setattr(module, "LARGEST_CACHE", 10)
    check("{}", {"enum": [{}, "x" * 1000]}, validators)
    assert len(validators._kept) == 1
    check("{}", {"minProperties": 0}, validators)
    assert len(validators._kept) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.sampled_from("ab"), inner, max_size=4),
    max_leaves=12,
)
WORDS = st.sampled_from([
    "type", "properties", "required", "items", "anyOf", "oneOf", "allOf", "not", "enum", "const", "pattern", "$ref",
    "$id", "$schema", "additionalProperties", "patternProperties", "minimum", "multipleOf", "minLength", "format",
    "dependencies", "if", "then", "unevaluatedProperties", "propertyNames", "contains", "$defs", "$dynamicRef", "a",
])  # fmt: skip
VALUES: st.SearchStrategy[Any] = st.sampled_from([
    "object", "string", "integer", "#", "#/$defs/a", "#/a", "^a", "(?!a)(a+)+$", "(", "http://127.0.0.1:9/x", "date",
    ["a"], ["object", "null"], True, False, 0, -1, 0.5, 2**70, {}, [], None,
])  # fmt: skip
SCHEMAS = st.recursive(
    VALUES, lambda inner: st.dictionaries(WORDS, inner, max_size=4) | st.lists(inner, max_size=3), max_leaves=15
)


@given(st.text() | JSON.map(json.dumps), st.dictionaries(WORDS, SCHEMAS, max_size=5))
@example("{}", {"multipleOf": 0})
@example('{"a": -1e-320}', {"properties": {"a": {"multipleOf": 0.5}}})
def test_no_text_and_no_schema_raises(text: str, schema: dict[str, Any]) -> None:
    arguments, told = check(text, schema)
    assert (arguments is None) == bool(told)
    assert len(told) <= 1500
    told.encode()

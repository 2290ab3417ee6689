"""A tool's arguments, filled from the question and from earlier results, for the keyless model.

A value is sure where it is named for the parameter (`cargo C-001`), begins like a code in its
description, is quoted, follows in, at or about, or stands in a result under the parameter's key; else
it is a guess. Schemas come from clients: what is read of one is capped, its `pattern` is never tried.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from agent_core.models.keyless.task import Outcome, leaves_of
from agent_core.models.keyless.words import (
    LONGEST_TEXT,
    STOP_WORDS,
    Value,
    chinese_besides,
    is_chinese,
    listed,
    parts_of,
    phrases_in,
    stem,
    values_in,
    words_of,
)

MOST_PARAMETERS, MOST_CHOICES, MOST_EXAMPLES, MOST_RESULTS, MOST_STEPS = 16, 100, 16, 8, 4
LONGEST_DESCRIPTION, LONGEST_NAME = 300, 100

READ = ("type", "description", "enum", "const", "items")
CODE_PARTS = listed("id ids no nr num number code key ref reference uuid")
NAME_PARTS = listed("name title label")
EXAMPLES_FOLLOW = r"(?i)such as|e\.g\.|for example|examples?:|例如|比如|如"

Key = tuple[str, str]
"""What a name is about, and how: `voyageNo` is the stem of `voyage`, and `id`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """What is read of a parameter. `choices`: the only values that it takes, None for any.

    `examples` are those of its description, and `heads` is how they begin: letters for a code, None for
    what is none. `hints`: the Chinese words of its description.
    """

    name: str
    key: Key
    required: bool
    type: str
    many: bool
    choices: tuple[Any, ...] | None
    examples: tuple[str, ...]
    heads: frozenset[str | None]
    words: frozenset[str]
    hints: frozenset[str]

    @property
    def is_free(self) -> bool:
        """Whether any text will do, and so the whole question."""
        return self.type == "string" and self.key[1] != "id" and self.choices is None and not self.heads

    def fits(self, value: Value) -> bool:
        """Whether the value is a code where the examples are codes, and none where they are none."""
        return not self.heads or (None in self.heads if value.head is None else self.heads != {None})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where values come from. `said`: the question's words and short phrases; `found`: the values of results
    by key; `taken`: what a text was used for already.
    """

    question: str
    said: frozenset[str]
    values: tuple[Value, ...]
    phrases: tuple[tuple[str, str], ...]
    found: Mapping[Key, Sequence[Any]]
    taken: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """The arguments, those of them that are `guessed`, and the required parameters that found no value."""

    arguments: Mapping[str, Any]
    guessed: frozenset[str]
    missing: tuple[str, ...]


def key_of(name: str) -> Key:
    parts = parts_of(name[:LONGEST_NAME])
    how = "id" if CODE_PARTS.intersection(parts) else "name" if NAME_PARTS.intersection(parts) else ""
    return " ".join(stem(part) for part in parts if part not in CODE_PARTS | NAME_PARTS), how


def read_parameters(schema: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """The first MOST_PARAMETERS parameters of a tool, the required ones first.

    Where all of them are required there may be more, and the tool had better not be called.
    """
    properties, names = schema.get("properties"), schema.get("required")
    properties = properties if isinstance(properties, Mapping) else {}
    required = dict.fromkeys(each for each in names if isinstance(each, str)) if isinstance(names, list | tuple) else {}
    order = islice(dict.fromkeys((*required, *properties)), MOST_PARAMETERS)
    return tuple(_read(name, _resolve(properties.get(name), schema), schema, name in required) for name in order)


def _read(name: str, schema: Mapping[str, Any], root: Mapping[str, Any], required: bool) -> Parameter:
    text, kind = schema.get("description"), _type(schema)
    described = text[:LONGEST_DESCRIPTION] if isinstance(text, str) else ""
    if many := kind == "array":
        schema = _resolve(schema.get("items"), root)
        kind = _type(schema)
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    words = words_of(f"{name[:LONGEST_NAME]} {described}")
    marker = re.search(EXAMPLES_FOLLOW, described)
    shown = values_in(described[marker.start() :]) if marker else ()
    examples = [each for each in shown if each.kind in ("quoted", "code", "name")]
    return Parameter(
        name=name,
        key=key_of(name),
        required=required,
        type=kind,
        many=many,
        choices=tuple(filter(_is_short, choices[:MOST_CHOICES])) if isinstance(choices, list) else None,
        examples=tuple(each.text for each in examples),
        heads=frozenset(each.head for each in examples),
        words=words,
        hints=frozenset(filter(is_chinese, words)),
    )


def _resolve(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that its `$ref`, or its first alternative that is not null, leads to, with its own description."""
    found: dict[str, Any] = {}
    for _ in range(MOST_STEPS):
        if isinstance(schema, Mapping):
            found |= {key: schema[key] for key in READ if key in schema and key not in found}
            reference, definitions = schema.get("$ref"), root.get("$defs")
            if isinstance(reference, str) and isinstance(definitions, Mapping):
                schema = definitions.get(reference.rpartition("/")[2])
            else:
                schema = next((each for each in _some(schema.get("anyOf")) if each != {"type": "null"}), None)
    return found


def _type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "string")
    kind = next((each for each in _some(kind) if each != "null"), kind)
    return kind if isinstance(kind, str) else "string"


def _some(value: Any) -> list[Any]:
    return value[:MOST_EXAMPLES] if isinstance(value, list) else []


def _is_short(choice: Any) -> bool:
    return not isinstance(choice, str) or 0 < len(choice) <= LONGEST_NAME


def read_sources(question: str, results: Sequence[Outcome], taken: Mapping[str, str]) -> Sources:
    """Read the question, and the latest MOST_RESULTS of the results that are good."""
    found: dict[Key, list[Any]] = {}
    for result in [each for each in reversed(results) if each.status == "ok"][:MOST_RESULTS]:
        for path, leaf in leaves_of(result.data):
            for key in _keys(path, result.tool):
                if len(leaves := found.setdefault(key, [])) < MOST_EXAMPLES:
                    leaves.append(leaf)
    words = re.findall(r"[a-z0-9]+(?:[-_.][a-z0-9]+)*", question[:LONGEST_TEXT].casefold())
    said = (" ".join(words[i : i + size]) for size in (1, 2, 3) for i in range(len(words) + 1 - size))
    return Sources(
        question=question,
        said=frozenset(said) - STOP_WORDS,
        values=values_in(question),
        phrases=tuple(phrases_in(question)),
        found=found,
        taken=taken,
    )


def _keys(path: tuple[str, ...], tool: str) -> Iterator[Key]:
    about, how = key_of(path[-1]) if path else ("", "")
    if about:
        yield about, how
    elif how:  # `{"contracts": [{"id": …}]}` is a contract's id, and `{"id": …}` of a tool about cargo a cargo's.
        parents = [key_of(path[-2])[0]] if len(path) > 1 else map(stem, parts_of(tool))
        yield from ((parent, how) for parent in parents)
        yield "", how


def fill(parameters: Sequence[Parameter], known: frozenset[str], sources: Sources) -> Filled:
    """Fill the parameters: surely where that can be, and the required ones else by guessing.

    `known` holds the tool's own words, which are no values. A text of the question serves one parameter.
    """
    required = [each for each in parameters if each.required]
    alone = sum(each.is_free for each in required) == 1 and not sources.taken
    found: dict[str, Any] = {}
    spent: list[Any] = []
    for each in parameters:
        _take(each, _sure(each, sources), found, spent)
    sure = frozenset(found)
    for each in required:
        about = each.key[0]
        guesses = _guesses(each, known, sources, alone) if each.name not in sure else iter(())
        _take(each, (text for text in guesses if sources.taken.get(text, about) == about), found, spent)
    return Filled(
        arguments={each.name: found[each.name] for each in parameters if each.name in found},
        guessed=frozenset(found) - sure,
        missing=tuple(each.name for each in required if each.name not in found),
    )


def _take(parameter: Parameter, options: Iterator[Any], found: dict[str, Any], spent: list[Any]) -> None:
    for option in options:
        value = option if parameter.choices is not None else convert(option, parameter.type)
        if value is not None and option not in spent:
            spent.append(option)
            found[parameter.name] = [value] if parameter.many else value
            return


def _sure(parameter: Parameter, sources: Sources) -> Iterator[Any]:
    about, how = parameter.key
    leaves = (
        each
        for other in dict.fromkeys((how, "", *(() if how else ("id", "name"))))
        for each in sources.found.get((about, other), ())
    )
    if parameter.choices is not None:
        yield from (each for each in parameter.choices if _is_named(each, sources))
        yield from (each for each in leaves if each in parameter.choices)
        yield from parameter.choices if parameter.required and len(parameter.choices) == 1 else ()
        return
    fitting = [each for each in sources.values if parameter.fits(each)]
    for value in fitting:
        cued = about and value.cue == about.rpartition(" ")[2]
        if cued or (value.head is not None and value.head in parameter.heads):
            yield value.text
    yield from (each for each in parameter.examples if _is_named(each, sources))
    yield from leaves
    if parameter.type == "string":
        names = {each.text for each in fitting if each.kind == "name" and how != "id"}
        yield from (each.text for each in fitting if each.kind == "quoted")
        yield from (text for word, text in sources.phrases if word in ("in", "at", "about") and text in names)


def _guesses(parameter: Parameter, known: frozenset[str], sources: Sources, alone: bool) -> Iterator[str]:
    kinds: tuple[str, ...] = ("number",)
    if parameter.type == "string":
        kinds = ("code", "number") if parameter.key[1] == "id" else ("name", "code", "date")
    if parameter.choices is None:
        fitting = [each for each in sources.values if parameter.fits(each)]
        yield from (each.text for kind in kinds for each in fitting if each.kind == kind)
    if parameter.is_free:
        yield from (text for _, text in sources.phrases if not words_of(text) <= known)
        yield from chinese_besides(sources.question, known)
        if alone:  # A later link of a chain is no place for the whole question.
            yield sources.question


def _is_named(word: Any, sources: Sources) -> bool:
    text = word.casefold() if isinstance(word, str) else str(convert(word, "number"))
    return text in sources.said if text.isascii() else text in sources.question[:LONGEST_TEXT]


def convert(value: Any, kind: str) -> Any:
    """The value as a plain JSON type, or None where it cannot be one."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return value if isinstance(value, bool) and kind == "boolean" else None
    if kind == "string":
        return str(value) or None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if number.is_integer() and kind in ("integer", "number"):
        return value if isinstance(value, int) else int(number)
    return number if math.isfinite(number) and kind == "number" else None

"""Arguments of a tool for the keyless model, taken from the question and from earlier results.

A value is sure in four cases; otherwise it is a guess:

- the question names the parameter in front of it (`cargo C-001`)
- it is quoted
- it is a name behind in, at or about
- a result has it under the parameter's key

Schemas come from clients. So only a part of a large one is read, and its `pattern` is never tried.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_core.models.keyless.samples import properties_in, required_in, resolved, type_of
from agent_core.models.keyless.task import Outcome, leaves_of
from agent_core.models.keyless.words import (
    STOP_WORDS,
    Value,
    chinese_besides,
    han_runs,
    parts_of,
    stem,
    values_in,
)

MOST_PARAMETERS, MOST_CHOICES, MOST_EXAMPLES, MOST_RESULTS, LONGEST_DESCRIPTION, LONGEST_NAME = 16, 100, 16, 8, 300, 100

CODE_PARTS = frozenset(("id", "ids", "no", "nr", "number", "code", "key", "ref", "reference", "uuid"))
NAME_PARTS = frozenset(("name", "title", "label"))
EXAMPLES_FOLLOW = r"(?i)such as|e\.g\.|for example|例如|如"
KINDS = {
    "id": ("quoted", "code", "number"),
    "number": ("number",),
    "text": ("quoted", "name", "code", "date", "phrase"),
}

Key = tuple[str, str]
"""The subject of a name, and its role: for `voyageNo` the stem of `voyage`, and `id`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parameter:
    """A parameter. Its schema has no references at the top."""

    name: str
    key: Key
    required: bool
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The sources of values.

    - said: the question's words, between blanks
    - chinese: its runs of Chinese
    - values: the values in it
    - found: the values in results, by key
    - taken: the texts that were used already, each with its parameter's key
    """

    question: str
    said: str
    chinese: Sequence[str]
    values: Sequence[Value]
    found: Mapping[Key, Sequence[Any]]
    taken: Mapping[Any, Key]

    def name(self, word: Any) -> bool:
        """Whether the question has the word."""
        text = str(word).casefold()
        return text not in STOP_WORDS and (f" {text} " in self.said if text.isascii() else text in self.question)


def key_of(name: str) -> Key:
    parts = parts_of(name[:LONGEST_NAME])
    how = "id" if CODE_PARTS.intersection(parts) else "name" if NAME_PARTS.intersection(parts) else ""
    return " ".join(stem(part) for part in parts if part not in CODE_PARTS | NAME_PARTS), how


def read_parameters(schema: Mapping[str, Any]) -> list[Parameter]:
    """The first MOST_PARAMETERS parameters of a tool, the required ones first.

    If all of them are required, there may be more, and the tool should not be called.
    """
    properties, required = properties_in(schema), required_in(schema)
    order = [*dict.fromkeys((*required, *list(properties)[:MOST_PARAMETERS]))][:MOST_PARAMETERS]
    schemas = {name: resolved(properties.get(name), schema) for name in order}
    return [
        Parameter(
            name=name,
            key=key_of(name),
            required=name in required,
            description=str(schema.get("description", ""))[:LONGEST_DESCRIPTION],
            schema=schema,
        )
        for name, schema in schemas.items()
    ]


def read_sources(question: str, results: Sequence[Outcome], before: Sequence[Outcome]) -> Sources:
    """Read the question, and the latest MOST_RESULTS good results. `before` are the calls that were made for it."""
    found: dict[Key, list[Any]] = {}
    for result in [each for each in reversed(results) if each.status == "ok"][:MOST_RESULTS]:
        for path, leaf in leaves_of(result.data):
            for key in _keys(path, result.tool):
                found.setdefault(key, []).append(leaf)
    return Sources(
        question=question,
        said=f" {' '.join(re.findall(r'[a-z0-9]+(?:[-_.][a-z0-9]+)*', question.casefold()))} ",
        chinese=han_runs(question),
        values=values_in(question),
        found={key: leaves[:MOST_EXAMPLES] for key, leaves in found.items()},
        taken={
            value: key_of(name) for each in before for name, value in each.arguments.items() if isinstance(value, str)
        },
    )


def _keys(path: tuple[str, ...], tool: str) -> list[Key]:
    """The keys of a value in a result. `{"contracts": [{"id": …}]}` has a contract's id. `{"id": …}` has a cargo's id
    if the tool's name is about cargo."""
    about, how = key_of(path[-1]) if path else ("", "")
    names = path[-2:-1] or parts_of(tool)
    return [(about, how)] if about or not how else [(key_of(each)[0], how) for each in names]


def fill(parameters: Sequence[Parameter], known: frozenset[str], sources: Sources) -> tuple[dict[str, Any], list[str]]:
    """The arguments that were found, and the names of the required parameters without a sure value.

    Such a parameter has a guess or nothing. `known` are the tool's own words, since they are no values. A text of the
    question is used for one parameter only.
    """
    found: dict[str, Any] = {}
    spent: list[Any] = []
    alone = sum(each.required for each in parameters) == 1 and not sources.taken
    options = {each: [*_options(each, known, sources, alone)] for each in parameters}
    for each in parameters:
        _take(each, [value for is_sure, value in options[each] if is_sure], found, spent)
    unsure = [each for each in parameters if each.required and each.name not in found]
    for each in unsure:
        _take(
            each, [value for _, value in options[each] if sources.taken.get(value, each.key) == each.key], found, spent
        )
    return {each.name: found[each.name] for each in parameters if each.name in found}, [each.name for each in unsure]


def _take(parameter: Parameter, options: Sequence[Any], found: dict[str, Any], spent: list[Any]) -> None:
    values = ((option, convert(option, type_of(parameter.schema))) for option in options if option not in spent)
    for option, value in values:
        if value is not None:
            found[parameter.name] = value
            spent.append(option)
            return


def _options(parameter: Parameter, known: frozenset[str], sources: Sources, alone: bool) -> Iterator[tuple[bool, Any]]:
    """The values that may be meant, the best first, each with whether it is sure."""
    (about, how), schema = parameter.key, parameter.schema
    leaves = [
        leaf for each in ((how, "") if how else ("", "id", "name")) for leaf in sources.found.get((about, each), ())
    ]
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(choices, list):
        choices = [
            each for each in choices[:MOST_CHOICES] if isinstance(each, str | int) and len(str(each)) <= LONGEST_NAME
        ]
        only = choices if parameter.required and len(choices) == 1 else []
        yield from ((True, each) for each in (*filter(sources.name, choices), *leaves, *only) if each in choices)
        return
    examples = re.split(EXAMPLES_FOLLOW, parameter.description, maxsplit=1)[1:]
    shown = [each.text for each in values_in("".join(examples)) if each.kind != "phrase"]
    cued = [each.text for each in sources.values if about and each.cue == about.rpartition(" ")[2]]
    yield from ((True, each) for each in (*cued, *filter(sources.name, shown), *leaves))
    kinds = KINDS["number" if type_of(schema) != "string" else "id" if how == "id" else "text"]
    for kind in kinds:
        values = [each for each in sources.values if each.kind == kind]
        inside = [
            each for each in values if each.kind == "quoted" or (kind == "name" and each.cue in ("in", "at", "about"))
        ]
        yield from ((True, each.text) for each in inside)
        yield from ((False, each.text) for each in values if kind in ("number", "date") or not each.words <= known)
    if "phrase" in kinds:
        yield from ((False, each) for each in chinese_besides(sources.chinese, known))
        yield from [(False, sources.question)] if alone and not shown else []


def convert(value: Any, kind: str) -> Any:
    """The value as this JSON type, or None if it cannot be one."""
    if isinstance(value, bool) or kind == "boolean":
        return value if isinstance(value, bool) and kind == "boolean" else None
    if kind in ("integer", "number") and re.fullmatch(r"-?\d{1,18}(?:\.\d{1,18})?", str(value)):
        return int(float(value)) if float(value).is_integer() else float(value) if kind == "number" else None
    return str(value) if kind == "string" and value != "" else None

"""A tool's arguments, filled from the question and from earlier results, for the keyless model.

How sure a value is decides when it may be used: `SURE` is named for the parameter (`cargo C-001`), has
the shape of an example in its schema, or comes from a result under the parameter's key; `LIKELY` is
quoted or follows in, at or about; `GUESS` is anything else that could fit.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_core.models.fake.fit import (
    CODE_PARTS,
    DEEPEST,
    GUESS,
    LIKELY,
    SURE,
    convert,
    core_of,
    examples_of,
    fit,
    grade_of,
    is_cued,
    is_named,
    leaves_of,
    members_of,
    required_of,
    resolve,
    type_of,
    wants_date,
    with_examples,
)
from agent_core.models.fake.words import Value, listed, parts_of, phrases_in
from agent_core.tools.base import ToolSpec

SEARCH_PARTS = listed("query q search keyword keywords term topic")
TEXT_PARTS = listed("text question message content input prompt sentence")
SOUGHT = r"\b(?:for|about)\s+([^?!。？！\n]+?)\s*[.?!。？！]*\s*$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A successful result: whose it is, its data where it is JSON, else its text and the values in it."""

    tool: str
    data: Any = None
    text: str = ""
    values: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where values come from. `values`: the question's. `results`: latest first. `taken`: what parameter
    a value was used for.
    """

    question: str
    values: tuple[Value, ...] = ()
    results: tuple[Result, ...] = ()
    taken: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """The arguments, the required parameters that found no value, and whether a result gave one."""

    arguments: dict[str, Any]
    missing: tuple[str, ...] = ()
    from_results: bool = False


def fill(tool: ToolSpec, known: frozenset[str], sources: Sources, least: int) -> Filled:
    """Fill the tool's parameters with values that are at least as sure as `least`.

    `known` holds the tool's own words. An optional parameter needs a sure value from the question.
    """
    properties = members_of(tool.parameters, "properties")
    required = required_of(tool.parameters)
    free = [name for name in required if is_free(resolve(properties.get(name), tool.parameters))]
    filler = _Filler(tool=tool, known=known, sources=sources, least=least, alone=len(free) == 1)
    arguments: dict[str, Any] = {}
    missing = []
    for name in required:
        found = filler.find(name, resolve(properties.get(name), tool.parameters))
        if found is None:
            missing.append(name)
        else:
            arguments[name] = found
    optional = [name for name in properties if name not in required]
    for name in optional:
        found = filler.find_optional(name, resolve(properties[name], tool.parameters), not required, len(optional))
        if found is not None:
            arguments[name] = found
    return Filled(arguments=arguments, missing=tuple(missing), from_results=filler.from_results)


def is_free(schema: Mapping[str, Any]) -> bool:
    """Whether the schema takes any text."""
    return type_of(schema) == "string" and not schema.keys() & {"enum", "const"}


@dataclass(slots=True, kw_only=True)
class _Filler:
    tool: ToolSpec
    known: frozenset[str]
    sources: Sources
    least: int
    alone: bool
    spent: set[str] = field(default_factory=set)
    from_results: bool = False

    def find(self, name: str, schema: Mapping[str, Any], depth: int = 0) -> Any:
        kind, schema = type_of(schema), with_examples(schema)
        if depth > DEEPEST:
            return None
        if kind == "array":
            item = self.find(name, resolve(schema.get("items"), self.tool.parameters), depth + 1)
            return None if item is None else [item]
        if kind == "object":
            return self._find_object(schema, depth)
        found = self._find_sure(name, schema)
        if found is None and (found := self._find_result(name, schema)) is not None:
            self.from_results = True
        if found is None and self.least < SURE and not schema.keys() & {"enum", "const"}:
            found = self._find_unbound(name, schema)
        return found

    def find_optional(self, name: str, schema: Mapping[str, Any], lonely: bool, count: int) -> Any:
        if type_of(schema) in ("array", "object"):
            return None
        schema = with_examples(schema)
        found = self._find_sure(name, schema)
        if found is None and lonely and count == 1 and is_free(schema):
            named = (each for each in self.sources.values if each.kind in ("quoted", "name"))
            found = next((each.text for each in named if fit(each.text, schema)), None)
        return found

    def _find_object(self, schema: Mapping[str, Any], depth: int) -> Any:
        properties, found = members_of(schema, "properties"), {}
        for name in required_of(schema):
            value = self.find(name, resolve(properties.get(name), self.tool.parameters), depth + 1)
            if value is None:
                return None
            found[name] = value
        return found or None

    def _find_sure(self, name: str, schema: Mapping[str, Any]) -> Any:
        question = self.sources.question
        if "const" in schema:
            return schema["const"]
        if isinstance(members := schema.get("enum"), list):
            return next((each for each in members if is_named(each, question)), None)
        texts = [(question, self.sources.values), *((each.text, each.values) for each in self.sources.results)]
        for text, values in texts:
            if wants_date(name, schema):
                sure = [each.text for each in values if each.kind == "date"]
            else:
                cued = [each.text for each in values if is_cued(name, each, text) and fit(each.text, schema)]
                sure = cued + [each.text for each in values if fit(each.text, schema) == SURE]
                sure += [each for each in examples_of(schema) if is_named(each, text)]
            for each in sure:
                if each not in self.spent and (value := convert(each, schema)) is not None:
                    self.spent.add(each)
                    return value
        return None

    def _find_result(self, name: str, schema: Mapping[str, Any]) -> Any:
        best: tuple[int, Any] = (0, None)
        for result in self.sources.results:
            for path, leaf in leaves_of(result.data):
                grade = grade_of(name, path, result.tool)
                if grade > best[0] and (value := convert(leaf, schema)) is not None:
                    members = schema.get("enum")
                    if members is None or value in members:
                        best = (grade, value)
        return best[1]

    def _find_unbound(self, name: str, schema: Mapping[str, Any]) -> Any:
        core = core_of(name)
        if wants_date(name, schema):
            return None
        for surety, text in self._candidates(name, schema):
            free = text not in self.spent and self.sources.taken.get(text, core) == core
            if surety >= self.least and free and (value := convert(text, schema)) is not None:
                self.spent.add(text)
                return value
        return None

    def _candidates(self, name: str, schema: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
        question, parts = self.sources.question, frozenset(parts_of(name))
        values = [each for each in self.sources.values if fit(each.text, schema)]
        yield from ((LIKELY, each.text) for each in values if each.kind == "quoted")
        if type_of(schema) != "string":
            yield from ((GUESS, each.text) for each in values if each.kind == "number")
            return
        whole = self.alone and not examples_of(schema) and not schema.keys() & {"pattern", "format"}
        if whole and parts & TEXT_PARTS:
            yield GUESS, question
        if parts & SEARCH_PARTS and (sought := re.search(SOUGHT, question)):
            yield GUESS, sought.group(1)
        phrases = phrases_in(question, self.known)
        about = [(how, text) for how, text in phrases if fit(text, schema) and not re.fullmatch(r"[\d\W]+", text)]
        if not parts & CODE_PARTS:
            named = {each.text for each in values if each.kind == "name"}
            yield from ((LIKELY, text) for how, text in about if how in ("in", "at", "about") and text in named)
        kinds = ("code", "number", "link") if parts & CODE_PARTS else ("link", "name", "code")
        yield from ((GUESS, each.text) for kind in kinds for each in values if each.kind == kind)
        if parts & CODE_PARTS:
            return
        if not (whole and parts & SEARCH_PARTS):
            yield from ((GUESS, text) for _, text in about)
        if whole and not self.sources.taken:  # A later link of a chain is no place for the whole question.
            yield GUESS, question

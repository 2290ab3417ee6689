"""The keyless model behind `fake:fake`: no network, no key, and the same answer every time.

It takes the tools whose names and descriptions share words with the question, one at a time, and
leads data from one result to the next call. It knows no tool by name, so it serves anybody's. Like a
model it may err; unlike one it thinks only before an answer, in one piece, and answers in one piece.
"""

import hashlib
import json
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from typing import Any

from agent_core.messages import well_formed
from agent_core.models.base import ArgumentsPiece, CallPiece, ModelRequest, Piece, TextPiece, ThinkingPiece
from agent_core.models.fake.answer import answer_of, thought_of
from agent_core.models.fake.arguments import Filled, Result, Sources, fill
from agent_core.models.fake.fit import GUESS, LIKELY, SURE, core_of, members_of, required_of
from agent_core.models.fake.task import Outcome, Task, read_task
from agent_core.models.fake.words import is_chinese, values_in, words_of
from agent_core.models.http import HttpClient
from agent_core.tools.base import ToolSpec

NAME_WEIGHT = 2
SHARE = 0.4
"""The part of a question's words that a description alone must share with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeModel:
    """The model `fake:fake`. It reports no usage and never touches the HTTP client."""

    provider: str = field(default="fake", init=False)
    name: str = field(default="fake", init=False)

    async def stream(self, request: ModelRequest, http: HttpClient) -> AsyncGenerator[Piece, None]:  # noqa: ARG002
        """Ask for one tool, or think once and answer once. Never fails.

        Without tools in the request it says what it has and what is missing.
        """
        task = read_task(request.messages)
        choice = Choice(task, request.tools)
        if call := choice.next_call():
            tool, arguments = call
            yield CallPiece(0, _call_id(task), tool.name)
            if arguments:
                yield ArgumentsPiece(0, _compact(arguments))
            return
        yield ThinkingPiece(well_formed(thought_of(task)))
        yield TextPiece(well_formed(answer_of(task, request.tools, choice.wanting())))


class Choice:
    """Which of the offered tools is next, and with which arguments."""

    __slots__ = (
        "_asked", "_goals", "_helpful", "_known", "_named", "_ranked", "_said", "_scores", "_sources", "_stale",
        "_task",
    )  # fmt: skip

    def __init__(self, task: Task, tools: tuple[ToolSpec, ...]) -> None:
        self._task = task
        self._asked, self._named = words_of(task.question), _named_in(task.question)
        if self._asked <= self._named:  # "And in Rome?" is but a name: what it is about was said before.
            self._asked |= words_of(task.before) - _named_in(task.before)
        self._said = {tool.name: words_of(f"{tool.name} {tool.description}") for tool in tools}
        self._known = {tool.name: _vocabulary(tool) for tool in tools}
        self._scores = {tool.name: self._score(tool) for tool in tools}
        self._sources = _sources(task, task.outcomes)
        self._stale = _sources(task, (*task.earlier, *task.outcomes))
        best = max(self._scores.values(), default=0)
        self._ranked = sorted(tools, key=lambda tool: -self._scores[tool.name])
        self._helpful = [tool for tool in self._ranked if self._scores[tool.name] > 0]
        self._goals = [tool for tool in self._helpful if self._scores[tool.name] * 2 >= best]

    def next_call(self) -> tuple[ToolSpec, dict[str, Any]] | None:
        """The next call, or None where the question can be answered as far as it ever will be."""
        for tool in self._goals:
            if call := self._plan(tool, set(), self._sources):
                return call
        for tool in self._helpful:
            filled = self._fill(tool, self._sources, SURE)
            if filled.from_results and self._is_new(tool, filled):
                return tool, filled.arguments
        if not self._task.outcomes:
            # A follow-up question may speak of what an earlier one found.
            for tool in self._goals:
                if call := self._plan(tool, set(), self._stale):
                    return call
        return None

    def wanting(self) -> tuple[ToolSpec, tuple[str, ...]] | None:
        """The best tool that was not called for want of arguments, and which those are."""
        for tool in self._goals:
            filled = self._fill(tool, self._sources, GUESS)
            if filled.missing and not self._is_done(tool):
                return tool, filled.missing
        return None

    def _plan(self, tool: ToolSpec, seen: set[str], sources: Sources) -> tuple[ToolSpec, dict[str, Any]] | None:
        """The call of the tool, or of one that can provide what it lacks: the surer the earlier."""
        if tool.name in seen or self._is_done(tool):
            return None
        seen.add(tool.name)  # Shared by all branches: each tool is looked at once.
        lacking = self._fill(tool, sources, SURE).missing
        for least, lowest_score in ((SURE, 1), (LIKELY, 0), (GUESS, None)):
            filled = self._fill(tool, sources, least)
            if not filled.missing:
                return (tool, filled.arguments) if self._is_new(tool, filled) else None
            if lowest_score is not None:
                for provider in self._providers(tool, lacking, lowest_score):
                    if call := self._plan(provider, seen, sources):
                        return call
        return None

    def _providers(self, tool: ToolSpec, lacking: tuple[str, ...], lowest_score: int) -> Iterator[ToolSpec]:
        """Tools that speak of what is lacking and do not need it themselves."""
        properties = members_of(tool.parameters, "properties")
        for name in lacking:
            core = words_of(core_of(name))
            described = words_of(str(members_of(properties, name).get("description", "")))
            chinese = {word for word in described if is_chinese(word)}
            for other in self._ranked:
                said = self._said[other.name]
                speaks = (core and core <= said) or chinese & said
                needs = {core_of(each) for each in required_of(other.parameters)}
                if speaks and core_of(name) not in needs and self._scores[other.name] >= lowest_score:
                    yield other

    def _fill(self, tool: ToolSpec, sources: Sources, least: int) -> Filled:
        return fill(tool, self._known[tool.name], sources, least)

    def _is_done(self, tool: ToolSpec) -> bool:
        return any(each.tool == tool.name and each.status == "ok" for each in self._task.outcomes)

    def _is_new(self, tool: ToolSpec, filled: Filled) -> bool:
        if filled.missing or self._is_done(tool):
            return False
        made = [each.arguments for each in self._task.outcomes if each.tool == tool.name and each.settled]
        return filled.arguments not in made

    def _score(self, tool: ToolSpec) -> int:
        by_name = self._asked & words_of(tool.name)
        by_text = (self._asked & self._known[tool.name]) - by_name
        enough = by_name or len(by_text) > 1 or len(by_text) >= SHARE * max(1, len(self._asked - self._named))
        return NAME_WEIGHT * len(by_name) + len(by_text) if enough else 0


def _named_in(text: str) -> frozenset[str]:
    return words_of(" ".join(each.text for each in values_in(text)))


def _vocabulary(tool: ToolSpec) -> frozenset[str]:
    properties = members_of(tool.parameters, "properties")
    texts = [tool.name, tool.description, *properties]
    texts += [str(members_of(properties, name).get("description", "")) for name in properties]
    return frozenset[str]().union(*(words_of(text, single=True) for text in texts))


def _sources(task: Task, outcomes: tuple[Outcome, ...]) -> Sources:
    taken: dict[str, str] = {}
    for outcome in task.outcomes:
        for name, value in outcome.arguments.items():
            taken.setdefault(str(value), core_of(name))
    results = [_result(each) for each in reversed(outcomes) if each.status == "ok"]
    values = values_in(task.question)
    return Sources(question=task.question, values=values, results=tuple(results), taken=taken)


def _result(outcome: Outcome) -> Result:
    if outcome.data is not None:
        return Result(tool=outcome.tool, data=outcome.data)
    return Result(tool=outcome.tool, text=outcome.text, values=values_in(outcome.text))


def _call_id(task: Task) -> str:
    """An id that the conversation does not know yet; the same conversation gives the same id."""
    digest = hashlib.blake2s(task.question.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    count = len(task.calls)
    while (call_id := f"call_{count}_{digest}") in task.calls:
        count += 1
    return call_id


def _compact(arguments: dict[str, Any]) -> str:
    return well_formed(json.dumps(arguments, ensure_ascii=False, separators=(",", ":")))

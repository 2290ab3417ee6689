"""The keyless model behind `fake:fake`: no network, no key, and the same answer every time.

It takes the tools whose names and descriptions share words with the question, one at a time, and
leads data from one result to the next call. It knows no tool by name, so it serves anybody's. Like a
model it may err; unlike one it thinks only before an answer, in one piece, and answers in one piece.
It runs on the event loop and reads what clients send, so whatever it looks at is capped.
"""

import hashlib
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_core.messages import well_formed
from agent_core.models.base import ArgumentsPiece, CallPiece, ModelRequest, Piece, TextPiece, ThinkingPiece
from agent_core.models.http import HttpClient
from agent_core.models.keyless.answer import answer_of, thought_of
from agent_core.models.keyless.arguments import (
    MOST_PARAMETERS,
    Filled,
    Parameter,
    fill,
    key_of,
    read_parameters,
    read_sources,
)
from agent_core.models.keyless.task import Outcome, Task, read_task
from agent_core.models.keyless.words import values_in, words_of
from agent_core.tools.base import ToolSpec

MOST_TOOLS = 48
LONGEST_DESCRIPTION = 800
NAME_WEIGHT = 2
SHARE = 0.4
"""The part of a question's words that a description alone must share with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeModel:
    """The model `fake:fake`. It reports no usage and never touches the HTTP client.

    It looks at the first MOST_TOOLS tools of a request that require fewer than MOST_PARAMETERS arguments.
    """

    provider: str = field(default="fake", init=False)
    name: str = field(default="fake", init=False)

    async def stream(self, request: ModelRequest, http: HttpClient) -> AsyncGenerator[Piece, None]:  # noqa: ARG002
        """Ask for one tool, or think once and answer once. Never fails.

        Without tools in the request it says what it has and what is missing.
        """
        task, tools = read_task(request.messages), request.tools[:MOST_TOOLS]
        choice = Choice(task, tools)
        if call := choice.next_call():
            name, arguments = call
            yield CallPiece(0, _call_id(task), name)
            if arguments:
                yield ArgumentsPiece(0, _compact(arguments))
            return
        yield ThinkingPiece(well_formed(thought_of(task)))
        yield TextPiece(well_formed(answer_of(task, tools, choice.wanting())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A tool as it is looked at: the words of its name, with its description, and with its parameters."""

    name: str
    titled: frozenset[str]
    said: frozenset[str]
    known: frozenset[str]
    parameters: tuple[Parameter, ...]


class Choice:
    """Which of the offered tools is next, and with which arguments."""

    __slots__ = ("_done", "_filled", "_goals", "_offers", "_seen", "_sources", "_task")

    def __init__(self, task: Task, tools: tuple[ToolSpec, ...]) -> None:
        self._task = task
        self._done = {each.tool for each in task.outcomes if each.status == "ok"}
        offers = [each for each in map(_offer, tools) if sum(one.required for one in each.parameters) < MOST_PARAMETERS]
        asked, named = words_of(task.question), _named_in(task.question)
        scores = {each.name: _score(each, asked, named) for each in offers}
        if task.before and asked and (asked <= named or not any(scores.values())):
            # "And in Rome?" says nothing but a name: what it is about was said before.
            asked, named = words_of(task.before), _named_in(task.before)
            scores = {each.name: _score(each, asked, named) for each in offers}
        best = max(scores.values(), default=0)
        self._offers = sorted(offers, key=lambda each: -scores[each.name])
        self._goals = [each for each in self._offers if scores[each.name] * 2 >= max(best, 1)]
        self._read(task.outcomes)

    def next_call(self) -> tuple[str, Mapping[str, Any]] | None:
        """The next call, or None where the question can be answered as far as it ever will be."""
        call = next(filter(None, map(self._plan, self._goals)), None)
        if not call and not self._task.outcomes:
            # A follow-up question may speak of what an earlier one found.
            self._read(self._task.earlier)
            call = next(filter(None, map(self._plan, self._goals)), None)
        return call

    def wanting(self) -> tuple[str, tuple[str, ...]] | None:
        """The best tool that was not called for want of arguments, and which those are."""
        lacks = ((each.name, self._fill(each).missing) for each in self._goals if each.name not in self._done)
        return next((lack for lack in lacks if lack[1]), None)

    def _read(self, results: tuple[Outcome, ...]) -> None:
        taken = {
            value: key_of(name)[0]
            for each in self._task.outcomes
            for name, value in each.arguments.items()
            if isinstance(value, str)
        }
        self._sources = read_sources(self._task.question, results, taken)
        self._filled: dict[str, Filled] = {}
        self._seen: set[str] = set()

    def _plan(self, offer: Offer) -> tuple[str, Mapping[str, Any]] | None:
        """The tool's call, or rather than a guess that of one that can provide what it lacks."""
        if offer.name in self._seen or offer.name in self._done:
            return None
        self._seen.add(offer.name)  # Kept for all goals: each tool is looked at once.
        filled = self._fill(offer)
        for parameter in offer.parameters:
            if parameter.name in filled.guessed or parameter.name in filled.missing:
                for provider in self._offers:
                    if _provides(provider, parameter) and (call := self._plan(provider)):
                        return call
        made = (each.arguments for each in self._task.outcomes if each.tool == offer.name and each.settled)
        return None if filled.missing or filled.arguments in made else (offer.name, filled.arguments)

    def _fill(self, offer: Offer) -> Filled:
        if offer.name not in self._filled:
            self._filled[offer.name] = fill(offer.parameters, offer.said, self._sources)
        return self._filled[offer.name]


def _offer(tool: ToolSpec) -> Offer:
    parameters = read_parameters(tool.parameters)
    said = words_of(f"{tool.name[:100]} {tool.description[:LONGEST_DESCRIPTION]}")
    known = said.union(*(each.words for each in parameters))
    return Offer(name=tool.name, titled=words_of(tool.name[:100]), said=said, known=known, parameters=parameters)


def _score(offer: Offer, asked: frozenset[str], named: frozenset[str]) -> int:
    by_name = asked & offer.titled
    by_text = (asked & offer.known) - by_name
    enough = by_name or len(by_text) > 1 or len(by_text) >= SHARE * max(1, len(asked - named))
    return NAME_WEIGHT * len(by_name) + len(by_text) if enough else 0


def _provides(offer: Offer, parameter: Parameter) -> bool:
    """Whether the tool speaks of the parameter and does not need it itself."""
    about = frozenset(parameter.key[0].split())
    speaks = (about and about <= offer.said) or not parameter.hints.isdisjoint(offer.said)
    return bool(speaks) and all(each.key[0] != parameter.key[0] for each in offer.parameters if each.required)


def _named_in(text: str) -> frozenset[str]:
    return words_of(" ".join(each.text for each in values_in(text)))


def _call_id(task: Task) -> str:
    """An id that the conversation does not know yet; the same conversation gives the same id."""
    digest = hashlib.blake2s(task.question.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    count = len(task.calls)
    while (call_id := f"call_{count}_{digest}") in task.calls:
        count += 1
    return call_id


def _compact(arguments: Mapping[str, Any]) -> str:
    return well_formed(json.dumps(arguments, ensure_ascii=False, separators=(",", ":")))

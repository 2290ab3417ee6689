"""The keyless model behind `fake:fake`: no network, no key, and the same answer every time.

It calls the tools whose names and descriptions share words with the question, one at a time. It takes data from one
result to the next call. It knows no tool by name, so it works with anybody's tools. It may be wrong, as a model may be.
Its thinking comes in one piece before the answer, and its answer in one piece.

It runs on the event loop and reads clients' texts, so it reads only a bounded part of each.
"""

import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_core.messages import well_formed
from agent_core.models.base import ArgumentsPiece, CallPiece, ModelRequest, Piece, TextPiece, ThinkingPiece
from agent_core.models.http import HttpClient
from agent_core.models.keyless.arguments import MOST_PARAMETERS, Parameter, fill, read_parameters, read_sources
from agent_core.models.keyless.task import Task, read_task
from agent_core.models.keyless.words import LONGEST_TEXT, is_chinese, parts_of, values_in, words_of
from agent_core.tools.base import ToolSpec

MOST_TOOLS, LONGEST_DESCRIPTION, NAME_WEIGHT = 48, 800, 2
SHARE = 0.4
"""If a tool's name shares no word with the question, its description must share this part of the question's words."""


MOST_TOLD = 12
"""Results, tools and names in an answer at most, the latest ones."""

FORM = r"[\"“「]([^\"“”「」<\n]{1,80})<[\w ]{1,30}>([^\"“”「」<\n]{0,80})[\"”」]"

TEXTS = {
    "nothing": (
        "I am the keyless demo model, and no tool fits this question. I can help with: {}",
        "没有适合这个问题的工具。可用: {}",
    ),
    "wanting": ("{} would help, but needs to know: {}.", "{}需要更多信息: {}"),
    "closing": (
        'The budget is used up, and there may be more to look up. Say "continue" to go on.',
        "步数已用完，可能还没有全部查完。回复“继续”可以接着查。",
    ),
}
"""What answers say, in English and in Chinese."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeModel:
    """The model `fake:fake`. It reports no usage and never uses the HTTP client.

    It reads the first MOST_TOOLS tools of a request, and uses those that require fewer than MOST_PARAMETERS arguments.
    """

    provider: str = field(default="fake", init=False)
    name: str = field(default="fake", init=False)

    async def stream(self, request: ModelRequest, http: HttpClient) -> AsyncGenerator[Piece, None]:  # noqa: ARG002
        """Call one tool, or think once and answer once. Never fails. Without tools in the request, the answer tells the
        results so far and that there may be more."""
        task, tools = read_task(request.messages), request.tools[:MOST_TOOLS]
        choice = Choice(task, tools)
        if call := choice.next_call():
            yield CallPiece(0, task.free_id("fake"), call[0])
            if call[1]:
                yield ArgumentsPiece(0, well_formed(json.dumps(call[1], ensure_ascii=False, separators=(",", ":"))))
            return
        yield ThinkingPiece(f"{len(task.outcomes)} results are there, and no call would add to them, so I answer.")
        yield TextPiece(well_formed(answer_of(task, tools, choice.lacking)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A tool of the request, as words.

    - titled: the words of its name
    - said: these and its description's
    - known: these and its parameters'
    - needs: the subjects of its required parameters
    """

    name: str
    titled: frozenset[str]
    said: frozenset[str]
    known: frozenset[str]
    needs: frozenset[str]
    parameters: Sequence[Parameter]

    def score(self, asked: frozenset[str], named: frozenset[str]) -> int:
        """How well the tool fits the question. Words that the question only uses as names count little."""
        by_name = asked & self.titled
        by_text = (asked & self.known) - by_name
        enough = by_name or len(by_text) > 1 or len(by_text) >= SHARE * max(1, len(asked - named))
        return NAME_WEIGHT * len(by_name) + len(by_text) if enough else 0

    def provides(self, parameter: Parameter) -> bool:
        """Whether the tool's words name the parameter, and it does not need the parameter itself."""
        about = frozenset(parameter.key[0].split())
        return bool(about) and about <= self.said and parameter.key[0] not in self.needs


class Choice:
    """Chooses the next call. `lacking` has, for each tool that was tried, the parameters without a value."""

    __slots__ = ("_goals", "_offers", "_seen", "_sources", "_task", "lacking")

    def __init__(self, task: Task, tools: Sequence[ToolSpec]) -> None:
        self._task = task
        self.lacking: dict[str, list[str]] = {}
        self._offers = [
            each for each in map(_offer, tools) if sum(one.required for one in each.parameters) < MOST_PARAMETERS
        ]
        asked, values = words_of(task.question), values_in(task.question)
        named = words_of(" ".join(each.text for each in values if each.kind != "phrase"))
        scores = {each.name: each.score(asked, named) for each in self._offers}
        self._offers.sort(key=lambda each: -scores[each.name])
        self._goals = [each for each in self._offers if scores[each.name] * 2 >= max(1, *scores.values())]

    def next_call(self) -> tuple[str, Mapping[str, Any]] | None:
        """The next call, or None if no call would add to the answer. The first call for a question may use the results
        of earlier questions."""
        done = self._task.outcomes
        for results in (done,) if done else (done, self._task.earlier):
            self._sources = read_sources(self._task.question, results, done)
            self._seen = {each.tool for each in done if each.status == "ok"}
            if call := next(filter(None, map(self._plan, self._goals)), None):
                return call
        return None

    def _plan(self, offer: Offer) -> tuple[str, Mapping[str, Any]] | None:
        """The tool's call. If an argument would be a guess, the call of another tool that can provide it."""
        if offer.name in self._seen:
            return None
        self._seen.add(offer.name)  # for all goals: each tool is tried once
        arguments, unsure = fill(offer.parameters, offer.said, self._sources)
        self.lacking[offer.name] = [name for name in unsure if name not in arguments]
        for lacking in [each for each in offer.parameters if each.name in unsure]:
            for provider in self._offers:
                if provider.provides(lacking) and (call := self._plan(provider)):
                    return call
        made = ((each.tool, each.arguments) for each in self._task.outcomes)
        return None if self.lacking[offer.name] or (offer.name, arguments) in made else (offer.name, arguments)


def _offer(tool: ToolSpec) -> Offer:
    titled, parameters = words_of(tool.name[:100]), read_parameters(tool.parameters)
    said = titled | words_of(tool.description[:LONGEST_DESCRIPTION])
    known = said.union(*(words_of(f"{each.name[:100]} {each.description}") for each in parameters))
    needs = frozenset(each.key[0] for each in parameters if each.required)
    return Offer(name=tool.name, titled=titled, said=said, known=known, needs=needs, parameters=parameters)


def answer_of(task: Task, tools: Sequence[ToolSpec], lacking: Mapping[str, Sequence[str]]) -> str:
    """The answer: the results, the failures, and in a closing call (no tools) that there may be more.

    The instructions may give a form in quotation marks, such as "It is <time>". It is used if there is exactly one
    result. `lacking` has the tools that would help, and the parameters that they need.
    """
    chinese = is_chinese(task.question)
    labels = {tool.name: _label(tool, chinese) for tool in tools}
    if not task.outcomes:
        for name, lacks in lacking.items():
            if lacks:
                return TEXTS["wanting"][chinese].format(labels[name], ", ".join(lacks[:MOST_TOLD]))
        return TEXTS["nothing"][chinese].format(", ".join([*labels.values()][:MOST_TOLD]) or "-")
    good = [each for each in task.outcomes if each.status == "ok"]
    bad = [each for each in task.outcomes if each.tool not in {one.tool for one in good}]
    is_open = not tools and bool(bad or good[-1].data)  # a result with data may lead to another call
    form = re.search(FORM, task.instructions[:LONGEST_TEXT])
    if form and len(good) == 1 and not (bad or is_open):
        return form[1] + good[0].told + form[2]
    lines = [each.line(labels.get(each.tool) or _title(each.tool)) for each in (good + bad)[-MOST_TOLD:]]
    return "\n".join([*lines, TEXTS["closing"][chinese]] if is_open else lines)


def _label(tool: ToolSpec, chinese: bool) -> str:
    """A label for the tool: its description up to a colon, or the half of that in the language; else its name."""
    head, colon, _ = tool.description.lstrip()[:60].replace("：", ":").partition(":")
    halves = [half.strip() for half in head.split("/") if half.strip()] if colon and "\n" not in head else []
    return next((half for half in halves if is_chinese(half) == chinese), halves[0] if halves else _title(tool.name))


def _title(name: str) -> str:
    return " ".join(parts_of(name)).capitalize() or "Result"

"""What a conversation asks of the keyless model: the question, and what came of it so far."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from agent_core.messages import Message, ResultStatus
from agent_core.models.keyless.words import listed, words_of

MOST_OUTCOMES = 32
"""Results that are looked at, the latest of all that the conversation holds."""

LONGEST_JSON = 32_000
"""Characters of a result or of arguments that are read as JSON; a longer text is just a text."""

MOST_BEFORE = 4
"""Earlier questions among which the last that says anything is looked for."""

MOST_NODES = 300
"""Objects, lists and values of one result that are looked at."""

GO_ON = listed(
    """continue goon keepgoing carryon proceed resume goahead next more yescontinue
    继续 接着 接着来 接着做 继续吧 请继续 下一步 往下 继续执行"""
)
"""Messages that ask for nothing new, without blanks and punctuation."""

LEANS = r"(?i)\s{0,9}(?:and|also|(?:what|how) about)\b|\s{0,9}(?:那|还有|以及)|.{1,40}呢\W{0,3}$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A call that was answered. `data` is the result where it is a JSON object or list, else None.

    `settled` is false for a call that was never carried out and that the user asks for again.
    """

    tool: str
    arguments: Mapping[str, Any]
    status: ResultStatus
    text: str
    data: Any
    settled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The question, what was done about it, and what had been done before it was asked.

    `before` is the question before it, where it leans on that as "and in Rome?" does, else empty: a
    greeting asks for nothing. `instructions` is the text of the system and developer messages, and
    `calls` holds the ids of all calls.
    """

    question: str
    before: str
    instructions: str
    outcomes: tuple[Outcome, ...]
    earlier: tuple[Outcome, ...]
    calls: frozenset[str]


def read_task(messages: Sequence[Message]) -> Task:
    """Read the conversation. A last message such as "continue" stands for the question before it."""
    users = [index for index, message in enumerate(messages) if message.role == "user"]
    last = users[-1] if users else 0
    questions = (index for index in reversed(users) if not is_go_on(messages[index].text))
    asked = next(questions, last)
    question = messages[asked].text if users else ""
    leant_on = islice(questions, MOST_BEFORE if re.match(LEANS, question[:200]) else 0)
    calls = {call.id: call.arguments for message in messages for call in message.tool_calls}
    results = [index for index, message in enumerate(messages) if message.role == "tool"][-MOST_OUTCOMES:]
    outcomes = [(index, _outcome(messages[index], calls, is_past=index < last)) for index in results]
    return Task(
        question=question,
        before=next((text for index in leant_on if words_of(text := messages[index].text)), ""),
        instructions="\n".join(each.text for each in messages if each.role in ("system", "developer")),
        outcomes=tuple(outcome for index, outcome in outcomes if index > asked),
        earlier=tuple(outcome for index, outcome in outcomes if index < asked),
        calls=frozenset(calls),
    )


def is_go_on(text: str) -> bool:
    """Whether the text says no more than "continue"."""
    letters = re.sub(r"[\W_]+", "", text[:200].lower())
    return letters.removeprefix("please").removesuffix("please") in GO_ON


def leaves_of(data: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values of JSON data in their order, each with the keys that lead to it: none for null."""
    stack: list[tuple[tuple[str, ...], Any]] = [((), data)]
    for _ in range(MOST_NODES):
        if not stack:
            return
        path, node = stack.pop()
        if isinstance(node, dict):
            members = [((*path[-2:], key[:100]), each) for key, each in islice(node.items(), MOST_NODES)]
            stack.extend(reversed(members))
        elif isinstance(node, list):
            stack.extend((path, each) for each in reversed(node[:MOST_NODES]))
        elif node is not None:
            yield path, node


def _outcome(message: Message, calls: Mapping[str, str], *, is_past: bool) -> Outcome:
    given, data = _parse(calls.get(message.tool_call_id or "", "")), _parse(message.text)
    return Outcome(
        tool=(message.name or "")[:100],
        arguments=given if isinstance(given, dict) else {},
        status=message.status,
        text=message.text,
        data=data if isinstance(data, dict | list) else None,
        settled=not (is_past and message.status in ("not_run", "interrupted")),
    )


def _parse(text: str) -> Any:
    try:
        return json.loads(text) if len(text) <= LONGEST_JSON else None
    except (ValueError, RecursionError):
        return None

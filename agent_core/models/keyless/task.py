"""The task of a keyless model, read from a conversation: the question, and the results so far."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice, repeat
from typing import Any

from agent_core.messages import Message, ResultStatus
from agent_core.models.keyless.words import LONGEST_TEXT, is_chinese

MOST_OUTCOMES = 32
"""Results that are read at most, the latest ones."""

LONGEST_JSON, LONGEST_RESULT = 32_000, 2000
"""A text of more characters is not read as JSON; and characters of a result that an answer repeats at most."""

DEEPEST, MOST_LEAVES = 20, 300
"""Levels of a result, and values in it, that are read at most."""

GO_ON = r"(?i)\W*(?:please\W+)?(?:continue|go on|proceed|resume|next|继续|接着)(?:\W+please|吧)?\W*\Z"
"""A message that asks for nothing new."""


SAID: Mapping[ResultStatus, tuple[str, str]] = {
    "ok": ("", "完成"),
    "error": (" failed", "失败"),
    "timed_out": (" took too long", "超时"),
    "interrupted": (" was interrupted", "被中断"),
    "denied": (" was not approved", "未获批准"),
    "not_run": (" was not run", "没有执行"),
}
"""The words for each status in English and in Chinese. They stand behind the call's label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A call that has its result. `data` is the result if it is a JSON object or list, else None."""

    tool: str
    arguments: Mapping[str, Any]
    status: ResultStatus
    text: str
    data: Any

    def line(self, label: str) -> str:
        """The label, the call's status in the label's language, and the result."""
        return f"{label}{SAID[self.status][is_chinese(label)]}: {self.told}"

    @property
    def told(self) -> str:
        """The result as text."""
        leaves = [
            " ".join(path[-1:]) + ": " * bool(path) + (leaf if isinstance(leaf, str) else json.dumps(leaf))
            for path, leaf in leaves_of(self.data)
        ]
        return (", ".join(leaves) or self.text.strip() or "none")[:LONGEST_RESULT]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The task.

    - outcomes: the calls for this question. If the user says "continue" after a call that did not run, it is left out,
      so that the model asks for it again
    - earlier: the calls for earlier questions
    - instructions: the text of the system messages
    - calls: the ids of all calls
    """

    question: str
    instructions: str
    outcomes: Sequence[Outcome]
    earlier: Sequence[Outcome]
    calls: frozenset[str]

    def free_id(self, name: str, index: int = 0) -> str:
        """A new id for a call. Each index has another, and the same conversation gets the same ids."""
        return next(each for n in count(len(self.calls)) if (each := f"call_{name}_{index}_{n}") not in self.calls)


def read_task(messages: Sequence[Message]) -> Task:
    """Read the conversation. A last message such as "continue" stands for the question before it."""
    users = [index for index, message in enumerate(messages) if message.role == "user"]
    last = users[-1] if users else 0
    asked = next((index for index in reversed(users) if not re.match(GO_ON, messages[index].text[:60])), last)
    calls = {call.id: call.arguments for message in messages for call in message.tool_calls}
    results = [index for index, message in enumerate(messages) if message.role == "tool"][-MOST_OUTCOMES:]
    outcomes = {index: _outcome(messages[index], calls) for index in results}
    never_ran = {index for index in results if index < last and messages[index].status in ("not_run", "interrupted")}
    return Task(
        question=messages[asked].text[:LONGEST_TEXT] if users else "",
        instructions="\n".join(each.text for each in messages if each.role in ("system", "developer")),
        outcomes=[outcomes[index] for index in results if index > asked and index not in never_ran],
        earlier=[outcomes[index] for index in results if index < asked],
        calls=frozenset(calls),
    )


def leaves_of(data: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The first values in JSON data, in order, each with its path of keys. Nulls are left out."""
    return islice(_leaves(data, (), DEEPEST), MOST_LEAVES)


def _leaves(node: Any, path: tuple[str, ...], depth: int) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(node, dict | list) and depth:
        members = node.items() if isinstance(node, dict) else zip(repeat(""), node, strict=False)
        for key, each in islice(members, MOST_LEAVES):
            yield from _leaves(each, (*path, key[:100]) if key else path, depth - 1)
    elif not isinstance(node, dict | list | None):
        yield path, node


def _outcome(message: Message, calls: Mapping[str, str]) -> Outcome:
    given, data = _parse(calls.get(message.tool_call_id or "", "")), _parse(message.text)
    return Outcome(
        tool=(message.name or "")[:100],
        arguments=given if isinstance(given, dict) else {},
        status=message.status,
        text=message.text,
        data=data if isinstance(data, dict | list) else None,
    )


def _parse(text: str) -> Any:
    try:
        return json.loads(text) if len(text) <= LONGEST_JSON else None
    except (ValueError, RecursionError):
        return None

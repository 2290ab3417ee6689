"""What a conversation asks of the keyless model: the question, and what came of it so far."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_core.messages import Message, ResultStatus
from agent_core.models.fake.words import listed

GO_ON = listed(
    """continue goon keepgoing carryon proceed resume goahead next more yescontinue
    继续 接着 接着来 接着做 继续吧 请继续 下一步 往下 继续执行"""
)
"""Messages that ask for nothing new, without blanks and punctuation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A call that was answered. `data` is the result where it is JSON, else None.

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

    `before` is the user's message before the question, which a question such as "and in Rome?" leans on.
    `instructions` is the text of the system and developer messages; `calls` the ids of all calls.
    """

    question: str
    before: str
    instructions: str
    outcomes: tuple[Outcome, ...]
    earlier: tuple[Outcome, ...]
    calls: tuple[str, ...]


def read_task(messages: Sequence[Message]) -> Task:
    """Read the conversation. A last message such as "continue" stands for the question before it."""
    texts = [message.text if message.role == "user" else "" for message in messages]
    users = [index for index, message in enumerate(messages) if message.role == "user"]
    last = users[-1] if users else 0
    asked = next((index for index in reversed(users) if not is_go_on(messages[index].text)), last)
    calls = {call.id: call.arguments for message in messages for call in message.tool_calls}
    outcomes: list[tuple[int, Outcome]] = []
    for index, message in enumerate(messages):
        if message.role == "tool":
            again = index < last and message.status in ("not_run", "interrupted")
            outcomes.append((index, _outcome(message, calls.get(message.tool_call_id or "", ""), settled=not again)))
    return Task(
        question=messages[asked].text if users else "",
        before=next((text for text in reversed(texts[:asked]) if text and not is_go_on(text)), ""),
        instructions="\n".join(each.text for each in messages if each.role in ("system", "developer")),
        outcomes=tuple(outcome for index, outcome in outcomes if index > asked),
        earlier=tuple(outcome for index, outcome in outcomes if index < asked),
        calls=tuple(calls),
    )


def is_go_on(text: str) -> bool:
    """Whether the text says no more than "continue"."""
    letters = re.sub(r"[\W_]+", "", text[:200].lower())
    return letters.removeprefix("please").removesuffix("please") in GO_ON


def parse(text: str) -> Any:
    """The value that the JSON text holds, or None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _outcome(message: Message, arguments: str, *, settled: bool) -> Outcome:
    given, data = parse(arguments), parse(message.text)
    return Outcome(
        tool=message.name or "",
        arguments=given if isinstance(given, dict) else {},
        status=message.status,
        text=message.text,
        data=data if isinstance(data, dict | list) else None,
        settled=settled,
    )

"""The model behind `fake:demo`: a few questions with known answers, to show what the server does.

Keyless, offline and the same every time. It plays the part of a model that is told what to do: "hello",
"weather in Paris", "use frontend tool NAME", "slow", "error", "raw please" and "approve email", in
English or Chinese. Tools are looked for by name among those that a request offers. It runs on the event
loop and reads what clients send, so whatever it looks at is capped.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_core.errors import ModelError
from agent_core.messages import Message, well_formed
from agent_core.models.base import (
    ArgumentsPiece,
    CallPiece,
    CutPiece,
    ModelRequest,
    Piece,
    TextPiece,
    ThinkingPiece,
    UsagePiece,
)
from agent_core.models.http import HttpClient
from agent_core.models.keyless.demo_script import Plan, plan_of
from agent_core.models.keyless.samples import sample_arguments
from agent_core.models.keyless.task import Task, read_task
from agent_core.tools.base import ToolSpec
from agent_core.usage import Usage

PAUSE = 0.05
"""Seconds before each piece of a slow answer."""

CHARACTERS_A_TOKEN = 4
LONGEST_WORDWISE = 600
"""Characters of an answer that come word by word; what is longer comes in larger pieces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoModel:
    """The model `fake:demo`. It never touches the HTTP client.

    `pause`: seconds before each piece of a slow answer. The usage that it reports counts four
    characters as a token.
    """

    pause: float = PAUSE
    provider: str = field(default="fake", init=False)
    name: str = field(default="demo", init=False)

    async def stream(self, request: ModelRequest, http: HttpClient) -> AsyncGenerator[Piece, None]:  # noqa: ARG002
        """Play the part that the last user message asks for.

        Raises ModelError (`model_unreachable`) where that asks for an error.
        """
        task = read_task(request.messages)
        plan = plan_of(task, request)
        if plan.fails:
            raise ModelError("model_unreachable", detail="the demo was asked for an error")
        said = 0
        for piece in _pieces(task, plan, request):
            if plan.slow:
                await asyncio.sleep(self.pause)
            said += _length(piece)
            yield piece
        yield UsagePiece(_usage(request.messages, said))


def _pieces(task: Task, plan: Plan, request: ModelRequest) -> Iterator[Piece]:
    if plan.calls:
        yield from _calls(task, plan.calls, request)
        return
    if plan.thought:
        for text in _cut(plan.thought):
            yield ThinkingPiece(text)
    for text in _cut(plan.answer):
        yield TextPiece(text)


def _calls(task: Task, calls: Sequence[tuple[str, Mapping[str, Any]]], request: ModelRequest) -> Iterator[Piece]:
    specs: dict[str, ToolSpec] = {tool.name: tool for tool in request.tools}
    number = len(task.calls)
    for index, (name, given) in enumerate(calls):
        # The same conversation gives the same id, and no id is given twice.
        while (call_id := f"call_demo_{number}") in task.calls:
            number += 1
        number += 1
        yield CallPiece(index, call_id, name)
        yield ArgumentsPiece(index, _arguments(specs[name], given))


def _arguments(tool: ToolSpec, given: Mapping[str, Any]) -> str:
    """What is given of the tool's own parameters, and samples for the rest: a text that was meant for a
    parameter of another name (`city`, where the tool has `location`) serves for the first that it fits.
    """
    text = next((value for value in given.values() if isinstance(value, str)), "demo")
    properties = tool.parameters.get("properties")
    known = properties if isinstance(properties, Mapping) and properties else given
    made = sample_arguments(tool.parameters, text, {name: value for name, value in given.items() if name in known})
    return well_formed(json.dumps(made, ensure_ascii=False, separators=(",", ":")))


def _cut(text: str) -> list[str]:
    text = well_formed(text)
    pieces = re.findall(r"\s*\S{1,40}\s*", text[:LONGEST_WORDWISE])
    rest = text[LONGEST_WORDWISE:]
    return pieces + [rest[i : i + LONGEST_WORDWISE] for i in range(0, len(rest), LONGEST_WORDWISE)]


def _length(piece: Piece) -> int:
    if isinstance(piece, CallPiece):
        return len(piece.name)
    return 0 if isinstance(piece, UsagePiece | CutPiece) else len(piece.text)


def _usage(messages: Sequence[Message], said: int) -> Usage:
    read = sum(len(message.text) + sum(len(call.arguments) for call in message.tool_calls) for message in messages)
    asked, answered = (-(-count // CHARACTERS_A_TOKEN) for count in (read, said))
    return Usage(
        provider="fake", model="demo", input_tokens=asked, output_tokens=answered, total_tokens=asked + answered
    )

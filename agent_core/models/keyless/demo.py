"""The model behind `fake:demo`: a few questions with known answers, to show what the server does.

It needs no key and no network, and answers the same every time. It knows "hello", "weather in Paris", "use frontend
tool NAME", "slow", "error", "raw please" and "approve email", in English and Chinese. It finds its tools by name among
those that a request offers. It runs on the event loop and reads clients' texts, so it reads only a bounded part of
each.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_core.errors import ModelError
from agent_core.messages import well_formed
from agent_core.models.base import ArgumentsPiece, CallPiece, ModelRequest, Piece, TextPiece, ThinkingPiece, UsagePiece
from agent_core.models.http import HttpClient
from agent_core.models.keyless.samples import sample
from agent_core.models.keyless.task import Task, read_task
from agent_core.models.keyless.words import chinese_besides, han_runs, is_chinese, values_in
from agent_core.usage import Usage

PAUSE = 0.05
"""Seconds before each piece of a slow answer."""

SLOW_PIECES, MOST_CITIES, CHARACTERS_A_TOKEN = 40, 4, 4
LONGEST_WORDWISE = 600
"""An answer of up to so many characters comes word by word. A longer one comes in pieces of this length."""

EMAIL = {
    "to": "team@example.com",
    "subject": "Hello from Ostinato",
    "body": "This mail was written by the demo, and waits for somebody to agree to it.",
}
SHORT = r"(?is)\A(?=.{0,24}\Z).*"
"""The beginning of a pattern whose word counts only in a short message."""

HELLO = r"(?i)\A\W{0,9}(?:(?:hello|hi|hey)\b|你好|您好)"
ERROR = SHORT + r"(?:\berror\b|\bfail\b|出错|错误)"
FRONTEND = (
    r"(?i)(?:\b(?:use|call)\s{1,9}(?:the\s{1,9})?(?:frontend|client)\s{1,9}tool\b|(?:使用|调用|用)(?:前端|客户端)工具)"
    r"[\s\"'“「`:：]{0,9}([A-Za-z0-9_-]{1,64})"
)
Call = tuple[str, Mapping[str, Any]]
Plan = Sequence[Call] | str
"""Tools to call, or what to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoModel:
    """The model `fake:demo`. It never uses the HTTP client.

    `pause` is in seconds, before each piece of a slow answer. The usage counts four characters as a token.
    """

    pause: float = PAUSE
    provider: str = field(default="fake", init=False)
    name: str = field(default="demo", init=False)

    async def stream(self, request: ModelRequest, http: HttpClient) -> AsyncGenerator[Piece, None]:  # noqa: ARG002
        """Do what the last user message asks for. Raises ModelError (`model_unreachable`) if it asks for an error."""
        scene = _Scene(task=read_task(request.messages), request=request)
        plan, said = _plan_of(scene), 0
        for piece in _answer(scene, plan) if isinstance(plan, str) else _calls(scene, plan):
            if plan == COUNTED:
                await asyncio.sleep(self.pause)
            said += len(piece.name if isinstance(piece, CallPiece) else piece.text)
            yield piece
        yield UsagePiece(_usage(request, said))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    """The question, and the request with its tools."""

    task: Task
    request: ModelRequest

    def say(self, english: str, chinese: str) -> str:
        """The text in the question's language."""
        return chinese if is_chinese(self.task.question) else english

    def ask(self, calls: Sequence[Call], labels: Sequence[str]) -> Plan:
        """The calls that are still to be made, only the first if calls must not run in parallel. After that, a text
        with their results."""
        offered = {tool.name for tool in self.request.tools if self.request.tool_choice != "none"}
        left = calls[len(self.task.outcomes) :]
        if left and all(name in offered for name, _ in left):
            return left[:1] if self.request.options.parallel_tool_calls is False else left
        told = zip(self.task.outcomes, labels, strict=False)
        return "\n".join(outcome.line(label) for outcome, label in told) or self.say(
            f"I would call the tool {calls[0][0]} for that, but it was not offered with this request.",
            f"我需要调用工具 {calls[0][0]}，但本次请求没有提供它。",
        )


def _plan_of(scene: _Scene) -> Plan:
    """The demo's next step. If the request demands a tool, that is called first."""
    if re.search(ERROR, scene.task.question):
        raise ModelError("model_unreachable", detail="the demo was asked for an error")
    plans = (part(scene, match) for pattern, part in PARTS if (match := re.search(pattern, scene.task.question)))
    plan, choice = next(plans), scene.request.tool_choice
    wanted = [call for call in ([] if isinstance(plan, str) else plan) if choice in ("required", call[0])]
    named: list[Call] = [(tool.name, {}) for tool in scene.request.tools if choice in ("required", tool.name)]
    return wanted or named[:1] or plan


def _frontend(scene: _Scene, match: re.Match[str]) -> Plan:
    return scene.ask([(match[1], {})], [f"{scene.say('The frontend tool', '前端工具')} {match[1]}"])


def _weather(scene: _Scene, _match: object) -> Plan:
    values = values_in(scene.task.question)
    names = [each.text for each in values if each.kind == "name" and each.text.lower() != "weather"]
    names = names or [each.text for each in values if each.kind == "phrase"]
    cities = (names or chinese_besides(han_runs(scene.task.question), frozenset({"天气"})))[:MOST_CITIES]
    if not cities:
        return scene.say("Which city? Say for example: weather in Paris.", "哪个城市？例如：巴黎天气。")
    return scene.ask(
        [("get_weather", {"city": each}) for each in cities],
        [scene.say(f"Weather in {each}", f"{each}的天气") for each in cities],
    )


def _email(scene: _Scene, _match: object) -> Plan:
    labels = {
        "ok": scene.say("The email was approved", "邮件已获批准"),
        "denied": scene.say(
            "I asked, and it was denied, so nothing was sent: the email", "被拒绝了，什么也没有发送: 邮件"
        ),
    }
    status = next((each.status for each in scene.task.outcomes), "ok")
    return scene.ask([("send_email", EMAIL)], [labels.get(status, scene.say("The email", "邮件"))])


def _raw(scene: _Scene, _match: object) -> Plan:
    steps = range(1, len(scene.task.outcomes) + 2)
    return scene.ask(
        [("take_step", {"number": each}) for each in steps],
        [scene.say(f"Step {each}", f"第{each}步") for each in steps],
    )


def _capabilities(scene: _Scene, _match: object) -> Plan:
    greeting = "Hello from Ostinato! " if re.search(HELLO, scene.task.question) else ""
    told = "\n".join(each.line(each.tool) for each in scene.task.outcomes)
    return told or greeting + scene.say(
        'Try "hello", "weather in Paris", "use frontend tool NAME", "slow", "error", "raw please" or "approve email".',
        "试试：“你好”、“巴黎天气”、“使用前端工具 NAME”、“慢”、“出错”、“原始事件”或“批准邮件”。",
    )


COUNTED = " ".join(str(number) for number in range(1, SLOW_PIECES + 1))
PARTS: tuple[tuple[str, Callable[[_Scene, re.Match[str]], Plan]], ...] = (
    (FRONTEND, _frontend),
    (r"(?i)\bweather\b|天气", _weather),
    (r"(?i)\b(?:approve|send)\b.{0,20}\be-?mail\b|(?:批准|审批|发送|发).{0,9}邮件", _email),
    (SHORT + r"(?:\braw\b|原始)", _raw),
    (SHORT + r"(?:\bslow(?:ly)?\b|慢)", lambda _scene, _match: COUNTED),
    ("", _capabilities),
)


def _answer(scene: _Scene, answer: str) -> Iterator[TextPiece | ThinkingPiece]:
    if re.search(HELLO, scene.task.question):
        yield ThinkingPiece(scene.say("The user greets me, so I greet back.", "用户在打招呼，我也打个招呼。"))
    pieces = r"\s*\S{1,40}\s*" if len(answer) <= LONGEST_WORDWISE else rf"(?s).{{1,{LONGEST_WORDWISE}}}"
    yield from map(TextPiece, re.findall(pieces, well_formed(answer)))


def _calls(scene: _Scene, calls: Sequence[Call]) -> Iterator[CallPiece | ArgumentsPiece]:
    """The pieces of the calls. A call without arguments gets samples for the tool's required parameters."""
    specs = {tool.name: tool.parameters for tool in scene.request.tools}
    for index, (name, given) in enumerate(calls):
        made = given or sample({"type": "object", **specs[name]}, specs[name])
        yield CallPiece(index, scene.task.free_id("demo", index), name)
        yield ArgumentsPiece(index, well_formed(json.dumps(made, ensure_ascii=False, separators=(",", ":"))))


def _usage(request: ModelRequest, said: int) -> Usage:
    read = sum(len(each.text) + sum(len(call.arguments) for call in each.tool_calls) for each in request.messages)
    asked, answered = (-(-count // CHARACTERS_A_TOKEN) for count in (read, said))
    return Usage(
        provider="fake", model="demo", input_tokens=asked, output_tokens=answered, total_tokens=asked + answered
    )

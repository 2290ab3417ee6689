"""What the model `fake:demo` does next: which part a question asks for, and how far it has been played.

Each part is a function from the Scene to a Plan; None where the question is not for it. The first part
in PARTS that takes the question plays it.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson

from agent_core.models.base import ModelRequest
from agent_core.models.keyless.task import Outcome, Task, leaves_of
from agent_core.models.keyless.words import HAN, is_chinese

LONGEST_QUESTION = 2000
LONGEST_RESULT = 2000
MOST_CITIES = 4
SHORT = 5
"""Words of a message in which a single word such as "slow" is a request."""

SHORT_PHRASE = 6
"""Characters of Chinese that are as short."""

SLOW_PIECES = 40
EMAIL = {
    "to": "team@example.com",
    "subject": "Hello from Ostinato",
    "body": "This mail was written by the demo, and waits for somebody to agree to it.",
}

Call = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do: fail, call tools, or think and answer. `slow`: with a pause between the pieces."""

    answer: str = ""
    thought: str = ""
    calls: tuple[Call, ...] = ()
    slow: bool = False
    fails: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The question and what came of it so far. `offered`: the names of the tools that may be called;
    `one_call`: not more than one at a time."""

    question: str
    outcomes: tuple[Outcome, ...]
    offered: frozenset[str]
    one_call: bool

    def say(self, english: str, chinese: str) -> str:
        """The text in the question's language."""
        return chinese if is_chinese(self.question) else english

    def is_about(self, *words: str) -> bool:
        """Whether the message is short and has one of the words."""
        said = re.findall(rf"[a-z]{{1,40}}|[{HAN}]{{1,40}}", self.question.lower())
        return len(said) <= SHORT and any(
            word == each or (is_chinese(word) and word in each and len(each) <= SHORT_PHRASE)
            for word in words
            for each in said
        )

    def ask(self, calls: Sequence[Call], answer: Callable[[], str]) -> Plan:
        """The first of the calls that was not made yet, or all where none was; then the answer."""
        done = len(self.outcomes)
        left = tuple(islice(calls, done, done + 1 if self.one_call else None))
        if left and all(name in self.offered for name, _ in left):
            return Plan(calls=left)
        if left and not done:
            return Plan(answer=self.missing(left[0][0]))
        return Plan(answer=answer())

    def missing(self, name: str) -> str:
        return self.say(
            f"I would call the tool {name} for that, but it was not offered with this request.",
            f"我需要调用工具 {name}，但本次请求没有提供它。",
        )


def plan_of(task: Task, request: ModelRequest) -> Plan:
    """What the demo does next. A tool that the request insists on is called before anything else."""
    scene = Scene(
        question=task.question[:LONGEST_QUESTION],
        outcomes=task.outcomes,
        offered=frozenset() if request.tool_choice == "none" else frozenset(tool.name for tool in request.tools),
        one_call=request.options.parallel_tool_calls is False,
    )
    plan = next((plan for part in PARTS if (plan := part(scene)) is not None), None) or _capabilities(scene)
    if plan.fails or request.tool_choice in ("auto", "none"):
        return plan
    wanted = [call for call in plan.calls if request.tool_choice in ("required", call[0])]
    if wanted:
        return Plan(calls=tuple(wanted))
    named = [tool.name for tool in request.tools if request.tool_choice in ("required", tool.name)]
    return Plan(calls=((named[0], {}),)) if named else plan


def _frontend(scene: Scene) -> Plan | None:
    found = re.search(
        r"(?i)\b(?:use|call)\s{1,9}(?:the\s{1,9})?(?:frontend|front-end|client)\s{1,9}tool\b", scene.question
    )
    found = found or re.search(r"(?:使用|调用|用)\s{0,9}(?:前端|客户端)\s{0,9}工具", scene.question)
    if found is None:
        return None
    named = re.match(r"[\s\"'“「`:：]{0,9}([A-Za-z0-9_-]{1,64})[\"'”」`]?", scene.question[found.end() :])
    if named is None:
        return Plan(answer=scene.say("Which tool? Say: use frontend tool NAME.", "哪个工具？请说：使用前端工具 NAME。"))
    name = named[1]
    given = _object_in(scene.question[found.end() + named.end() :])
    return scene.ask([(name, given)], lambda: _told_by_client(scene, name))


def _told_by_client(scene: Scene, name: str) -> str:
    last = scene.outcomes[-1]
    if last.status != "ok":
        return scene.say(
            f"The frontend tool {name} gave no result: {_told(last)}", f"前端工具 {name} 没有结果：{_told(last)}"
        )
    return scene.say(f"The frontend tool {name} answered: {_told(last)}", f"前端工具 {name} 回答：{_told(last)}")


def _weather(scene: Scene) -> Plan | None:
    if not re.search(r"(?i)\bweather\b|天气", scene.question):
        return None
    cities = _cities(scene.question)
    if not cities:
        return Plan(answer=scene.say("Which city? Say for example: weather in Paris.", "哪个城市？例如：巴黎天气。"))
    calls = [("get_weather", {"city": city}) for city in cities]
    return scene.ask(calls, lambda: "\n".join(_forecast(scene, each) for each in scene.outcomes))


def _forecast(scene: Scene, outcome: Outcome) -> str:
    city = next((value for value in outcome.arguments.values() if isinstance(value, str)), "that place")
    if outcome.status != "ok":
        return scene.say(f"The weather in {city} is not known: {_told(outcome)}", f"{city}的天气未知：{_told(outcome)}")
    return scene.say(f"Weather in {city}: {_told(outcome, city)}", f"{city}的天气：{_told(outcome, city)}")


def _cities(question: str) -> list[str]:
    found = re.search(r"(?i)\bweather\b.{0,20}?\b(?:in|for|of|at)\s{1,9}([^.,;:?!\n。，；：？！]{1,100})", question)
    if found:
        names = re.split(r"(?i)\s{1,9}(?:and|or)\s{1,9}", found[1])
        later = r"(?i)\s{1,9}(?:today|tomorrow|now|right now|currently|please|like|this|tonight)\b.*"
        return [city for name in names[:MOST_CITIES] if (city := re.sub(later, "", f" {name}").strip(" \"'“”"))]
    found = re.search(rf"([{HAN}A-Za-z]{{0,40}})\s{{0,9}}天气", re.sub(r"\s{1,9}", "", question))
    asking = "请问|告诉我|查询一下|查一下|查询|看看|我想知道|想知道|请|查|今天|明天|现在|目前|的|在"
    names = re.split("和|、|与", re.sub(asking, "", found[1])) if found else []
    return [name for name in names[:MOST_CITIES] if name]


def _email(scene: Scene) -> Plan | None:
    if not re.search(r"(?i)\b(?:approve|send)\b.{0,20}\be-?mail\b|(?:批准|审批|发送|发).{0,9}邮件", scene.question):
        return None
    return scene.ask([("send_email", EMAIL)], lambda: _sent(scene, scene.outcomes[-1]))


def _sent(scene: Scene, outcome: Outcome) -> str:
    if outcome.status == "ok":
        return scene.say(f"The email was approved: {_told(outcome)}", f"邮件已获批准：{_told(outcome)}")
    if outcome.status == "denied":
        return scene.say(
            f"I asked to send an email, and it was denied, so nothing was sent. {_told(outcome)}",
            f"我请求发送邮件，但被拒绝了，所以什么也没有发送。{_told(outcome)}",
        )
    return scene.say(f"The email was not sent: {_told(outcome)}", f"邮件没有发送：{_told(outcome)}")


def _raw(scene: Scene) -> Plan | None:
    if not scene.is_about("raw", "原始"):
        return None
    step = len(scene.outcomes) + 1
    if "take_step" in scene.offered:
        return Plan(calls=(("take_step", {"number": step}),))
    if not scene.outcomes:
        return Plan(answer=scene.missing("take_step"))
    return Plan(
        answer=scene.say(
            f"Steps taken: {step - 1}. The budget of this run is used up, so this is the closing answer.",
            f"已走 {step - 1} 步。本次运行的步数已用完，这是结束语。",
        )
    )


def _slow(scene: Scene) -> Plan | None:
    if not scene.is_about("slow", "slowly", "慢"):
        return None
    return Plan(answer=" ".join(str(number) for number in range(1, SLOW_PIECES + 1)), slow=True)


def _error(scene: Scene) -> Plan | None:
    return Plan(fails=True) if scene.is_about("error", "fail", "出错", "错误") else None


def _hello(scene: Scene) -> Plan | None:
    if not re.match(r"(?i)\W{0,9}(?:(?:hello|hi|hey)\b|你好|您好)", scene.question):
        return None
    return Plan(
        thought=scene.say("The user greets me, so I greet back.", "用户在打招呼，我也打个招呼。"),
        answer=scene.say("Hello from Ostinato! ", "你好！Hello from Ostinato! ") + _offer(scene),
    )


def _capabilities(scene: Scene) -> Plan:
    if scene.outcomes:
        return Plan(answer="\n".join(f"{each.tool}: {_told(each)}" for each in scene.outcomes))
    return Plan(
        answer=scene.say("I am a demo and know a few things only. ", "我是演示模型，只会几件事。") + _offer(scene)
    )


def _offer(scene: Scene) -> str:
    return scene.say(
        'Try "hello", "weather in Paris", "use frontend tool NAME", "slow", "error", "raw please" or "approve email".',
        "试试：“你好”、“巴黎天气”、“使用前端工具 NAME”、“慢”、“出错”、“原始事件”或“批准邮件”。",
    )


PARTS = (_frontend, _weather, _email, _raw, _slow, _error, _hello)


def _told(outcome: Outcome, said: str = "") -> str:
    """The result as text; `said` is a value that need not be told again."""
    leaves = [
        " ".join(path[-1:]) + ": " * bool(path) + (leaf if isinstance(leaf, str) else json.dumps(leaf))
        for path, leaf in leaves_of(outcome.data)
        if leaf != said
    ]
    text = ", ".join(leaves) or outcome.text.strip() or "nothing"
    return text if len(text) <= LONGEST_RESULT else f"{text[:LONGEST_RESULT]}…"


def _object_in(text: str) -> Mapping[str, Any]:
    """The JSON object that stands in the text, empty where there is none."""
    start, end = text.find("{"), text.rfind("}")
    try:
        value = orjson.loads(text[start : end + 1]) if 0 <= start < end else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}

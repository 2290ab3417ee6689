"""What the keyless model says: one thought, and an answer made of the results that there are."""

import re
from collections.abc import Iterable
from typing import Any

from agent_core.messages import ResultStatus
from agent_core.models.fake.fit import DEEPEST, leaves_of
from agent_core.models.fake.task import Outcome, Task
from agent_core.models.fake.words import is_chinese, is_code, title_of
from agent_core.tools.base import ToolSpec

LONGEST_RESULT = 2000
"""Characters of one result that an answer repeats."""

LABEL = r"\s*([^:：()（）\[\]【】.。\n]{1,40}?)\s*[:：(（\[【]"
LABELLED = r"[^\W\d_][^:：\n.。]{0,39}[:：]\s*\S"
PLACEHOLDER = r"[\"“「`]((?![:,])[^\"“”「」`\n]*)[<{][\w ]{1,30}[>}]([^\"“”「」`\n]*)[\"”」`]"

FAILURES: dict[ResultStatus, tuple[str, str]] = {
    "error": ("failed: {}", "失败: {}"),
    "timed_out": ("took too long: {}", "超时: {}"),
    "interrupted": ("was interrupted: {}", "被中断: {}"),
    "denied": ("was not approved: {}", "未获批准: {}"),
    "not_run": ("was not run: {}", "没有执行: {}"),
}


def thought_of(task: Task) -> str:
    """The one thought before the answer, in the question's language."""
    names = ", ".join(dict.fromkeys(each.tool for each in task.outcomes))
    if is_chinese(task.question):
        return f"根据 {names} 的结果来回答。" if names else "没有工具结果，直接回答。"
    return f"The answer rests on the results of {names}." if names else "No tool has a result, so I answer directly."


def answer_of(task: Task, tools: tuple[ToolSpec, ...], wanting: tuple[ToolSpec, tuple[str, ...]] | None) -> str:
    """The answer: what was found, what failed, and in a closing call (no tools) what is still open.

    A form that the instructions give in quotation marks with a place for the result, such as
    "It is <time>", is used where there is exactly one result.
    """
    chinese = is_chinese(task.question)
    if not task.outcomes:
        return _without_results(chinese, tools, wanting)
    good = [each for each in task.outcomes if each.status == "ok"]
    found = {each.tool for each in good}
    bad = [each for each in task.outcomes if each.status != "ok" and each.tool not in found]
    open_ends = [] if tools else _open_ends(task.outcomes)
    forms: list[tuple[str, str]] = re.findall(PLACEHOLDER, task.instructions)
    if forms and len(good) == 1 and not bad and not open_ends:
        return forms[-1][0] + _clip(_in_words(good[0])) + forms[-1][1]
    offered = {tool.name: tool for tool in tools}
    lines = [_tell(each, _label(each.tool, offered, chinese)) for each in good]
    lines += [_tell_failure(each, _label(each.tool, offered, chinese)) for each in bad]
    if open_ends or (bad and not tools):
        lines.append(_tell_open(chinese, open_ends))
    return "\n".join(lines)


def _without_results(
    chinese: bool, tools: tuple[ToolSpec, ...], wanting: tuple[ToolSpec, tuple[str, ...]] | None
) -> str:
    if wanting:
        tool, missing = wanting
        label, names = _label(tool.name, {tool.name: tool}, chinese), ", ".join(missing)
        return f"{label}需要更多信息: {names}" if chinese else f"{label} would help, but needs to know: {names}."
    labels = [_label(tool.name, {tool.name: tool}, chinese) for tool in tools]
    if chinese:
        return "我是无需密钥的演示模型，没有适合这个问题的工具。" + (f"可用: {'、'.join(labels)}。" if labels else "")
    known = f" I can help with: {', '.join(labels)}." if labels else ""
    return f"I am the keyless demo model, and no tool fits this question.{known}"


def _label(name: str, offered: dict[str, ToolSpec], chinese: bool) -> str:
    """What the tool does, from the start of its description; a tool not offered has only its name."""
    tool = offered.get(name)
    match = re.match(LABEL, tool.description) if tool else None
    if not match:
        return title_of(name) or "Result"
    halves = [half.strip() for half in re.split(r"[/|·]", match.group(1)) if half.strip()]
    return next((half for half in halves if is_chinese(half) == chinese), halves[0] if halves else title_of(name))


def _tell(outcome: Outcome, label: str) -> str:
    text = _clip(_in_words(outcome))
    if outcome.data is None and re.match(LABELLED, text):
        return text
    return f"{label}完成: {text}" if is_chinese(label) else f"{label}: {text}"


def _tell_failure(outcome: Outcome, label: str) -> str:
    english, chinese = FAILURES.get(outcome.status, FAILURES["error"])
    return label + (chinese if is_chinese(label) else f" {english}").format(_clip(outcome.text))


def _tell_open(chinese: bool, open_ends: list[str]) -> str:
    if chinese:
        ends = f" (还没有查: {', '.join(open_ends)})" if open_ends else ""
        return f"步数已用完，没有全部查完{ends}。回复“继续”可以接着查。"
    ends = f" (still open: {', '.join(open_ends)})" if open_ends else ""
    return f'The budget is used up before everything could be looked up{ends}. Say "continue" to go on.'


def _open_ends(outcomes: tuple[Outcome, ...]) -> list[str]:
    """References in the last good result that no call has followed yet."""
    good = [each for each in outcomes if each.status == "ok"]
    followed = {str(value) for each in outcomes for value in each.arguments.values()}
    followed |= {str(leaf) for each in good[:-1] for _, leaf in leaves_of(each.data)}
    found = {
        f"{path[-1]} {leaf}": None
        for path, leaf in (leaves_of(good[-1].data) if good else ())
        if isinstance(leaf, str) and is_code(leaf) and leaf not in followed
    }
    return list(found)[:3]


def _in_words(outcome: Outcome) -> str:
    return _words_of(outcome.data, 0) if outcome.data else outcome.text.strip()


def _words_of(data: Any, depth: int) -> str:
    if depth > DEEPEST:
        return "…"
    if isinstance(data, dict):
        return _joined(", ", (f"{key}: {_nested(value, depth)}" for key, value in data.items()))
    if isinstance(data, list):
        return _joined("; ", (_words_of(each, depth + 1) for each in data))
    if data is None or isinstance(data, bool):
        return {None: "none", True: "yes", False: "no"}[data]
    return str(data)


def _nested(value: Any, depth: int) -> str:
    words = _words_of(value, depth + 1)
    return f"({words})" if isinstance(value, dict | list) else words


def _joined(separator: str, texts: Iterable[str]) -> str:
    return separator.join(texts) or "none"


def _clip(text: str) -> str:
    return text if len(text) <= LONGEST_RESULT else text[:LONGEST_RESULT] + "…"

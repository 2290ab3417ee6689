"""What the keyless model says: one thought, and an answer made of the results that there are."""

import json
import re
from collections.abc import Mapping

from agent_core.messages import ResultStatus
from agent_core.models.keyless.task import Outcome, Task, leaves_of
from agent_core.models.keyless.words import LONGEST_TEXT, is_chinese, is_code, listed, parts_of
from agent_core.tools.base import ToolSpec

LONGEST_RESULT = 2000
"""Characters of one result that an answer repeats."""

MOST_TOLD = 12
"""Results, tools and names that an answer speaks of, the latest of all."""

VERBS = listed("query get fetch find lookup look read show check retrieve load do run")
"""Verbs that begin the names of tools and say nothing to a reader of an answer."""

LABELLED = r"[^\W\d_][^:：\n.。]{0,39}[:：]\s{0,9}\S"
FORM = r"[\"“「]([^\"“”「」<\n]{1,80})<[\w ]{1,30}>([^\"“”「」<\n]{0,80})[\"”」]"

FAILURES: Mapping[ResultStatus, tuple[str, str]] = {
    "error": ("failed", "失败"),
    "timed_out": ("took too long", "超时"),
    "interrupted": ("was interrupted", "被中断"),
    "denied": ("was not approved", "未获批准"),
    "not_run": ("was not run", "没有执行"),
}


def thought_of(task: Task) -> str:
    """The one thought before the answer, in the question's language."""
    names = ", ".join(dict.fromkeys(each.tool for each in task.outcomes[-MOST_TOLD:]))
    if is_chinese(task.question):
        return f"根据 {names} 的结果来回答。" if names else "没有工具结果，直接回答。"
    return f"The answer rests on the results of {names}." if names else "No tool has a result, so I answer directly."


def answer_of(task: Task, tools: tuple[ToolSpec, ...], wanting: tuple[str, tuple[str, ...]] | None) -> str:
    """The answer: what was found, what failed, and in a closing call (no tools) what is still open.

    A form that the instructions give in quotation marks with a place for the result, such as
    "It is <time>", is used where there is exactly one result. `wanting`: a tool that would help, and
    what it needs to know.
    """
    chinese = is_chinese(task.question)
    labels = {tool.name: _label(tool, chinese) for tool in tools}
    if not task.outcomes:
        return _without_results(labels, wanting, chinese)
    good = [each for each in task.outcomes if each.status == "ok"]
    found = {each.tool for each in good}
    bad = [each for each in task.outcomes if each.status != "ok" and each.tool not in found]
    references = [] if tools else _references(good, task.outcomes)
    form = re.search(FORM, task.instructions[:LONGEST_TEXT])
    if form and len(good) == 1 and not bad and not references:
        return form[1] + _told(good[0]) + form[2]
    lines = [_line(each, labels.get(each.tool) or _title(each.tool)) for each in (good + bad)[-MOST_TOLD:]]
    if references or (bad and not tools):
        lines.append(_closing(chinese, ", ".join(references)))
    return "\n".join(lines)


def _without_results(labels: dict[str, str], wanting: tuple[str, tuple[str, ...]] | None, chinese: bool) -> str:
    if wanting:
        label, names = labels[wanting[0]], ", ".join(wanting[1][:MOST_TOLD])
        return f"{label}需要更多信息: {names}" if chinese else f"{label} would help, but needs to know: {names}."
    known = list(labels.values())[:MOST_TOLD]
    if chinese:
        return "我是无需密钥的演示模型，没有适合这个问题的工具。" + (f"可用: {'、'.join(known)}。" if known else "")
    offer = f" I can help with: {', '.join(known)}." if known else ""
    return f"I am the keyless demo model, and no tool fits this question.{offer}"


def _label(tool: ToolSpec, chinese: bool) -> str:
    """What the tool does: its description up to a colon, or the half of that in the language; else its name."""
    head, colon, _ = tool.description.lstrip()[:60].replace("：", ":").partition(":")
    halves = [half.strip() for half in head.split("/") if half.strip()] if colon and "\n" not in head else []
    return next((half for half in halves if is_chinese(half) == chinese), halves[0] if halves else _title(tool.name))


def _title(name: str) -> str:
    parts = parts_of(name)
    text = " ".join(parts[1:] if len(parts) > 1 and parts[0] in VERBS else parts)
    return text[:1].upper() + text[1:] or "Result"


def _line(outcome: Outcome, label: str) -> str:
    text, chinese = _told(outcome), is_chinese(label)
    if outcome.status != "ok":
        english, said = FAILURES.get(outcome.status, FAILURES["error"])
        return f"{label}{said}: {text}" if chinese else f"{label} {english}: {text}"
    if outcome.data is None and re.match(LABELLED, text):
        return text
    return f"{label}完成: {text}" if chinese else f"{label}: {text}"


def _told(outcome: Outcome) -> str:
    leaves = [
        " ".join(path[-1:]) + ": " * bool(path) + (leaf if isinstance(leaf, str) else json.dumps(leaf))
        for path, leaf in leaves_of(outcome.data)
    ]
    text = ", ".join(leaves) or outcome.text.strip() or "none"
    return text if len(text) <= LONGEST_RESULT else text[:LONGEST_RESULT] + "…"


def _closing(chinese: bool, references: str) -> str:
    if chinese:
        ends = f" (还没有查: {references})" if references else ""
        return f"步数已用完，没有全部查完{ends}。回复“继续”可以接着查。"
    ends = f" (still open: {references})" if references else ""
    return f'The budget is used up before everything could be looked up{ends}. Say "continue" to go on.'


def _references(good: list[Outcome], outcomes: tuple[Outcome, ...]) -> list[str]:
    """Codes in the last good result that no call has followed yet."""
    followed = {each for outcome in outcomes for _, each in leaves_of(outcome.arguments) if isinstance(each, str)}
    followed |= {each for outcome in good[:-1] for _, each in leaves_of(outcome.data) if isinstance(each, str)}
    found = {
        f"{path[-1]} {leaf}": None
        for path, leaf in (leaves_of(good[-1].data) if good else ())
        if path and isinstance(leaf, str) and is_code(leaf) and leaf not in followed
    }
    return list(found)[:3]

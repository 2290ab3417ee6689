"""Who may do what: an agent's rules for the calls that its model makes."""

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Any, Literal, get_args

from agent_core.context import RunContext

logger = logging.getLogger(__name__)

Decided = Literal["run", "ask", "deny"]
"""`run`: at once. `ask`: only once a person has agreed. `deny`: never, and the model is told so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule for the calls of the tools whose name matches the pattern `tool`.

    With `arguments`, it counts only where each named argument matches its pattern: a text as it is, anything
    else as JSON. In a pattern `*` stands for any text, also none, and `?` for one character; every other character
    is itself, brackets too. `reason` is told to the model with a denial, and to the person who is asked.

    Raises ValueError for an unknown decision, TypeError for a pattern that is no text.
    """

    tool: str
    decision: Decided
    arguments: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""

    def __post_init__(self) -> None:
        if self.decision not in get_args(Decided):
            raise ValueError(f"a rule for {self.tool!r}: decision is {self.decision!r}, not 'run', 'ask' or 'deny'")
        for pattern in (self.tool, *self.arguments.values()):
            if not isinstance(pattern, str):
                raise TypeError(f"a rule for {self.tool!r}: {pattern!r} is no pattern; it must be a text")

    def fits(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether the rule is about this call."""
        return matches(name, self.tool) and all(
            key in arguments and matches(_text(arguments[key]), pattern) for key, pattern in self.arguments.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """An agent's rules. The first rule that fits a call decides; then the tool's own `approval`; then
    `decide(name, arguments, context)`, which returns a decision, or None for `run`.

    What cannot be judged, such as by a `decide` that raises or returns something else, is denied: what nobody has
    allowed is not done.

    Raises TypeError for a rule that is none, and for a `decide` that cannot be called as a function.
    """

    rules: Sequence[Rule] = ()
    decide: Callable[[str, Mapping[str, Any], RunContext], Decided | None] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", tuple(self.rules))
        for rule in self.rules:
            if not isinstance(rule, Rule):
                raise TypeError(f"permissions: {rule!r} is no Rule")
        if self.decide is not None and (not callable(self.decide) or iscoroutinefunction(self.decide)):
            raise TypeError("permissions: decide must be a function (not async), or None")

    def judge(
        self, name: str, arguments: Mapping[str, Any], *, approval: bool, context: Callable[[], RunContext]
    ) -> tuple[Decided, str]:
        """The decision and its reason, which may be empty. `approval` is the tool's own default."""
        try:
            rule = next((rule for rule in self.rules if rule.fits(name, arguments)), None)
            if rule is not None:
                return rule.decision, rule.reason
            if approval:
                return "ask", ""
            decision = None if self.decide is None else self.decide(name, arguments, context())
        except Exception:
            logger.exception("the permissions of %s could not be decided; the call is denied", name)
            return "deny", "It could not be decided whether this is allowed."
        if decision is None:
            return "run", ""
        if decision not in get_args(Decided):
            return "deny", "It is not decided whether this is allowed."
        return decision, ""


def matches(text: str, pattern: str) -> bool:
    """Whether the whole text matches the pattern; upper and lower case differ.

    In time that is linear in the text, which may be a model's: each piece between two `*` is looked for once, from
    where the one before it ended. A regular expression of the whole would try again from every place.
    """
    first, *others = pattern.split("*")
    if not others:
        return _is_at(text, 0, first) and len(text) == len(first)
    *middle, last = others
    end = len(text) - len(last)
    if len(first) > end or not _is_at(text, 0, first) or not _is_at(text, end, last):
        return False
    at = len(first)
    for piece in middle:
        found = _find(text, at, end, piece)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _is_at(text: str, at: int, piece: str) -> bool:
    if "?" not in piece:
        return text.startswith(piece, at)
    part = text[at : at + len(piece)]
    return len(part) == len(piece) and all(each in ("?", real) for each, real in zip(piece, part, strict=True))


def _find(text: str, start: int, end: int, piece: str) -> int:
    """Where the piece first stands in this part of the text; -1 where it does not."""
    if "?" not in piece:
        return text.find(piece, start, end)
    # Of a fixed length, so nothing is tried twice at one place.
    found = re.compile(".".join(map(re.escape, piece.split("?"))), re.DOTALL).search(text, start, end)
    return -1 if found is None else found.start()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))

"""Permissions: an agent's rules for the calls that its model makes."""

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
"""`run`: at once. `ask`: after a person has agreed. `deny`: never, and the model is told so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule for calls of the tools whose names match the pattern `tool`.

    - arguments: a pattern for each named argument; the rule fits only if all of them match. A text is matched as it
      is, every other value as JSON. An argument that a call leaves out has the default of the tool's schema
    - reason: told to the model with a denial, and to the person who is asked

    In a pattern `*` stands for any text, also an empty one, and `?` for one character. Every other character stands
    for itself, brackets too.

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
        """Whether the rule applies to this call."""
        return matches(name, self.tool) and all(
            key in arguments and matches(_text(arguments[key]), pattern) for key, pattern in self.arguments.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """An agent's rules.

    The first rule that fits a call decides. Without one, the tool's own `approval` decides. Without that, `decide(name,
    arguments, context)` does: it returns a decision, or None for `run`.

    A call that cannot be judged is denied, for instance if `decide` raises or returns something else. Nothing is done
    that nobody has allowed.

    Raises TypeError for a rule that is no Rule, and for a `decide` that is no plain function.
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
    """Whether the whole text matches the pattern. Upper and lower case differ.

    The time is linear in the text, because a model may have written it. Each piece between two `*` is searched once,
    from the end of the piece before. A regular expression for the whole pattern would try again from every place.
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
    """The first place of the piece in this part of the text, or -1."""
    if "?" not in piece:
        return text.find(piece, start, end)
    # The expression has a fixed length, so it never tries twice at one place.
    found = re.compile(".".join(map(re.escape, piece.split("?"))), re.DOTALL).search(text, start, end)
    return -1 if found is None else found.start()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))

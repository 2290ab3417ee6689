"""Who may do what: an agent's rules for the calls that its model makes."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from agent_core.context import RunContext

logger = logging.getLogger(__name__)

Decided = Literal["run", "ask", "deny"]
"""`run`: at once. `ask`: only once a person has agreed. `deny`: never, and the model is told so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule for the calls of the tools whose name matches `tool` (`*` and `?` stand for any text).

    With `arguments`, it counts only where each named argument matches its pattern: a text as it is, anything
    else as JSON. `reason` is told to the model with a denial, and to the person who is asked.
    """

    tool: str
    decision: Decided
    arguments: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""

    def __post_init__(self) -> None:
        if self.decision not in get_args(Decided):
            raise ValueError(f"a rule for {self.tool!r}: decision is {self.decision!r}, not 'run', 'ask' or 'deny'")

    def fits(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether the rule is about this call."""
        return fnmatchcase(name, self.tool) and all(
            key in arguments and fnmatchcase(_text(arguments[key]), pattern) for key, pattern in self.arguments.items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """An agent's rules. The first rule that fits a call decides; then the tool's own `approval`; then
    `decide(name, arguments, context)`, which returns a decision, or None for `run`.

    A `decide` that raises, or returns something else, denies: what nobody has allowed is not done.
    """

    rules: Sequence[Rule] = ()
    decide: Callable[[str, Mapping[str, Any], RunContext], Decided | None] | None = None

    def judge(
        self, name: str, arguments: Mapping[str, Any], *, approval: bool, context: Callable[[], RunContext]
    ) -> tuple[Decided, str]:
        """The decision and its reason, which may be empty. `approval` is the tool's own default."""
        for rule in self.rules:
            if rule.fits(name, arguments):
                return rule.decision, rule.reason
        if approval:
            return "ask", ""
        if self.decide is None:
            return "run", ""
        try:
            decision = self.decide(name, arguments, context())
        except Exception:
            logger.exception("the permissions of %s could not be decided; the call is denied", name)
            return "deny", "It could not be decided whether this is allowed."
        if decision is None:
            return "run", ""
        return (
            (decision, "") if decision in get_args(Decided) else ("deny", "It is not decided whether this is allowed.")
        )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))

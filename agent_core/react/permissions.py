"""What may be done with a call: run it here, leave it to the client, deny it, or answer that it is
wrong. Everything here reads; acting does."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agent_core.messages import ToolCall, arguments_of
from agent_core.react.run import Run

ECHO = 800
"""Characters of broken arguments that are shown to the model again."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done. `reason` goes to the model where the call is not run."""

    kind: Literal["run", "client", "deny", "wrong"]
    arguments: Mapping[str, Any]
    reason: str = ""


def judge(run: Run, call: ToolCall) -> Verdict:
    """Judge one call of the model.

    Only what was offered to the model in this run can be run, arguments that are no JSON object never
    run, and a tool that needs approval is denied as long as nobody can give it.
    """
    if all(call.name != spec.name for spec in run.offered):
        names = ", ".join(sorted(spec.name for spec in run.offered)) or "none"
        return Verdict("wrong", {}, f"There is no tool named {call.name!r}. The tools that can be called are: {names}.")
    arguments = arguments_of(call)
    if arguments is None:
        shown = call.arguments[:ECHO]
        return Verdict("wrong", {}, f"The arguments are not a JSON object, so nothing was run. They were: {shown}")
    tool = run.tools.get(call.name)
    if tool is None:
        return Verdict("client", arguments)
    if tool.approval:
        return Verdict("deny", arguments, "This tool needs a person's approval, which nobody can give here.")
    return Verdict("run", arguments)

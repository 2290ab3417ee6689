"""An agent: its model, instructions, tools and limits."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from typing import Literal

from agent_core.context import RunContext
from agent_core.guards.settings import Guards
from agent_core.models.base import Model
from agent_core.permissions import Permissions
from agent_core.tools.base import Tool

AGENT_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
MODEL_NAME = re.compile(r"[a-z0-9_-]+:\S+")


@dataclass(frozen=True, slots=True)
class Agent:
    """A frozen value that all runs share. It holds no run's state.

    - name: 1 to 64 of `A-Z a-z 0-9 _ -`; it stands in the URL
    - model: `provider:model` such as `openai:gpt-5`, or a Model of your own
    - instructions: the system message, or a function that makes it from the run's context
    - tools: functions with `@tool`; their names are unique
    - max_iterations: rounds of one run before the model must give a closing answer, at least 1
    - max_retries: how often a model call is sent again if it failed before its first piece
    - fallback_model: the model that is asked once if the retries fail too
    - on_disconnect: whether a run ends (`cancel`) or goes on (`continue`) when its last reader leaves; None
      leaves it to the server
    - permissions: rules for the model's calls; if none fits, the tool's own `approval` counts
    - approval_seconds: how long a person may take to approve a call; None for ever
    - parallel_tool_calls: whether the calls of one answer run side by side, up to `max_parallel_tool_calls`;
      `exclusive` tools run alone
    - guards: the limits of a turn (all the runs for one question); they stop a model that goes in circles
    - description: what `GET /agents` tells about it

    Raises ValueError for a wrong value, TypeError for a wrong type.
    """

    name: str
    model: str | Model
    instructions: str | Callable[[RunContext], str] = ""
    tools: Sequence[Tool] = ()
    max_iterations: int = 10
    max_retries: int = 2
    description: str = ""
    fallback_model: str | Model | None = None
    on_disconnect: Literal["cancel", "continue"] | None = None
    permissions: Permissions = field(default_factory=Permissions)
    approval_seconds: float | None = None
    parallel_tool_calls: bool = False
    max_parallel_tool_calls: int = 4
    guards: Guards = field(default_factory=Guards)

    def __post_init__(self) -> None:
        if not AGENT_NAME.fullmatch(self.name):
            raise ValueError(f"agent name {self.name!r}: 1 to 64 of A-Z a-z 0-9 _ - are allowed")
        _check_types(self)
        for model in (self.model, self.fallback_model):
            if isinstance(model, str) and not MODEL_NAME.fullmatch(model):
                raise ValueError(f"agent {self.name}: model {model!r} is not of the form provider:model")
        if self.max_iterations < 1:
            raise ValueError(f"agent {self.name}: max_iterations is {self.max_iterations}, but at least 1 is needed")
        if self.on_disconnect not in (None, "cancel", "continue"):
            raise ValueError(f"agent {self.name}: on_disconnect is {self.on_disconnect!r}, not 'cancel' or 'continue'")
        if self.max_parallel_tool_calls < 1:
            raise ValueError(f"agent {self.name}: max_parallel_tool_calls must be at least 1")
        if self.approval_seconds is not None and not self.approval_seconds > 0:
            raise ValueError(f"agent {self.name}: approval_seconds must be more than 0, or None")
        if self.max_retries < 0:
            raise ValueError(f"agent {self.name}: max_retries is {self.max_retries}, but it cannot be negative")
        object.__setattr__(self, "tools", tuple(self.tools))
        seen: set[str] = set()
        for each in self.tools:
            if not hasattr(each, "spec"):
                raise TypeError(f"agent {self.name}: {each!r} is not a tool: decorate the function with @tool")
            if each.spec.name in seen:
                raise ValueError(f"agent {self.name}: two tools are named {each.spec.name!r}")
            seen.add(each.spec.name)


def _check_types(agent: Agent) -> None:
    """Raise TypeError here, for what would otherwise fail in every run."""
    for model in (agent.model, "" if agent.fallback_model is None else agent.fallback_model):
        if not isinstance(model, str) and not callable(getattr(model, "stream", None)):
            raise TypeError(f"agent {agent.name}: model {model!r} is neither provider:model nor a Model")
    instructions = agent.instructions
    if not isinstance(instructions, str) and (not callable(instructions) or iscoroutinefunction(instructions)):
        raise TypeError(f"agent {agent.name}: instructions must be a text, or a function (not async) that makes one")
    if not isinstance(agent.guards, Guards):
        raise TypeError(
            f"agent {agent.name}: guards must be Guards, and {agent.guards!r} is none; Guards() has defaults"
        )
    if not isinstance(agent.permissions, Permissions):
        raise TypeError(f"agent {agent.name}: permissions must be Permissions, and {agent.permissions!r} is none")
    for name in ("max_iterations", "max_retries", "max_parallel_tool_calls"):
        if type(getattr(agent, name)) is not int:
            raise TypeError(f"agent {agent.name}: {name} must be a whole number")

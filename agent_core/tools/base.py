"""What a tool is to the engine: something the model sees, and something that can be run."""

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent_core.context import ToolContext

NAME_PATTERN = r"[A-Za-z0-9_-]{1,64}"
"""The names that all providers accept, for `re.fullmatch`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """What the model sees of a tool: `parameters` is a JSON Schema of type object."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})


class Tool(Protocol):
    """A tool that this server runs.

    `approval`: a person must agree before it runs. `timeout`: seconds, None for no limit. `idempotent`: a
    call may be run again after a crash; the idempotency key in its context stays the same.
    """

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def approval(self) -> bool: ...

    @property
    def timeout(self) -> float | None: ...

    @property
    def idempotent(self) -> bool: ...

    async def run(self, arguments: Mapping[str, Any], context: ToolContext, threads: Executor) -> str:
        """Check the arguments, do the work and return the result as text.

        Raises ToolError with what the model may know (arguments that do not fit are told so); any
        other exception is the tool's own fault and is not shown. Synchronous work goes to `threads`.
        """
        ...

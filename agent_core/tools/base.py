"""The interface of tools: the part that the model sees, and the part that the engine runs."""

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent_core.context import ToolContext
from agent_core.messages import Part

NAME_PATTERN = r"[A-Za-z0-9_-]{1,64}"
"""The names that all providers accept, for `re.fullmatch`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """The part of a tool that the model sees. `parameters` is a JSON Schema of type object."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})

    @property
    def defaults(self) -> dict[str, Any]:
        """The arguments that a call may leave out, as the schema fills them in."""
        members = self.parameters.get("properties")
        named = members.items() if isinstance(members, Mapping) else ()
        return {name: each["default"] for name, each in named if isinstance(each, Mapping) and "default" in each}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A tool returns this if it has begun an operation elsewhere. The run ends as `waiting`, and the call's result
    comes later.

    - operation_id: names the operation, 1 to 256 characters
    - wait_id: an id of the tool's own for whoever waits, at most 256 characters
    - retry_after: seconds after which to ask again

    Raises ValueError.
    """

    operation_id: str
    wait_id: str | None = None
    retry_after: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.operation_id, str) or not 0 < len(self.operation_id) <= 256:
            raise ValueError("operation_id must have 1 to 256 characters")
        if self.wait_id is not None and len(self.wait_id) > 256:
            raise ValueError("wait_id must have at most 256 characters")


Result = str | tuple[Part, ...] | Pending
"""The result of a call that did not fail. A text is never empty, and parts hold at least one MediaPart."""


class Tool(Protocol):
    """A tool that this server runs.

    - approval: a person must agree before it runs
    - timeout: seconds for one call, None for no limit
    - idempotent: a call may run again after a crash, with the same idempotency key in its context
    - exclusive: no other call of the run runs beside it
    - repeatable: exempt from the guards on repeats and on calls of one tool
    """

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def approval(self) -> bool: ...

    @property
    def timeout(self) -> float | None: ...

    @property
    def idempotent(self) -> bool: ...

    @property
    def exclusive(self) -> bool: ...

    @property
    def repeatable(self) -> bool: ...

    async def run(self, arguments: Mapping[str, Any], context: ToolContext, threads: Executor) -> Result:
        """Do the work and return the result. The arguments fit the schema; the tool checks what a schema cannot say.

        Raises ToolError with a text for the model, also for arguments that do not fit. Any other exception is a fault
        of the tool, and its text is not shown.

        Synchronous work goes to `threads`. While the call waits for a thread, `context.queued` is set. In the thread
        the tool clears it first, and then does nothing if `context.cancelled` is set. So if the time limit finds a call
        queued, the call never runs.
        """
        ...

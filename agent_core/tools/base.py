"""What a tool is to the engine: something the model sees, and something that can be run."""

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
    """What the model sees of a tool: `parameters` is a JSON Schema of type object."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """What a tool returns that has begun something which goes on elsewhere: the run ends as `waiting`, and the
    call's result comes later, under `operation_id`, which has 1 to 256 characters. `retry_after` is in seconds.

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
"""What comes of a call that did not fail. Parts hold at least one MediaPart; text is never empty."""


class Tool(Protocol):
    """A tool that this server runs.

    `approval`: a person must agree before it runs. `timeout`: seconds, None for no limit. `idempotent`: a
    call may be run again after a crash; the idempotency key in its context stays the same. `exclusive`: no other
    call of the run goes on beside it. `repeatable`: the guards on repeats and on calls of one tool let it be.
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
        """Do the work and return the result. The arguments fit the schema; what it cannot say is checked here.

        Raises ToolError with what the model may know (arguments that do not fit are told so); any
        other exception is the tool's own fault and is not shown. Synchronous work goes to `threads`. A tool that
        has done nothing yet but wait for a thread sets `context.queued`; in the thread it clears it first, and
        then does nothing if `context.cancelled` is set. So a call that the time limit found queued is never run.
        """
        ...

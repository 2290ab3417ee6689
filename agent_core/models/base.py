"""What a model is to the engine: a request goes in, pieces come out.

A model holds no state of a run and owns no connection; the engine lends it the one HTTP client.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from msgspec import Struct

from agent_core.messages import Message
from agent_core.models.http import HttpClient
from agent_core.models.http import Timeouts as Timeouts
from agent_core.tools.base import ToolSpec
from agent_core.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """What a client asks of the model's sampling; None leaves it to the provider. A model that cannot do
    one of them may leave it out. `max_tokens` bounds each call's answer. `strict_tools` names the tools whose
    arguments must follow their schema exactly."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    reasoning_effort: str | None = None
    parallel_tool_calls: bool | None = None
    strict_tools: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One call. `messages` is complete and paired, the system message first where there is one.

    No `tools` means that the model must answer with text (a closing call). `tool_choice` is `auto`,
    `none`, `required`, or the name of the one tool that must be called.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: str = "auto"
    options: ModelOptions = field(default_factory=ModelOptions)


class TextPiece(Struct, frozen=True, gc=False):
    text: str


class ThinkingPiece(Struct, frozen=True, gc=False):
    text: str


class CallPiece(Struct, frozen=True):
    """A tool call begins. `index` tells the calls of one answer apart, counting from 0.

    `extra`: members that the provider wants back when the call is replayed. `origin` marks the model, so that it knows
    its own calls again: it gets back their ids and members as it gave them, and another model does not.
    """

    index: int
    id: str
    name: str
    extra: Mapping[str, Any] = {}
    origin: str = ""


class ArgumentsPiece(Struct, frozen=True, gc=False):
    """More of the JSON text of a call that has begun."""

    index: int
    text: str


class UsagePiece(Struct, frozen=True):
    """What the call cost: at most one, the last one reported."""

    usage: Usage


class CutPiece(Struct, frozen=True, gc=False):
    """The provider cut the answer: it became too long, or a filter stepped in. At most one."""

    why: Literal["length", "filter"]


Piece = TextPiece | ThinkingPiece | CallPiece | ArgumentsPiece | UsagePiece | CutPiece
"""Pieces are never empty strings, and their text is well formed (see messages.well_formed)."""


class Model(Protocol):
    """A model. `provider` and `name` appear in usage records; together they are `provider:name`."""

    @property
    def provider(self) -> str: ...

    @property
    def name(self) -> str: ...

    def stream(self, request: ModelRequest, http: HttpClient) -> AsyncGenerator[Piece, None]:
        """Send the request and yield what comes.

        Ends normally only where the provider said that its answer is complete. Everything else
        raises ModelError with a code. Closing the generator closes the connection.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often a call is sent again that failed before its first piece: exponential, with jitter.

    Times in seconds. A provider's Retry-After is obeyed up to `longest`.
    """

    attempts: int = 2
    first: float = 0.5
    longest: float = 30.0
    statuses: frozenset[int] = field(default_factory=lambda: frozenset({408, 409, 429, 500, 502, 503, 504, 524, 529}))

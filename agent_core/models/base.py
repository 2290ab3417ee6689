"""The interface of models: a request goes in, pieces come out.

A model holds no run's state and owns no connection. The engine lends it the one HTTP client.
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
    """How a client wants the model to sample. None leaves an option to the provider, and a model may leave out an
    option that it cannot do.

    `max_tokens` bounds the answer of each call. `strict_tools` names the tools whose arguments must follow their schema
    exactly.
    """

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
    """One call of a model.

    - messages: the whole conversation, paired, with the system message first if there is one
    - tools: without any, the model must answer with text (a closing call)
    - tool_choice: `auto`, `none`, `required`, or the name of the one tool that the model must call
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
    """A tool call begins.

    - index: tells the calls of one answer apart, from 0
    - extra: fields that the provider wants back with the call
    - origin: the mark of the model. By it a model knows its own calls in a later request, and gets back their ids and
      fields as it gave them. Another model does not get them
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
    """The tokens of the call, as the provider reported them last. At most one of an answer."""

    usage: Usage


class CutPiece(Struct, frozen=True, gc=False):
    """The provider cut the answer: it became too long, or a filter stopped it. At most one of an answer."""

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
        """Send the request and yield the pieces of the answer.

        Ends normally only if the provider said that its answer is complete. Everything else raises ModelError. Closing
        the generator closes the connection.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How a call is sent again if it failed before its first piece: with exponential waits and jitter.

    - attempts: how often at most
    - first, longest: the first wait and the longest, in seconds. A provider's Retry-After is obeyed up to `longest`
    - statuses: a call with another HTTP status is not sent again
    """

    attempts: int = 2
    first: float = 0.5
    longest: float = 30.0
    statuses: frozenset[int] = field(default_factory=lambda: frozenset({408, 409, 429, 500, 502, 503, 504, 524, 529}))

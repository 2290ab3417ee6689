"""What happens in a run: the internal events. Every wire format is made from them.

- run_id: the event's run
- reply_id: the assistant message that it belongs to, empty for none
- lane: `root`, or the id of the tool call that runs a subagent
- at: when it was made, in nanoseconds since the epoch; 0 if it tells again what was stored

Blocks of one lane never interleave: a start, its deltas and its end come before the next start. A run's events begin
with one AgentStart and end with one AgentEnd or RunFailed.

As JSON an event is `{"type": "EXCEED_MAX_ITERS", "maxIters": 1, …}`: the class name in upper snake case, the members
in camel case.
"""

import re
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct, field

from agent_core.clock import utc_now
from agent_core.errors import Code
from agent_core.interrupts import Interrupt
from agent_core.messages import Message, Part, ResultStatus
from agent_core.sizes import members_of, size_of
from agent_core.usage import Usage

OVERHEAD = 96
"""Bytes of an event without its contents. Only the order of magnitude counts."""

WEIGHTLESS = frozenset({"run_id", "reply_id", "lane", "at", "agent", "model", "usage"})
"""Members that weigh nothing: a run's events share them, or they are short values of the server's own."""

RunStatus = Literal["completed", "max_iterations", "client_tools", "approval", "waiting", "cancelled"]
"""How a run ended, unless it failed.

- completed: the model answered
- max_iterations: the rounds were used up, and a closing answer was given; a new run on the session goes on
- client_tools: calls wait for the client
- approval: calls wait for a person
- waiting: calls wait for an operation elsewhere
- cancelled: its user stopped it, or its client left
"""


Cut = Literal["length", "filter"]
"""Why a provider ended an answer before the model did: it was too long, or a filter stopped it."""


def _tag(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


class Event(Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag=_tag, rename="camel"):
    """The base of all events. The garbage collector does not track them, since they cannot be part of a cycle."""

    run_id: str
    reply_id: str = ""
    lane: str = "root"
    at: int = 0

    @property
    def weight(self) -> int:
        """Roughly the bytes that the event takes in memory. Classes with many events or large values have a quicker
        way of their own."""
        return OVERHEAD + sum([size_of(getattr(self, name)) for name in members_of(self.__class__, WEIGHTLESS)])


class AgentStart(Event, frozen=True, kw_only=True):
    """The run began. Its input is stored, or the run waits for its session; then the next event says so."""

    agent: str


class AgentEnd(Event, frozen=True, kw_only=True):
    """The run ended, and everything that it did is stored. `usage` is the sum for each model. `interrupts` are what the
    run waits for. `cut` is set if its answer is not whole."""

    status: RunStatus
    interrupts: tuple[Interrupt, ...] = ()
    usage: tuple[Usage, ...] = ()
    cut: Cut | None = None


class RunFailed(Event, frozen=True, kw_only=True):
    """The run failed. `message` is our own sentence and safe to show. `param` is the field of the request that is
    wrong. `retry_after` is the provider's wish in seconds, None without one."""

    code: Code
    message: str
    param: str | None = None
    retry_after: float | None = None
    usage: tuple[Usage, ...] = ()


class StepStart(Event, frozen=True, kw_only=True):
    """A round of reasoning and acting begins; `iteration` counts from 0 in each run."""

    iteration: int


class StepEnd(Event, frozen=True, kw_only=True):
    iteration: int


class ModelCallStart(Event, frozen=True, kw_only=True):
    model: str


class ModelCallEnd(Event, frozen=True, kw_only=True):
    """The model's answer is complete, or broke off. `usage` is None if the provider reported none; `cut` is None
    unless the provider ended the answer."""

    model: str
    usage: Usage | None = None
    cut: Cut | None = None


class AnswerCut(Event, frozen=True, kw_only=True):
    """The provider ended this message before the model did."""

    why: Cut


class TextStart(Event, frozen=True, kw_only=True):
    """A block of text begins in the assistant message `reply_id`. It may have several, with tool calls between."""


class TextDelta(Event, frozen=True, kw_only=True):
    text: str

    @property
    def weight(self) -> int:
        return OVERHEAD + len(self.text)


class TextEnd(Event, frozen=True, kw_only=True):
    pass


class ThinkingStart(Event, frozen=True, kw_only=True):
    """Reasoning begins. `block_id` is unique in the session and is not the message's id."""

    block_id: str


class ThinkingDelta(Event, frozen=True, kw_only=True):
    """A piece of the reasoning. It shares its `block_id` with the block's start, which weighs it."""

    block_id: str
    text: str

    @property
    def weight(self) -> int:
        return OVERHEAD + len(self.text)


class ThinkingEnd(Event, frozen=True, kw_only=True):
    block_id: str


class ToolCallStart(Event, frozen=True, kw_only=True):
    call_id: str
    name: str


class ToolCallDelta(Event, frozen=True, kw_only=True):
    """A piece of the arguments' JSON text. It shares its `call_id` with the call's start, which weighs it."""

    call_id: str
    text: str

    @property
    def weight(self) -> int:
        return OVERHEAD + len(self.text)


class ToolCallEnd(Event, frozen=True, kw_only=True):
    call_id: str


class ToolResultStart(Event, frozen=True, kw_only=True):
    """A call begins to run. It was cleared to."""

    call_id: str
    name: str


class ToolResultEnd(Event, frozen=True, kw_only=True):
    """A call has its result, and the result is stored. `message_id` is the tool message's id. A result with media has
    `parts`; then `content` is only its text."""

    call_id: str
    name: str
    message_id: str
    status: ResultStatus
    content: str
    parts: tuple[Part, ...] = ()


class FinalOutput(Event, frozen=True, kw_only=True):
    """The run's answer, whole."""

    text: str


class ExceedMaxIters(Event, frozen=True, kw_only=True):
    """The run's rounds are used up; a closing answer without tools follows. No converter claims it, on purpose: clients
    see it as RAW."""

    max_iters: int
    current_iter: int
    created_at: str = field(default_factory=utc_now)


class RequireExternalExecution(Event, frozen=True, kw_only=True):
    """These calls wait for the client, in the order in which the model made them."""

    call_ids: tuple[str, ...]


class RequireUserConfirm(Event, frozen=True, kw_only=True):
    """Calls wait for a person or for an operation elsewhere, in the order in which the model made them."""

    interrupts: tuple[Interrupt, ...]


class Progress(Event, frozen=True, kw_only=True):
    """How far a call has come, in the tool's own words. `fraction` is from 0 to 1, None if it is not known."""

    call_id: str
    name: str
    message: str
    fraction: float | None = None


class Guard(Event, frozen=True, kw_only=True):
    """A guard has tripped. `tool` is empty if the guard is about the run. `message` is what the model is told."""

    guard: str
    action: str
    tool: str = ""
    count: int = 0
    message: str = ""


class Retry(Event, frozen=True, kw_only=True):
    """A model call failed before any of its answer was forwarded, and is sent again. `attempt` counts from 1. The wait
    before it is `delay`, in seconds."""

    code: Code
    attempt: int
    delay: float


class Fallback(Event, frozen=True, kw_only=True):
    """The agent's model failed with `code` before any of its answer was forwarded. `model` is asked instead."""

    code: Code
    model: str


class Custom(Event, frozen=True, kw_only=True):
    """A tool's own event, or the news of an edit. `size` is roughly what the value takes, in bytes."""

    name: str
    value: Any
    size: int = 0

    @property
    def weight(self) -> int:
        return OVERHEAD + size_of(self.name) + self.size


class StateSnapshot(Event, frozen=True, kw_only=True):
    """The whole state of the session, a JSON value. It comes before the state's first change in a run, and if the
    client has another state. `size` as in Custom."""

    value: Any
    size: int = 0

    @property
    def weight(self) -> int:
        return OVERHEAD + self.size


class StateDelta(Event, frozen=True, kw_only=True):
    """A change of the session's state: a patch (RFC 6902) to the state that the client was told last. `size` as in
    Custom."""

    patch: list[dict[str, Any]]
    size: int = 0

    @property
    def weight(self) -> int:
        return OVERHEAD + self.size


MOST_TOLD = 10_000
"""Messages that one snapshot may tell. A frame has room for hardly more."""


def latest(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The last of these messages, as many as one snapshot may tell."""
    return tuple(messages[-MOST_TOLD:])


class Rewound(Event, frozen=True, kw_only=True):
    """The history goes on behind the message `after`, or from its beginning if that is empty."""

    after: str


class MessagesSnapshot(Event, frozen=True, kw_only=True):
    """The conversation as it stands, at most its last MOST_TOLD messages (`latest`). It is for a reader that has missed
    events, or that has asked what there is.

    `clients` are the clients that have had runs in the session (`RunInput.client`). `told` is the answer of the agent's
    last run, if the reader is told of that run.
    """

    messages: tuple[Message, ...]
    clients: frozenset[str] = frozenset()
    told: tuple[Message, ...] = ()

    @property
    def weight(self) -> int:
        messages = sum(message.weight for message in (*self.messages, *self.told))
        return OVERHEAD + messages + sum(size_of(client) for client in self.clients)

"""What happens in a run: the internal events, which every wire format is made from.

Each event knows its run (`run_id`), the assistant message that it belongs to (`reply_id`, empty
where there is none), its lane: `root`, or the id of the tool call that runs a subagent; and when it was made: `at`,
in nanoseconds since the epoch, 0 where it tells again what was stored.

Blocks of one lane never interleave: a start is followed by its deltas and its end before the next
block starts. A run's events begin with one AgentStart and end with one AgentEnd or RunFailed.

As JSON an event is `{"type": "EXCEED_MAX_ITERS", "maxIters": 1, …}`: the class name in upper snake
case, the members in camel case.
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
"""What an event weighs beside what it holds, in bytes; only the order of magnitude counts."""

WEIGHTLESS = frozenset({"run_id", "reply_id", "lane", "at", "agent", "model", "usage"})
"""Members that weigh nothing: a run's events share them, or they are counts and names of the server's own."""

RunStatus = Literal["completed", "max_iterations", "client_tools", "approval", "waiting", "cancelled"]
"""How a run ended that did not fail.

`completed`: the model answered. `max_iterations`: the budget was used up and a closing answer was
given; a new run on the session goes on. `client_tools`: calls wait for the client. `approval`: calls wait
for a person. `waiting`: calls wait for an operation that goes on elsewhere. `cancelled`: the user stopped it.
"""


Cut = Literal["length", "filter"]
"""Why a provider ended an answer before the model did: it was too long, or a filter stepped in."""


def _tag(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


class Event(Struct, frozen=True, kw_only=True, gc=False, tag_field="type", tag=_tag, rename="camel"):
    """The root of all events. They hold nothing that could refer back to them, so the garbage collector
    does not track them."""

    run_id: str
    reply_id: str = ""
    lane: str = "root"
    at: int = 0

    @property
    def weight(self) -> int:
        """Roughly the bytes that the event takes, for whoever keeps it. Here all members count; the classes of
        which there are many, or whose values may be large, have a quicker way of their own."""
        return OVERHEAD + sum([size_of(getattr(self, name)) for name in members_of(self.__class__, WEIGHTLESS)])


class AgentStart(Event, frozen=True, kw_only=True):
    """The run began. Its input is stored, or it waits for its session (then the next event says so)."""

    agent: str


class AgentEnd(Event, frozen=True, kw_only=True):
    """The run ended, and everything that it did is stored. `usage` is the sum per model; `interrupts` are what
    it waits for, where its status says so; `cut` says that its answer is not whole."""

    status: RunStatus
    interrupts: tuple[Interrupt, ...] = ()
    usage: tuple[Usage, ...] = ()
    cut: Cut | None = None


class RunFailed(Event, frozen=True, kw_only=True):
    """The run failed. `message` is our own sentence for the code and safe to show. `retry_after` is the
    provider's wish in seconds, where it gave one; `param` the field of the request that is wrong."""

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
    """The model's answer is complete, or broke off. `usage` is None where the provider reported none. `cut` says
    why the provider ended the answer before the model did: it was too long, or was filtered."""

    model: str
    usage: Usage | None = None
    cut: Cut | None = None


class AnswerCut(Event, frozen=True, kw_only=True):
    """The provider ended this message before the model did."""

    why: Cut


class TextStart(Event, frozen=True, kw_only=True):
    """Text of the assistant message `reply_id` begins (again, where a tool call came between)."""


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
    """The block's id is that of its start, which weighs it."""

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
    """A piece of the arguments' JSON text. The call's id is that of its start, which weighs it."""

    call_id: str
    text: str

    @property
    def weight(self) -> int:
        return OVERHEAD + len(self.text)


class ToolCallEnd(Event, frozen=True, kw_only=True):
    call_id: str


class ToolResultStart(Event, frozen=True, kw_only=True):
    """A call that was cleared to run is being run."""

    call_id: str
    name: str


class ToolResultEnd(Event, frozen=True, kw_only=True):
    """The result of a call, which is stored. `message_id` is the tool message's own. `parts` are those of a result
    that has media; `content` is its text then."""

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
    """The budget of reasoning rounds is used up; a closing answer without tools follows.

    It has no converter on purpose: clients see it as RAW.
    """

    max_iters: int
    current_iter: int
    created_at: str = field(default_factory=utc_now)


class RequireExternalExecution(Event, frozen=True, kw_only=True):
    """These calls wait for the client, in the order in which the model made them."""

    call_ids: tuple[str, ...]


class RequireUserConfirm(Event, frozen=True, kw_only=True):
    """Calls wait for a person, or for what goes on elsewhere, in the order in which the model made them."""

    interrupts: tuple[Interrupt, ...]


class Progress(Event, frozen=True, kw_only=True):
    """How far a tool's call has come, in its own words; `fraction` is from 0 to 1, None where it is not known."""

    call_id: str
    name: str
    message: str
    fraction: float | None = None


class Guard(Event, frozen=True, kw_only=True):
    """A guard has tripped: which, what it does about it, for which tool (empty: for the run), at which count.
    `message` is what the model is told."""

    guard: str
    action: str
    tool: str = ""
    count: int = 0
    message: str = ""


class Retry(Event, frozen=True, kw_only=True):
    """A model call failed before anything of it was forwarded and is tried again.

    `delay` is the wait before the attempt, in seconds; `attempt` counts from 1.
    """

    code: Code
    attempt: int
    delay: float


class Fallback(Event, frozen=True, kw_only=True):
    """The agent's model failed with `code` before anything of it was forwarded; `model` is asked instead."""

    code: Code
    model: str


class Custom(Event, frozen=True, kw_only=True):
    """An event of a user's own, from a tool's context. `size` is roughly what the value takes, in bytes."""

    name: str
    value: Any
    size: int = 0

    @property
    def weight(self) -> int:
        return OVERHEAD + size_of(self.name) + self.size


class StateSnapshot(Event, frozen=True, kw_only=True):
    """The session's state, whole, as JSON has it: before its first change in a run, or where the client has another.
    `size` as in Custom."""

    value: Any
    size: int = 0

    @property
    def weight(self) -> int:
        return OVERHEAD + self.size


class StateDelta(Event, frozen=True, kw_only=True):
    """A change of the session's state: a patch of RFC 6902 to what the client was told before. `size` as in Custom."""

    patch: list[dict[str, Any]]
    size: int = 0

    @property
    def weight(self) -> int:
        return OVERHEAD + self.size


MOST_TOLD = 10_000
"""Messages that are told at once. A frame takes hardly more."""


def latest(messages: Sequence[Message]) -> tuple[Message, ...]:
    """What is told of these messages."""
    return tuple(messages[-MOST_TOLD:])


class Rewound(Event, frozen=True, kw_only=True):
    """The history goes on behind the message `after`; from its beginning where that is empty."""

    after: str


class MessagesSnapshot(Event, frozen=True, kw_only=True):
    """The conversation as it stands, for a reader that cannot have every event, or that is told what there is: of a
    very long one, the last MOST_TOLD messages (`latest`).

    `clients` are the clients that have had runs in the session, each a word of the application's (`RunInput.client`).
    `told` are those of the messages that the agent's last run has answered with, where the reader is told of that one.
    """

    messages: tuple[Message, ...]
    clients: frozenset[str] = frozenset()
    told: tuple[Message, ...] = ()

    @property
    def weight(self) -> int:
        messages = sum(message.weight for message in (*self.messages, *self.told))
        return OVERHEAD + messages + sum(size_of(client) for client in self.clients)

"""The world of the machine in `test_trust_machine.py`:

- tools that write down what they did
- a store that can die
- a model that makes the calls that it is told to make, and checks its requests

Broken rules are written down in `wrong`, because a tool that raises only makes a result.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from agent_core import Agent, Engine, ToolContext, tool
from agent_core.errors import ModelError, ToolError
from agent_core.guards.settings import Guards
from agent_core.interrupts import Decision
from agent_core.messages import Message
from agent_core.models.base import ArgumentsPiece, CallPiece, ModelRequest, Piece, TextPiece
from agent_core.models.http import HttpClient
from agent_core.names import SessionKey
from agent_core.sessions.entries import Entry
from agent_core.sessions.history import history_of
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.standing import History
from agent_core.sessions.store import Lease
from agent_core.tools.base import Pending, Tool, ToolSpec

KEY = SessionKey(user_id="u", session_id="s")
PICK = ToolSpec(name="pick", parameters={"type": "object", "properties": {"n": {"type": "integer"}}})
APPROVAL_SECONDS = 60.0
SERVER_TOOLS = ("look", "send", "put", "fail", "hang", "order", "halt")
GATED = "send"
IDEMPOTENT = "put"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What goes wrong at the append number `at` of a run: it is `lost` or `kept`, and no other comes behind it (a
    crash), or it alone fails (`hiccup`). `model` is the model's failure in its first call."""

    kind: str
    at: int = 0

    @property
    def crashes(self) -> bool:
        return self.kind in ("lost", "kept")


class DyingStore(InMemoryStore):
    """A store in memory that dies as its fault says, and is as it was left for who comes next."""

    def __init__(self) -> None:
        super().__init__()
        self.fault: Fault | None = None
        self.appends = 0
        self.dead = False

    async def append(self, lease: Lease, entries: Sequence[Entry], *, release: bool = False) -> None:
        fault, at = self.fault, self.appends
        self.appends += 1
        if self.dead:
            raise OSError("the disk is gone")
        if fault is None or fault.kind == "model" or at != fault.at:
            await super().append(lease, entries, release=release)
            return
        if fault.kind == "kept":
            await super().append(lease, entries, release=release)
        self.dead = fault.crashes
        raise OSError("the disk is gone")

    async def aclose(self) -> None:
        pass

    def revive(self, fault: Fault | None = None) -> None:
        self.fault, self.appends, self.dead = fault, 0, False


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a tool did."""

    name: str
    call_id: str
    n: int
    text: str
    key: str


@dataclass(slots=True)
class World:
    """Everything that outlives an engine."""

    store: DyingStore = field(default_factory=DyingStore)
    effects: list[Effect] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    batches: list[list[str]] = field(default_factory=list)
    calls_made: int = 0
    engine: Engine = field(init=False)
    agents: dict[bool, Agent] = field(init=False)

    def __post_init__(self) -> None:
        self.engine = Engine(store=self.store)
        tools = tools_of(self)
        self.agents = {
            parallel: Agent(
                "a",
                Brain(self),
                tools=tools,
                approval_seconds=APPROVAL_SECONDS,
                parallel_tool_calls=parallel,
                max_retries=0,
                guards=Guards(failures=None),
            )
            for parallel in (False, True)
        }

    def entries(self) -> list[Entry]:
        found = self.store._sessions.get(KEY)
        return list(found.entries) if found else []

    def history(self) -> History:
        return history_of(self.entries(), "a")

    def decision_for(self, call_id: str) -> Decision | None:
        history = self.history()
        interrupt = history.asked.get(call_id)
        return history.decisions.get(interrupt.id) if interrupt is not None else None

    def act(self, name: str, context: ToolContext, n: int, text: str = "") -> None:
        """A tool does what cannot be undone. What must be so now is looked at in the store."""
        effect = Effect(name=name, call_id=context.call_id, n=n, text=text, key=context.idempotency_key)
        history = self.history()
        self.expect(history.started.get(effect.call_id) == effect.key, f"{effect} was not stored as started")
        asking = [each for each in history.pending if each.kind == "approval"]
        self.expect(not asking, f"{effect} was done while {asking} was not answered")
        answered = {message.tool_call_id for message in history.messages if message.role == "tool"}
        self.expect(effect.call_id not in answered, f"{effect} was done behind its result")
        self.effects.append(effect)

    def expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.wrong.append(otherwise)

    def check_request(self, messages: Sequence[Message]) -> None:
        """The pairing rule: each call's result stands behind its message, in the order of the calls, and is none
        that was made up for the model alone."""
        at = 0
        while at < len(messages):
            asked = [call.id for call in messages[at].tool_calls]
            behind = messages[at + 1 : at + 1 + len(asked)]
            self.expect([each.tool_call_id for each in behind] == asked, f"{asked} is followed by {behind}")
            self.expect(messages[at].role != "tool", f"a result of no call: {messages[at]}")
            self.expect(not any(each.id.endswith("-interrupted") for each in behind), f"a hole was filled: {behind}")
            at += 1 + len(asked)


@dataclass(slots=True)
class Brain:
    """Asks for one batch of calls after the other, each call under an id that came before; then it answers."""

    world: World
    provider: str = "test"
    name: str = "brain"

    async def stream(self, request: ModelRequest, http: HttpClient) -> AsyncGenerator[Piece, None]:
        world = self.world
        world.check_request(request.messages)
        names = world.batches.pop(0) if world.batches and request.tools else []
        for index, name in enumerate(names):
            world.calls_made += 1
            yield CallPiece(index, f"call_{index}", name)
            yield ArgumentsPiece(index, f'{{"n":{world.calls_made}}}')
        fault = world.store.fault
        if fault is not None and fault.kind == "model":
            world.store.fault = None
            raise ModelError("model_unreachable")
        if not names:
            yield TextPiece("well")


def tools_of(world: World) -> list[Tool]:
    """Tools of every temper."""

    @tool
    def look(n: int, context: ToolContext) -> str:
        world.act("look", context, n)
        return f"saw {n}"

    @tool(approval=True)
    async def send(n: int, context: ToolContext, text: str = "") -> str:
        world.act("send", context, n, text)
        return f"sent {n}"

    @tool(idempotent=True)
    async def put(n: int, context: ToolContext) -> str:
        world.act("put", context, n)
        return f"put {n}"

    @tool
    async def fail(n: int, context: ToolContext) -> str:
        world.act("fail", context, n)
        raise ToolError("broken")

    @tool(timeout=0.005)
    async def hang(n: int, context: ToolContext) -> str:
        world.act("hang", context, n)
        await asyncio.Event().wait()
        return ""

    @tool
    async def order(n: int, context: ToolContext) -> Pending:
        world.act("order", context, n)
        return Pending(operation_id=f"op{n}")

    @tool(timeout=None)
    async def halt(n: int, context: ToolContext) -> str:
        """The user stops the run just now."""
        world.act("halt", context, n)
        await world.engine.interrupt(user_id="u", session_id="s")
        await asyncio.Event().wait()
        return ""

    return [look, send, put, fail, hang, order, halt]

"""A client and an agent that talk. The client sends transcripts; the talk notes what the model sees and the tools do.

The model answers `answer to <question>`. The beginning of a question makes it call a tool first: `note:` the server's
tool `note`, `pick:` the client's `pick`, and `mail:` the tool `mail`, which a person must approve. After that, a
question with `broken` fails as often as `fails` says.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from agent_core.agent import Agent
from agent_core.engine import Engine
from agent_core.errors import ModelError
from agent_core.events import AgentEnd, Custom, Event, MessagesSnapshot, Rewound, RunFailed
from agent_core.interrupts import Answer
from agent_core.messages import Message, Role, ToolCall
from agent_core.models.base import ModelRequest
from agent_core.names import SessionKey
from agent_core.run import Run
from agent_core.run_input import RunInput
from agent_core.sessions.entries import body_of
from agent_core.sessions.history import history_of
from agent_core.sessions.kinds import MessageBody
from agent_core.sessions.standing import History
from agent_core.tools.base import ToolSpec
from agent_core.tools.function import tool
from tests.doubles import Collected, ScriptedModel, calls, says

KEY = SessionKey(user_id="u", session_id="s")


def said(message_id: str, content: str = "", role: Role = "user") -> Message:
    return Message(id=message_id, role=role, content=content or message_id)


def system(content: str, message_id: str = "sys") -> Message:
    return Message(id=message_id, role="system", content=content)


def result(call_id: str, content: str = "done", message_id: str = "") -> Message:
    return Message(id=message_id or f"t-{call_id}", role="tool", tool_call_id=call_id, content=content)


class Unread(Collected):
    """A run's events that nobody is there to read."""

    attended = False


class Talk:
    """One session of one user; `ran` are the texts that the tools were called with."""

    def __init__(self, engine: Engine | None = None, name: str = "a") -> None:
        self.engine = engine or Engine()
        self.ran: list[str] = []
        self.fails = 0
        self.holds: asyncio.Event | None = None
        self.model = ScriptedModel([self._step])
        self.read: set[str] = set()
        self.number = 0

        @tool
        async def note(text: str) -> str:
            """Takes a note."""
            self.ran.append(text)
            return f"noted {text}"

        @tool(approval=True)
        async def mail(text: str) -> str:
            """Sends mail."""
            self.ran.append(text)
            return f"mailed {text}"

        self.agent = Agent(name, self.model, tools=[note, mail], max_retries=0)

    def _step(self, request: ModelRequest) -> Sequence[Any]:
        question = next((each.text for each in reversed(request.messages) if each.role == "user"), "")
        word, _, rest = question.partition(":")
        acted = request.messages[-1].role == "tool" or request.messages[-1].role in ("system", "developer")
        acted = acted and any(each.role == "tool" for each in request.messages)
        held: list[Any] = [self.holds] if self.holds is not None else []
        if word in ("note", "pick", "mail") and not acted:
            return [*held, *calls((word, f'{{"text":"{rest}"}}'))]
        if "broken" in question and self.fails:
            self.fails -= 1
            return [*says("half"), ModelError("model_unreachable")]
        return [*held, *says(f"answer to {question}")]

    async def ask(
        self,
        *messages: Message,
        run_id: str | None = None,
        answers: Sequence[Answer] = (),
        unread: bool = False,
        **members: Any,
    ) -> list[Event]:
        run = self.admit(*messages, run_id=run_id, answers=answers, **members)
        return await self.events(run, unread=unread)

    def admit(
        self, *messages: Message, run_id: str | None = None, answers: Sequence[Answer] = (), **members: Any
    ) -> Run:
        self.number += 1
        given = RunInput(messages=messages, answers=tuple(answers), tools=(ToolSpec(name="pick"),), **members)
        run_id = run_id or f"r{self.number}"
        return self.engine.admit(
            self.agent, given, user_id="u", session_id="s", run_id=run_id, seen=lambda each: each in self.read
        )

    async def events(self, run: Run, *, unread: bool = False) -> list[Event]:
        found: list[Event] = []
        await self.engine.start(run, Unread(found) if unread else Collected(found))
        return found

    @property
    def asked(self) -> int:
        """How often the model was asked."""
        return len(self.model.requests)

    @property
    def seen(self) -> list[str]:
        """The texts that the model saw last."""
        return [each.text for each in self.model.requests[-1].messages]

    async def history(self) -> History:
        return history_of(await self.engine.store.load(KEY), self.agent.name)

    async def shown(self) -> list[Message]:
        """The transcript as a client has it."""
        return (await self.history()).messages

    async def texts(self) -> list[str]:
        return [each.text for each in await self.shown()]

    async def said(self) -> list[str]:
        """The texts of all messages, also of hidden ones."""
        bodies = [body_of(entry) for entry in await self.engine.store.load(KEY) if entry.kind == "message"]
        return [body.message.text for body in bodies if isinstance(body, MessageBody)]

    async def call(self) -> ToolCall:
        """The last call that was made."""
        return next(each.tool_calls[-1] for each in reversed(await self.shown()) if each.tool_calls)

    async def approval(self, payload: Any = None, status: Any = "resolved") -> Answer:
        """An answer to what waits."""
        [interrupt] = (await self.history()).pending
        return Answer(interrupt_id=interrupt.id, status=status, payload=payload or {"approved": True})


def status(events: Sequence[Event]) -> str:
    end = events[-1]
    return end.code if isinstance(end, RunFailed) else end.status if isinstance(end, AgentEnd) else "none"


def is_told(events: Sequence[Event]) -> bool:
    """Whether the client was only told what there is."""
    kinds = [type(event).__name__ for event in events]
    return "MessagesSnapshot" in kinds and "ModelCallStart" not in kinds and "Rewound" not in kinds


def told(events: Sequence[Event]) -> list[str]:
    return [each.text for event in events if isinstance(event, MessagesSnapshot) for each in event.messages]


def ignored(events: Sequence[Event]) -> list[Any]:
    return [event.value for event in events if isinstance(event, Custom) and event.name == "message_ignored"]


def rewound(events: Sequence[Event]) -> list[str]:
    return [event.after for event in events if isinstance(event, Rewound)]

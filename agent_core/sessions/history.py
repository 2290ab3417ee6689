"""The folds: what a session's entries amount to for one agent."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from agent_core.messages import Message
from agent_core.sessions.entries import (
    EndBody,
    Entry,
    ForkedBody,
    MessageBody,
    RewoundBody,
    RunBody,
    StartedBody,
    StateBody,
    TitledBody,
    body_of,
)
from agent_core.sessions.state import apply_patches


@dataclass(slots=True)
class History:
    """The conversation of one agent in one session, and what the whole session knows beside it.

    - messages: as they stand after all rewinding; `message_ids` are theirs, `forgotten` are the ids of those
      that were rewound away
    - call_ids: of every call of the session, in which a call's id is unique whichever agent made it
    - started: the calls that had been cleared to run, each with its idempotency key
    - lost: the runs without an end, each with its agent. While a run holds the session, that is a run
      whose worker was lost
    - outcome: how the agent's last run ended, its status or `failed`; empty while it has not, or before the first
    - missed: whether that run ended while nobody read it
    - title, state: the session's; `state_patches` counts the patches since its last whole value
    """

    agent: str = ""
    messages: list[Message] = field(default_factory=list)
    message_ids: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    call_ids: set[str] = field(default_factory=set)
    started: dict[str, str] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    outcome: str = ""
    missed: bool = False
    title: str = ""
    state: Any = None
    state_patches: int = 0

    @property
    def broken(self) -> bool:
        """Whether the agent's own last run was lost with its worker."""
        return self.agent in self.lost.values()

    def add(self, message: Message) -> None:
        self.messages.append(message)
        self.message_ids.add(message.id)
        if message.tool_calls:
            self.call_ids.update(call.id for call in message.tool_calls)

    def rewind(self, after: str) -> None:
        """Forget the messages behind the one with the id `after`, all of them where it is empty or unknown."""
        keep = next((n for n in range(len(self.messages), 0, -1) if self.messages[n - 1].id == after), 0)
        gone = {message.id for message in self.messages[keep:]}
        self.message_ids -= gone
        self.forgotten |= gone
        del self.messages[keep:]


def history_of(entries: Iterable[Entry], agent: str) -> History:
    """Fold the entries to the agent's history. Raises msgspec.MsgspecError for a body that is none."""
    history = History(agent=agent)
    states: list[StateBody] = []
    for entry in entries:
        body = body_of(entry)
        if isinstance(body, MessageBody):
            if body.agent == agent:
                history.add(body.message)
            else:
                history.call_ids.update(call.id for call in body.message.tool_calls)
        else:
            _take(history, entry, body, agent, states)
    _settle(history, states)
    return history


def _settle(history: History, states: list[StateBody]) -> None:
    """The state is its last whole value with the patches since."""
    whole = next((n for n in reversed(range(len(states))) if states[n].patch is None), None)
    if whole is not None:
        history.state = states[whole].value
    patches = [body.patch for body in states[0 if whole is None else whole + 1 :] if body.patch is not None]
    if patches:
        history.state = apply_patches(history.state, patches)
    history.state_patches = len(patches)


def _take(
    history: History,
    entry: Entry,
    body: RunBody | StartedBody | EndBody | RewoundBody | StateBody | TitledBody | ForkedBody,
    agent: str,
    states: list[StateBody],
) -> None:
    match body:
        case RunBody():
            history.lost[entry.run_id] = body.agent
            if body.agent == agent:
                history.outcome, history.missed = "", False
        case EndBody():
            if history.lost.pop(entry.run_id, None) == agent:
                history.outcome, history.missed = body.status, body.unread
        case StartedBody():
            history.started[body.call_id] = body.key
        case RewoundBody() if body.agent == agent:
            history.rewind(body.after)
        case StateBody():
            states.append(body)
        case TitledBody():
            history.title = body.title

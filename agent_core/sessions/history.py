"""The folds: what a session's entries amount to for one agent."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from agent_core.interrupts import Decision, Interrupt
from agent_core.messages import Message
from agent_core.react.pairing import open_calls
from agent_core.sessions.entries import (
    AnsweredBody,
    AskedBody,
    Body,
    EndBody,
    Entry,
    ForkedBody,
    MessageBody,
    Origin,
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
    - started: the calls that had been cleared to run, each with its idempotency key. No rewinding takes one out
    - foreign: the agent's calls that came from outside, each with its origin. None of them is ever run here
    - lost: the runs without an end, each with its agent. While a run holds the session, that is a run
      whose worker was lost
    - outcome: how the agent's last run ended, its status or `failed`; empty while it has not, or before the first
    - missed: whether that run ended while nobody read it
    - asked: what calls wait for, or have waited for, each under its call's id; decisions: the answers, each
      under its interrupt's id
    - clients: with which the session's runs were begun, in the words of `RunInput.client`
    - title, state: the session's; `state_patches` counts the patches since its last whole value
    """

    agent: str = ""
    messages: list[Message] = field(default_factory=list)
    message_ids: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    call_ids: set[str] = field(default_factory=set)
    started: dict[str, str] = field(default_factory=dict)
    foreign: dict[str, Origin] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    outcome: str = ""
    missed: bool = False
    clients: set[str] = field(default_factory=set)
    title: str = ""
    state: Any = None
    state_patches: int = 0
    asked: dict[str, Interrupt] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)

    @property
    def pending(self) -> tuple[Interrupt, ...]:
        """The interrupts that wait for an answer: those of calls at the tail that have no result."""
        calls = open_calls(self.messages) if self.asked else ()
        found = (self.asked[call.id] for call in calls if call.id in self.asked)
        return tuple(each for each in found if each.id not in self.decisions)

    @property
    def not_the_clients(self) -> set[str]:
        """The calls that no client is to carry out, though none of this server's tools may have their name."""
        return {*self.asked, *self.started, *(call_id for call_id in self.foreign if self.foreign[call_id] == "copied")}

    @property
    def broken(self) -> bool:
        """Whether the agent's own last run was lost with its worker."""
        return self.agent in self.lost.values()

    def add(self, message: Message, origin: Origin = "") -> None:
        """Add a message behind the last one; a result at its call's place, so that results stand in the order of
        the calls whatever came in first, and in front of what was said meanwhile."""
        if message.role == "tool":
            self.messages.insert(self._place_of(message.tool_call_id), message)
        else:
            self.messages.append(message)
        self.message_ids.add(message.id)
        if message.tool_calls:
            self.call_ids.update(call.id for call in message.tool_calls)
            if origin:
                self.foreign.update((call.id, origin) for call in message.tool_calls)

    def _place_of(self, call_id: str | None) -> int:
        at = len(self.messages)
        for message in reversed(self.messages):
            at -= 1
            order = [call.id for call in message.tool_calls]
            if call_id in order:
                break
        else:
            return len(self.messages)
        at += 1
        before = set(order[: order.index(call_id)])
        while at < len(self.messages) and self.messages[at].role == "tool" and self.messages[at].tool_call_id in before:
            at += 1
        return at

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
                history.add(body.message, body.origin)
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
    body: Body,
    agent: str,
    states: list[StateBody],
) -> None:
    match body:
        case RunBody():
            history.lost[entry.run_id] = body.agent
            history.clients.add(body.client)
            if body.agent == agent:
                history.outcome, history.missed = "", False
        case EndBody():
            if history.lost.pop(entry.run_id, None) == agent:
                history.outcome, history.missed = body.status, body.unread
        case StartedBody():
            history.started[body.call_id] = body.key
            history.call_ids.add(body.call_id)  # no later call may be taken for it
        case RewoundBody() if body.agent == agent:
            history.rewind(body.after)
        case StateBody():
            states.append(body)
        case TitledBody():
            history.title = body.title
        case AskedBody() if body.agent == agent and not body.origin:
            history.asked[body.interrupt.call_id] = body.interrupt
        case AnsweredBody() if not body.origin:
            history.decisions.setdefault(body.interrupt_id, body.decision)
        case ForkedBody():  # an earlier version's copy has no marks
            history.foreign.update(dict.fromkeys(history.call_ids, "copied"))
            history.asked.clear()
            history.decisions.clear()

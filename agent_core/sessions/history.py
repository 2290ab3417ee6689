"""The folds: what a session's entries amount to for one agent."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from agent_core.events import Cut
from agent_core.interrupts import Decision, Interrupt
from agent_core.messages import Message
from agent_core.pairing import open_calls
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
from agent_core.sessions.patches import Patch
from agent_core.sessions.state import apply_fitting, apply_patches, weight_of
from agent_core.sessions.tree import Node, Tree
from agent_core.sessions.turns import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """How a run of the agent ended: its status, or `failed`; empty where it has no end, which is one that was lost.
    `ended_at` is in milliseconds since the epoch, `unread` says that nobody was there to read the end, and `cut` that
    its answer is not whole."""

    status: str = ""
    ended_at: int = 0
    unread: bool = False
    cut: Cut | None = None


@dataclass(slots=True)
class History:
    """The conversation of one agent in one session, and what the whole session knows beside it.

    - tree: all that was ever said to the agent; `messages` are those on the path that is shown
    - others: what the session's other agents have as messages of the user and answers, each under its id
    - call_ids: of every call of the session, in which a call's id is unique whichever agent made it
    - started: the calls that had been cleared to run, each with its idempotency key. No rewinding takes one out
    - foreign: the agent's calls that came from outside, each with its origin. None of them is ever run here
    - lost: the runs without an end, each with its agent. While a run holds the session, that is a run
      whose worker was lost
    - runs: the agent's runs, each under its id with its latest attempt, the last one at the end
    - asked: what calls wait for, or have waited for, each under its call's id; decisions: the answers, each
      under its interrupt's id
    - turn: what the agent has done since its user last said something new
    - clients: with which the session's runs were begun, in the words of `RunInput.client`
    - title, state: the session's; `state_patches` is the weight of the patches since its last whole value,
      `misfits` the number of those that did not fit and were passed over
    """

    agent: str = ""
    tree: Tree = field(default_factory=Tree)
    others: dict[str, Message] = field(default_factory=dict)
    call_ids: set[str] = field(default_factory=set)
    started: dict[str, str] = field(default_factory=dict)
    foreign: dict[str, Origin] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    runs: dict[str, PastRun] = field(default_factory=dict)
    turn: Turn = field(default_factory=Turn)
    clients: set[str] = field(default_factory=set)
    title: str = ""
    state: Any = None
    state_patches: int = 0
    misfits: int = 0
    asked: dict[str, Interrupt] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)

    @property
    def pending(self) -> tuple[Interrupt, ...]:
        """The interrupts that wait for an answer: those of calls at the tail that have no result."""
        return self.pending_in(self.messages)

    def pending_in(self, messages: Sequence[Message]) -> tuple[Interrupt, ...]:
        """The same where these messages are what is shown."""
        calls = open_calls(messages) if self.asked else ()
        found = (self.asked[call.id] for call in calls if call.id in self.asked)
        return tuple(each for each in found if each.id not in self.decisions)

    @property
    def not_the_clients(self) -> "NotTheClients":
        """The calls that no client is to carry out, though none of this server's tools may have their name."""
        return NotTheClients(self)

    @property
    def messages(self) -> list[Message]:
        """The messages as they stand after all rewinding, each call's result behind it, in order: a view."""
        return self.tree.messages

    @property
    def message_ids(self) -> set[str]:
        """Their ids."""
        return self.tree.message_ids

    @property
    def run(self) -> PastRun | None:
        """The agent's last run."""
        return next(reversed(self.runs.values()), None)

    @property
    def question(self) -> Node | None:
        """What the user has asked last, of what is shown."""
        return next((node for node in reversed(self.tree.nodes()) if node.asks), None)

    def add(
        self, message: Message, origin: Origin = "", *, run_id: str = "", seq: int = 0, observed: bool = False
    ) -> None:
        """Add a message behind the last one; a result to its call, wherever that stands. `run_id` is the run that it
        came with, `seq` the number of its entry, where it is known."""
        self.turn.add(message, run_id)
        self.tree.add(message, run_id=run_id, seq=seq, observed=observed)
        if message.tool_calls:
            self.call_ids.update(call.id for call in message.tool_calls)
            if origin:
                self.foreign.update((call.id, origin) for call in message.tool_calls)

    def rewind(self, after: str, seq: int = 0) -> int:
        """Show the conversation up to this message and the results of its calls, as it was last shown; nothing of
        it where the id is empty. An id that nobody knows changes nothing. `seq` is the number of the entry that says
        so, where it is known. Returns for how many messages that changed whether they are shown."""
        return self.tree.rewind(after, seq)


@dataclass(frozen=True, slots=True)
class NotTheClients:
    """Looks the call up: there may be many, and mostly one is asked for."""

    history: History

    def __contains__(self, call_id: object) -> bool:
        history = self.history
        return call_id in history.asked or call_id in history.started or history.foreign.get(str(call_id)) == "copied"


def history_of(entries: Iterable[Entry], agent: str) -> History:
    """Fold the entries to the agent's history. Raises msgspec.MsgspecError for a body that is none."""
    history = History(agent=agent)
    states: list[tuple[Entry, StateBody]] = []
    begun: set[str] = set()
    entries = tuple(entries)
    last_fork = next((entry for entry in reversed(entries) if entry.kind == "forked"), None)
    for entry in entries:
        body = body_of(entry)
        if isinstance(body, MessageBody):
            if body.agent == agent:
                observed = entry.run_id not in begun  # a run's own entry comes before all others of it
                history.add(body.message, body.origin, run_id=entry.run_id, seq=entry.seq, observed=observed)
            else:
                _overhear(history, body.message)
        else:
            if isinstance(body, RunBody):
                begun.add(entry.run_id)
            _take(history, entry, body, agent, states)
            if entry is last_fork:  # an earlier version's copy has no marks
                history.foreign.update(dict.fromkeys(history.call_ids, "copied"))
    _settle(history, states)
    return history


def _overhear(history: History, message: Message) -> None:
    """Another agent's message."""
    history.call_ids.update(call.id for call in message.tool_calls)
    if message.role in ("user", "assistant"):
        history.others[message.id] = message


def _settle(history: History, states: Sequence[tuple[Entry, StateBody]]) -> None:
    """The state is its last whole value with the patches since; one that does not fit is passed over."""
    value, patches = _last_state(body for _, body in states)
    history.state_patches = sum(map(weight_of, patches))
    try:
        history.state = apply_patches(value, patches) if patches else value
    except msgspec.ValidationError:
        # Read anew: those that fit have changed the value, and one another.
        value, patches = _last_state(body_of(entry) for entry, _ in states)
        history.state, misfits = apply_fitting(value, patches)
        history.misfits = len(misfits)


def _last_state(bodies: Iterable[Body]) -> tuple[Any, list[Patch]]:
    """The whole value, and the patches behind it."""
    value: Any = None
    patches: list[Patch] = []
    for body in bodies:
        if isinstance(body, StateBody):
            if body.patch is None:
                value = body.value
            else:
                patches.append(body.patch)
    return value, patches


def _take(
    history: History,
    entry: Entry,
    body: Body,
    agent: str,
    states: list[tuple[Entry, StateBody]],
) -> None:
    match body:
        case RunBody():
            history.lost[entry.run_id] = body.agent
            history.clients.add(body.client)
            if body.agent == agent:
                history.runs.pop(entry.run_id, None)  # a later attempt stands at the end
                history.runs[entry.run_id] = PastRun()
                history.turn.begin(entry.run_id, body.opens)
        case EndBody():
            if history.lost.pop(entry.run_id, None) == agent:
                history.runs[entry.run_id] = PastRun(
                    status=body.status, ended_at=body.at, unread=body.unread, cut=body.cut
                )
                history.turn.spend(body.tokens, body.seconds)
        case StartedBody():
            history.started[body.call_id] = body.key
            history.call_ids.add(body.call_id)  # no later call may be taken for it
        case RewoundBody() if body.agent == agent:
            history.rewind(body.after, entry.seq)
            history.turn.rewound(entry.run_id)
        case StateBody():
            if body.patch is None:
                states.clear()
            states.append((entry, body))
        case TitledBody():
            history.title = body.title
        case AskedBody() if body.agent == agent and not body.origin:
            history.asked[body.interrupt.call_id] = body.interrupt
        case AnsweredBody() if not body.origin:
            history.decisions.setdefault(body.interrupt_id, body.decision)
        case ForkedBody():
            history.asked.clear()
            history.decisions.clear()


def state_since(entries: Sequence[Entry], agent: str, seq: int) -> tuple[Any] | None:
    """The session's state as it stood in front of the entry `seq`; None where nobody has changed it since, or where
    another agent has."""
    agents: dict[str, str] = {}
    earlier: list[Entry] = []
    changed = False
    for entry in entries:
        if entry.kind == "state":
            if entry.seq < seq:
                earlier.append(entry)
            elif agents.get(entry.run_id) == agent:
                changed = True
            else:
                return None
        elif entry.kind == "run":
            body = body_of(entry)
            agents[entry.run_id] = body.agent if isinstance(body, RunBody) else ""
    return (history_of(earlier, agent).state,) if changed else None

"""How a session stands: what its entries amount to, for the whole of it and for each agent in each lane.

Each kind of entry (`kinds.py`) says what it changes here. All that is known of a session is read from this one fold.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from agent_core.edits import edit_of
from agent_core.events import Cut
from agent_core.interrupts import Decision, Interrupt
from agent_core.messages import Message, ToolCall
from agent_core.pairing import open_calls, result_of
from agent_core.sessions.state import StateChanges
from agent_core.sessions.tree import Node, Tree
from agent_core.sessions.turns import Turn

ROOT = "root"
"""The lane of the agent that was asked. A subagent has a lane of its own."""

Origin = Literal["", "adopted", "copied"]
"""Where an entry comes from: empty for what happened in this session. `adopted`: from a conversation that a client
brought whole; the client may still answer the calls that it left open. `copied`: from another session (an import, a
restored snapshot, a fork). What comes from outside is history and never work: none of its calls is run here, and none
of its approvals counts."""


@dataclass(slots=True, kw_only=True)
class PastRun:
    """The latest attempt of a run, as it is stored.

    - client, claim: as in RunBody; seq: the number of its entry
    - began_at, ended_at: in milliseconds since the epoch
    - status: how it ended: its status, or `failed` with the error's code; empty where it has no end, as one that was
      lost
    - last, unread, cut: as in EndBody
    """

    agent: str = ""
    client: str = ""
    claim: str = ""
    seq: int = 0
    began_at: int = 0
    status: str = ""
    code: str | None = None
    ended_at: int = 0
    last: int = 0
    unread: bool = False
    cut: Cut | None = None


@dataclass(slots=True)
class History:
    """The conversation of one agent in one lane of a session, and what the whole session knows beside it.

    - tree: all that was ever said to the agent; `messages` are those on the path that is shown
    - others: what other agents and lanes have as messages of the user and answers, each under its id
    - call_ids: of every call of the session, in which a call's id is unique whichever agent made it
    - started: the calls that were cleared to run, each with its idempotency key. No rewind removes one
    - foreign: the agent's calls that came from outside, each with its origin. None of them is ever run here
    - lost: the runs without an end, each with its agent. While a run holds the session, that is a run
      whose worker was lost
    - runs: the agent's runs, each under its id with its latest attempt, the last one at the end
    - asked: what calls wait for, or have waited for, each under its call's id; decisions: the answers, each
      under its interrupt's id
    - turn: what the agent has done since its user last said something new
    - clients: with which the session's runs began, in the words of `RunInput.client`
    - title, state: the session's; `state_patches` is the weight of the patches since its last whole value,
      `misfits` the number of those that did not fit and were skipped
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
        """The same if these messages are what is shown."""
        calls = open_calls(messages) if self.asked else ()
        found = (self.asked[call.id] for call in calls if call.id in self.asked)
        return tuple(each for each in found if each.id not in self.decisions)

    def unrun(self, call: ToolCall, reason: str = "", *, began: bool | None = None) -> Message:
        """The result of a call that nobody is going to run, or not again: `interrupted` if it may have had an effect,
        else `not_run`. It may have had one as soon as it was cleared to run; `began` is for those who know better."""
        began = call.id in self.started if began is None else began
        return result_of(call, "interrupted" if began else "not_run", reason)

    def edit_of(self, call: ToolCall, new: Mapping[str, Decision] = MappingProxyType({})) -> str:
        """The call's arguments as a person has edited them; empty if nobody has. `new` are decisions that are not
        stored yet."""
        return edit_of(call, self.asked, {**self.decisions, **new} if new else self.decisions)

    @property
    def not_the_clients(self) -> "NotTheClients":
        """The calls that no client is to carry out, though none of this server's tools may have their name."""
        return NotTheClients(self)

    @property
    def messages(self) -> list[Message]:
        """The messages as they stand after all rewinds, each call's result behind it, in order: a view."""
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
        came with, `seq` the number of its entry, if known."""
        self.turn.add(message, run_id)
        self.tree.add(message, run_id=run_id, seq=seq, observed=observed)
        if message.tool_calls:
            self.call_ids.update(call.id for call in message.tool_calls)
            if origin:
                self.foreign.update((call.id, origin) for call in message.tool_calls)

    def rewind(self, after: str, seq: int = 0) -> int:
        """Show the conversation up to this message and the results of its calls, as it was last shown; nothing of
        it if the id is empty. An unknown id changes nothing. `seq` is the number of the entry that says so, if known.
        Returns how many messages are shown for it, or not any more."""
        return self.tree.rewind(after, seq)


@dataclass(frozen=True, slots=True)
class NotTheClients:
    """Looks the call up: there may be many, and mostly one is asked for."""

    history: History

    def __contains__(self, call_id: object) -> bool:
        history = self.history
        return call_id in history.asked or call_id in history.started or history.foreign.get(str(call_id)) == "copied"


@dataclass(slots=True)
class Standing:
    """A session, as far as its entries were taken. The histories share what is the session's.

    - run_id, lane, seq: of the entry that is being taken
    - histories: by agent and lane; runs: the latest attempt of each, whichever agent's, by its id
    - open_runs: the runs that have begun and not ended, by id and lane
    - owners: the agent of every interrupt that was ever asked, by the interrupt's id
    - operations: the interrupts of each operation that a call has waited for, by its id; takers: the runs that took an
      operation's result, by the interrupt's id
    - changes: those of the state; `state`, `state_patches`, `misfits` are what they amount to, once that is known
    - switched: how many messages all rewinds together have hidden or shown again
    """

    run_id: str = ""
    lane: str = ROOT
    seq: int = 0
    histories: dict[tuple[str, str], History] = field(default_factory=dict)
    runs: dict[str, PastRun] = field(default_factory=dict)
    open_runs: dict[tuple[str, str], History] = field(default_factory=dict)
    call_ids: set[str] = field(default_factory=set)
    started: dict[str, str] = field(default_factory=dict)
    clients: set[str] = field(default_factory=set)
    decisions: dict[str, Decision] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    operations: dict[str, set[str]] = field(default_factory=dict)
    takers: dict[str, str] = field(default_factory=dict)
    title: str = ""
    changes: StateChanges = field(default_factory=StateChanges)
    state: Any = None
    state_patches: int = 0
    misfits: int = 0
    switched: int = 0
    _unmarked: list[tuple[History, Message]] = field(default_factory=list)

    def of(self, agent: str, lane: str = ROOT) -> History:
        """The agent's history in the lane; only what entries of its own say is filled in."""
        found = self.histories.get((agent, lane))
        if found is None:
            found = self.histories[agent, lane] = History(
                agent=agent,
                call_ids=self.call_ids,
                started=self.started,
                clients=self.clients,
                decisions=self.decisions,
            )
        return found

    def here(self, agent: str) -> History:
        """The same in the lane of the entry that is being taken."""
        return self.of(agent, self.lane)

    def history(self, agent: str, lane: str = ROOT) -> History:
        """The agent's history in the lane, whole."""
        history = self.of(agent, lane)
        history.lost = {run_id: each.agent for (run_id, at), each in self.open_runs.items() if at == ROOT}
        history.title, history.state = self.title, self.state
        history.state_patches, history.misfits = self.state_patches, self.misfits
        if len(self.histories) > 1:
            others = (each for each in self.histories.values() if each is not history)
            history.others = {said.id: said for each in others for said in each.tree.said()}
        return history

    def say(self, agent: str, message: Message, origin: Origin) -> None:
        """A message is said. What comes in front of its run's own entry was observed."""
        history = self.here(agent)
        history.add(message, origin, run_id=self.run_id, seq=self.seq, observed=self.run_id not in self.runs)
        if message.tool_calls:
            self._unmarked.append((history, message))

    def mark_all_copied(self) -> None:
        """All before this is a copy: a fork that an earlier version made has no marks."""
        for history, message in self._unmarked:
            history.foreign.update((call.id, "copied") for call in message.tool_calls)
        self._unmarked.clear()
        self.decisions.clear()
        for each in self.histories.values():
            each.asked.clear()

    @property
    def agents(self) -> list[str]:
        """Those to which something was said."""
        return [agent for (agent, lane), each in self.histories.items() if lane == ROOT and not each.tree.empty]

    def pending(self, agents: Iterable[str]) -> dict[str, tuple[Interrupt, ...]]:
        """What waits for an answer now, of each of these agents that has ever asked for something."""
        names = set(self.owners.values())
        return {agent: self.of(agent).pending for agent in agents if agent in names}

    def taker_of(self, operation_id: str) -> str | None:
        """The run that took the result of this operation; None if none has."""
        waited = self.operations.get(operation_id, ())
        return next((run_id for name, run_id in self.takers.items() if name in waited), None)

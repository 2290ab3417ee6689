"""How a session stands: what its entries amount to, for the whole session and for each agent in each lane.

Each kind of entry (`kinds.py`) changes something here. There is no other fold: whatever is asked of a session is read
from its standing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from agent_core.edits import edit_of
from agent_core.events import Cut
from agent_core.interrupts import Decision, Interrupt
from agent_core.messages import Message, ToolCall
from agent_core.pairing import result_of
from agent_core.sessions.state import StateChanges
from agent_core.sessions.tree import Node, Tree
from agent_core.sessions.turns import Turn

ROOT = "root"
"""The lane of the agent that the user talks to. A subagent has a lane of its own."""

ELSEWHERE = ("", "")
"""In place of all agents and lanes that nobody asked for. They share a history without a tree: an import may have as
many agents as entries."""

Origin = Literal["", "adopted", "copied"]
"""Where an entry comes from.

- empty: it happened in this session
- adopted: a client brought the whole conversation; it may still answer its own open calls
- copied: it comes from another session, by an import, a restored snapshot or a fork

What comes from outside is history and never work: none of its calls is run here, and none of its approvals counts.
"""


@dataclass(slots=True, kw_only=True)
class PastRun:
    """The latest attempt of a run, as it is stored.

    - client, claim: as in RunBody; seq: the number of its entry
    - began_at, ended_at: in milliseconds since the epoch
    - status, code, last, unread, cut: as in EndBody; a run without an end has an empty status
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
class Shared:
    """What the whole session knows, whichever agent did it.

    - call_ids: of all calls. An id is unique in the session, whichever agent made the call
    - started: the calls that were cleared to run, and their idempotency keys. A rewind removes none
    - decisions: the answers to interrupts, by the interrupt's id
    - clients: what began its runs, in the words of `RunInput.client`
    - open_runs: the runs that have begun and not ended, by id and lane, each with its agent's turn
    - others: the messages of the user and the model of the agents and lanes without a history of their own, by id
    - changes: those of the state
    """

    call_ids: set[str] = field(default_factory=set)
    started: dict[str, str] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)
    clients: set[str] = field(default_factory=set)
    open_runs: dict[tuple[str, str], tuple[PastRun, Turn]] = field(default_factory=dict)
    others: dict[str, Message] = field(default_factory=dict)
    title: str = ""
    changes: StateChanges = field(default_factory=StateChanges)

    @property
    def state(self) -> Any:
        """The session's state. The caller must not change it."""
        self.changes.apply()
        return self.changes.value


@dataclass(slots=True)
class History:
    """The conversation of one agent in one lane of a session, and what the whole session knows beside it.

    - tree: all that was ever said to the agent; `messages` are those on the path that is shown
    - foreign: the agent's calls that came from outside, and their origins. None of them is ever run here
    - runs: the latest attempt of each of the agent's runs, by id; the last one stands at the end
    - asked: what calls wait for, or have waited for, by the call's id
    - turn: what the agent has done since its user last said something new
    """

    agent: str = ""
    session: Shared = field(default_factory=Shared)
    tree: Tree = field(default_factory=Tree)
    foreign: dict[str, Origin] = field(default_factory=dict)
    runs: dict[str, PastRun] = field(default_factory=dict)
    turn: Turn = field(default_factory=Turn)
    asked: dict[str, Interrupt] = field(default_factory=dict)

    @property
    def call_ids(self) -> set[str]:
        return self.session.call_ids

    @property
    def started(self) -> dict[str, str]:
        return self.session.started

    @property
    def decisions(self) -> dict[str, Decision]:
        return self.session.decisions

    @property
    def clients(self) -> set[str]:
        return self.session.clients

    @property
    def others(self) -> dict[str, Message]:
        return self.session.others

    @property
    def title(self) -> str:
        return self.session.title

    @property
    def state(self) -> Any:
        """The session's state. The caller must not change it."""
        return self.session.state

    @property
    def lost(self) -> dict[str, str]:
        """The runs without an end, and their agents. Their workers were lost, if another run holds the session now."""
        return {run_id: run.agent for (run_id, lane), (run, _) in self.session.open_runs.items() if lane == ROOT}

    @property
    def pending(self) -> tuple[Interrupt, ...]:
        """The interrupts that wait for an answer. Their calls stand at the tail and have no result."""
        return self.pending_of(self.open_calls)

    def pending_of(self, calls: Iterable[ToolCall]) -> tuple[Interrupt, ...]:
        """Those of these open calls."""
        found = (self.asked[call.id] for call in calls if call.id in self.asked)
        return tuple(each for each in found if each.id not in self.decisions)

    def unrun(self, call: ToolCall, reason: str = "", *, began: bool | None = None) -> Message:
        """The result of a call that is not run any more: `interrupted` if it may have had an effect, else `not_run`.

        A call may have had an effect as soon as it was cleared to run. Pass `began` if you know better.
        """
        began = call.id in self.started if began is None else began
        return result_of(call, "interrupted" if began else "not_run", reason)

    def edit_of(self, call: ToolCall, new: Mapping[str, Decision] = MappingProxyType({})) -> str:
        """The call's arguments as a person has edited them, or empty. `new` are decisions that are not stored yet."""
        return edit_of(call, self.asked, {**self.decisions, **new} if new else self.decisions)

    @property
    def not_the_clients(self) -> "NotTheClients":
        """The calls that no client may carry out, even if no tool of this server has their name."""
        return NotTheClients(self)

    @property
    def messages(self) -> list[Message]:
        """The messages that are shown, each result behind its call. The caller must not change the list."""
        return self.tree.messages

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The unanswered calls of the last message that made any, in its order."""
        return self.tree.open_calls

    @property
    def message_ids(self) -> set[str]:
        """The ids of the messages that are shown."""
        return self.tree.message_ids

    @property
    def run(self) -> PastRun | None:
        """The agent's last run."""
        return next(reversed(self.runs.values()), None)

    @property
    def question(self) -> Node | None:
        """The user's last question that is shown."""
        return next((node for node in self.tree.upward() if node.asks), None)

    def add(
        self, message: Message, origin: Origin = "", *, run_id: str = "", seq: int = 0, observed: bool = False
    ) -> None:
        """Add a message behind the last one, or a result to its call. `run_id` is the run that it came with, and `seq`
        its entry's number, if known."""
        self.turn.add(message, run_id)
        self.tree.add(message, run_id=run_id, seq=seq, observed=observed)
        if message.tool_calls:
            self.session.call_ids.update(call.id for call in message.tool_calls)
            if origin:
                self.foreign.update((call.id, origin) for call in message.tool_calls)

    def rewind(self, after: str, seq: int = 0) -> int:
        """Go back to this message: see Tree.rewind."""
        return self.tree.rewind(after, seq)

    def resting(self) -> "History":
        """What is shown now, with what is known of the open calls and of the session. No later entry changes it."""
        open_ids = [call.id for call in self.open_calls]
        asked = {each: self.asked[each] for each in open_ids if each in self.asked}
        session = Shared(
            started={each: self.started[each] for each in open_ids if each in self.started},
            decisions={each.id: self.decisions[each.id] for each in asked.values() if each.id in self.decisions},
            clients=set(self.clients),
            title=self.title,
            changes=StateChanges(self.state),
        )
        foreign = {each: self.foreign[each] for each in open_ids if each in self.foreign}
        return History(agent=self.agent, session=session, tree=Tree(self.messages), foreign=foreign, asked=asked)


@dataclass(frozen=True, slots=True)
class NotTheClients:
    """A view that looks a call up. A set would cost a walk over all calls, and mostly one call is asked for."""

    history: History

    def __contains__(self, call_id: object) -> bool:
        history = self.history
        return call_id in history.asked or call_id in history.started or history.foreign.get(str(call_id)) == "copied"


@dataclass(slots=True)
class Standing:
    """What the entries that were taken so far amount to. The histories share what is the session's.

    - wanted: the agents and lanes that have a history of their own; None is all
    - run_id, lane, seq: of the entry that is taken now
    - histories: by agent and lane, or ELSEWHERE; agents: those that have messages
    - runs: the latest attempt of each run of any agent, by id
    - owners: the agents of all interrupts, answered ones too, by the interrupt's id
    - operations: the interrupts that wait or waited for an operation, by the operation's id
    - takers: the runs that took an operation's result, by the interrupt's id
    - switched: how many messages all rewinds together have hidden or shown again
    """

    wanted: set[tuple[str, str]] | None = None
    run_id: str = ""
    lane: str = ROOT
    seq: int = 0
    session: Shared = field(default_factory=Shared)
    histories: dict[tuple[str, str], History] = field(default_factory=dict)
    agents: dict[str, None] = field(default_factory=dict)
    runs: dict[str, PastRun] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    operations: dict[str, set[str]] = field(default_factory=dict)
    takers: dict[str, str] = field(default_factory=dict)
    switched: int = 0
    _calling: list[tuple[History, Message]] = field(default_factory=list)
    _asking: list[History] = field(default_factory=list)

    def of(self, agent: str, lane: str = ROOT) -> History:
        """The agent's history in the lane."""
        key = (agent, lane) if self.wanted is None or (agent, lane) in self.wanted else ELSEWHERE
        found = self.histories.get(key)
        if found is None:
            found = self.histories[key] = History(agent=key[0], session=self.session)
        return found

    def begin(self, agent: str, lane: str) -> History:
        """The same, for a lane that is wanted from now on, because it is new in the session."""
        if self.wanted is not None:
            self.wanted.add((agent, lane))
        return self.of(agent, lane)

    def here(self, agent: str) -> History:
        """The same as `of` in the lane of the entry that is taken now."""
        return self.of(agent, self.lane)

    def say(self, agent: str, message: Message, origin: Origin) -> None:
        """A message is added. It was observed, without reasoning, if its run has not begun."""
        history = self.here(agent)
        self.agents[agent] = None
        if message.tool_calls:
            self._calling.append((history, message))
        if history.agent:
            history.add(message, origin, run_id=self.run_id, seq=self.seq, observed=self.run_id not in self.runs)
        else:  # elsewhere
            self.session.call_ids.update(call.id for call in message.tool_calls)
            if message.role in ("user", "assistant"):
                self.session.others[message.id] = message

    def ask(self, agent: str, interrupt: Interrupt) -> None:
        """A call waits for something."""
        history = self.here(agent)
        history.asked[interrupt.call_id] = interrupt
        self._asking.append(history)

    def forked(self) -> None:
        """All entries before this one are a copy. Forks of earlier versions have no marks, so all calls are marked.

        Only what came since the last fork is visited: an import may have as many forks as entries.
        """
        for history, message in self._calling:
            history.foreign.update((call.id, "copied") for call in message.tool_calls)
        for history in self._asking:
            history.asked.clear()
        self.session.decisions.clear()
        self._calling.clear()
        self._asking.clear()

    def pending(self, agents: Iterable[str]) -> dict[str, tuple[Interrupt, ...]]:
        """The interrupts that wait now, by agent, of those of these agents that have ever asked for something. Their
        histories must be wanted."""
        names = set(self.owners.values())
        return {agent: self.of(agent).pending for agent in agents if agent in names}

    def taker_of(self, operation_id: str) -> str | None:
        """The run that took the result of this operation, or None."""
        waited = self.operations.get(operation_id, ())
        return next((run_id for name, run_id in self.takers.items() if name in waited), None)

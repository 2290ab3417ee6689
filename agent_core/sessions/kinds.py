"""The kinds of entries, a class each.

A class is all that there is to know of a kind: its word (`kind`), its body, what it changes in how a session stands
(`fold`), and what it must be if it comes from outside (`check`, `fit`). If the body has an `origin`, copies of it are
marked. A new kind is one more class here. An entry whose kind has no class, stored by a later version, keeps its
number and changes nothing.
"""

import re
from typing import Any, ClassVar, Self

import msgspec

from agent_core.events import Cut
from agent_core.interrupts import Decision, Interrupt
from agent_core.messages import Message
from agent_core.names import is_title
from agent_core.sessions.checks import (
    LONGEST_CALL_ID,
    LONGEST_MESSAGE_ID,
    SoFar,
    Wrong,
    check_agent,
    check_id,
    check_interrupt,
    check_message,
    check_number,
    check_status,
)
from agent_core.sessions.standing import ROOT, Origin, PastRun, Standing

_EARLIER_CLAIM = re.compile(r"(in_[0-9a-f]{16}|key_[0-9a-f]{16}_[0-9a-f]{16})_")
"""What the ids of messages began with that earlier versions stored: there a claim was not its run's."""


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of an entry; by itself that of one whose kind is unknown."""

    kind: ClassVar[str] = ""

    def fold(self, standing: Standing) -> None:
        """Change how the session stands, as the entry says."""

    def check(self) -> None:
        """Raise Wrong if it is not what it must be."""

    def fit(self, so_far: SoFar) -> "Body":  # noqa: ARG002  # most kinds stand behind anything
        """The body, or one that says the same and costs less to read. Raises Wrong if it cannot stand behind what came
        before."""
        return self


class RunBody(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A run began. `client` is the protocol that the client speaks; `at` the time in milliseconds since the epoch.
    `opens` says that a new turn begins with this run; None in entries of earlier versions, which did not say. `claim`
    is what the request is known by if it comes again; empty if it cannot be known again."""

    kind: ClassVar[str] = "run"

    agent: str
    client: str = ""
    at: int = 0
    opens: bool | None = None
    claim: str = ""

    def fold(self, standing: Standing) -> None:
        run_id, history = standing.run_id, standing.here(self.agent)
        run = PastRun(agent=self.agent, client=self.client, claim=self.claim, seq=standing.seq, began_at=self.at)
        standing.open_runs[run_id, standing.lane] = history
        standing.clients.add(self.client)
        for runs in (history.runs, standing.runs) if standing.lane == ROOT else (history.runs,):
            runs.pop(run_id, None)  # a later attempt stands at the end
            runs[run_id] = run
        history.turn.begin(run_id, self.opens)

    def check(self) -> None:
        check_agent(self.agent)
        check_number(self.at, "at")
        if len(self.claim) > LONGEST_MESSAGE_ID:
            raise Wrong(f"body.claim must have at most {LONGEST_MESSAGE_ID} characters.")


class EndBody(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A run ended. `status` is the run's status, or `failed` with the error's code. `last` is the number of the run's
    last event, 0 if it is not known; `unread` says that nobody was there to read it; `at` as in RunBody. `tokens`
    and `seconds` are what the run has used, 0 if that is not known; `cut` as in AgentEnd."""

    kind: ClassVar[str] = "end"

    status: str
    code: str | None = None
    at: int = 0
    last: int = 0
    unread: bool = False
    tokens: int = 0
    seconds: float = 0.0
    cut: Cut | None = None

    def fold(self, standing: Standing) -> None:
        history = standing.open_runs.pop((standing.run_id, standing.lane), None)
        if history is None:
            return
        run = history.runs[standing.run_id]
        run.status, run.code, run.ended_at = self.status, self.code, self.at
        run.last, run.unread, run.cut = self.last, self.unread, self.cut
        history.turn.spend(self.tokens, self.seconds)

    def check(self) -> None:
        check_status(self.status, self.code)
        for member in ("at", "last", "tokens", "seconds"):
            check_number(getattr(self, member), member)


class MessageBody(Body, frozen=True, kw_only=True, omit_defaults=True):
    """Something was said. `agent` is whose history the message belongs to."""

    kind: ClassVar[str] = "message"

    agent: str
    message: Message
    origin: Origin = ""

    def fold(self, standing: Standing) -> None:
        standing.say(self.agent, self.message, self.origin)
        if self.message.role == "user" and (found := _EARLIER_CLAIM.match(self.message.id)) is not None:
            run = standing.runs.get(standing.run_id)
            if run is not None and not run.claim:
                run.claim = found[1]

    def check(self) -> None:
        check_agent(self.agent)
        check_message(self.message)

    def fit(self, so_far: SoFar) -> Self:
        if self.message.id in so_far.standing.here(self.agent).message_ids:
            raise Wrong("body.message.id is that of an earlier message.")
        return self


class StartedBody(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A call was cleared to run, and may have had an effect from here on. `key` is its idempotency key, which stays
    the same when it is run again."""

    kind: ClassVar[str] = "started"

    call_id: str
    key: str = ""
    origin: Origin = ""

    def fold(self, standing: Standing) -> None:
        standing.started[self.call_id] = self.key
        standing.call_ids.add(self.call_id)  # no later call may be taken for it

    def check(self) -> None:
        check_id(self.call_id, "call_id", LONGEST_CALL_ID)


class RewoundBody(Body, frozen=True, kw_only=True, omit_defaults=False):
    """The agent's history goes on behind the message `after`; from its beginning if that is empty."""

    kind: ClassVar[str] = "rewound"

    agent: str
    after: str = ""

    def fold(self, standing: Standing) -> None:
        history = standing.here(self.agent)
        standing.switched += history.rewind(self.after, standing.seq)
        history.turn.rewound(standing.run_id)

    def check(self) -> None:
        check_agent(self.agent)

    def fit(self, so_far: SoFar) -> Self:
        if self.after and so_far.standing.here(self.agent).tree.find(self.after) is None:
            raise Wrong("body.after is no message of the agent's.")
        return self


class StateBody(Body, frozen=True, kw_only=True, omit_defaults=True):
    """The session's state: the whole `value`, or a `patch` of RFC 6902 to what it was before."""

    kind: ClassVar[str] = "state"

    value: Any = None
    patch: list[dict[str, Any]] | None = None

    def fold(self, standing: Standing) -> None:
        standing.changes.take(self.value, self.patch, standing.seq)

    def fit(self, so_far: SoFar) -> "StateBody":
        return StateBody(value=so_far.state) if so_far.change_state(self.value, self.patch) else self


class TitledBody(Body, frozen=True, kw_only=True):
    """The session got a title."""

    kind: ClassVar[str] = "titled"

    title: str

    def fold(self, standing: Standing) -> None:
        standing.title = self.title

    def check(self) -> None:
        if not is_title(self.title):
            raise Wrong("body.title must be one line of 1 to 200 characters, without blanks at its ends.")


class ForkedBody(Body, frozen=True, kw_only=True):
    """The entries before this one are a copy: of which session, up to which message."""

    kind: ClassVar[str] = "forked"

    session_id: str
    message_id: str

    def fold(self, standing: Standing) -> None:
        standing.mark_all_copied()

    def check(self) -> None:
        check_id(self.session_id, "session_id")
        check_id(self.message_id, "message_id")


class AskedBody(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A call waits for something outside."""

    kind: ClassVar[str] = "asked"

    agent: str
    interrupt: Interrupt
    origin: Origin = ""

    def fold(self, standing: Standing) -> None:
        standing.owners[self.interrupt.id] = self.agent
        standing.operations.setdefault(self.interrupt.operation_id, set()).add(self.interrupt.id)
        if not self.origin:
            standing.here(self.agent).asked[self.interrupt.call_id] = self.interrupt

    def check(self) -> None:
        check_agent(self.agent)
        check_interrupt(self.interrupt)

    def fit(self, so_far: SoFar) -> Self:
        # Else the answer to it would count for a call that somebody makes later, under the same id.
        if so_far.standing.here(self.agent).tree.find_call(self.interrupt.call_id) is None:
            raise Wrong("body.interrupt.call_id is that of no call of the agent's before it.")
        return self


class AnsweredBody(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A call has what it waited for. The first answer to an interrupt counts."""

    kind: ClassVar[str] = "answered"

    interrupt_id: str
    decision: Decision
    origin: Origin = ""

    def fold(self, standing: Standing) -> None:
        if self.decision.kind in ("result", "failed"):
            standing.takers.setdefault(self.interrupt_id, standing.run_id)
        if not self.origin:
            standing.decisions.setdefault(self.interrupt_id, self.decision)

    def fit(self, so_far: SoFar) -> Self:
        if self.interrupt_id not in so_far.standing.owners:
            raise Wrong("body.interrupt_id is that of no interrupt before it.")
        return self


KINDS: dict[str, type[Body]] = {each.kind: each for each in Body.__subclasses__()}
"""Each kind's class, by its word."""

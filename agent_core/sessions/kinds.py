"""The kinds of entries: one class for each, and nothing about a kind stands anywhere else.

- kind: its name in the store and in exports
- the fields: its body, as JSON. A body with an `origin` is marked in a copy
- fold: what the entry changes in the session's standing
- check, fit: what must hold if it comes from outside, for the body alone, and behind the entries before it

A new kind is one more class. An entry of a later version may have a kind that has no class here: it keeps its number,
and its body is a plain `Body`, which changes nothing.
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
"""Earlier versions stored a claim at the beginning of its messages' ids, and not with the run."""


class Body(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The base of all kinds. By itself it is the body of an unknown kind."""

    kind: ClassVar[str] = ""

    def fold(self, standing: Standing) -> None:
        """Change the standing as the entry says."""

    def check(self) -> None:
        """Raise Wrong if a member is not what it must be."""

    def fit(self, so_far: SoFar) -> "Body":  # noqa: ARG002  # most kinds stand behind anything
        """The body, or an equal one that costs less to read. Raises Wrong if it does not fit the entries before it."""
        return self


class RunBody(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A run began.

    - client: the protocol that the client speaks
    - at: milliseconds since the epoch
    - opens: a new turn begins with this run. None comes from earlier versions, which did not say
    - claim: equal requests have the same; empty if there is none
    """

    kind: ClassVar[str] = "run"

    agent: str
    client: str = ""
    at: int = 0
    opens: bool | None = None
    claim: str = ""

    def fold(self, standing: Standing) -> None:
        run_id, history = standing.run_id, standing.here(self.agent)
        run = PastRun(agent=self.agent, client=self.client, claim=self.claim, seq=standing.seq, began_at=self.at)
        standing.session.open_runs[run_id, standing.lane] = run, history.turn
        standing.session.clients.add(self.client)
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
    """A run ended.

    - status: as in AgentEnd, or `failed` with the error's code
    - at: milliseconds since the epoch
    - last: the number of the run's last event, 0 if unknown
    - unread: nobody was there to read the end
    - tokens, seconds: what the run has used, 0 if unknown
    - cut: as in AgentEnd
    """

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
        found = standing.session.open_runs.pop((standing.run_id, standing.lane), None)
        if found is None:
            return
        run, turn = found
        run.status, run.code, run.ended_at = self.status, self.code, self.at
        run.last, run.unread, run.cut = self.last, self.unread, self.cut
        turn.spend(self.tokens, self.seconds)

    def check(self) -> None:
        check_status(self.status, self.code)
        for member in ("at", "last", "tokens", "seconds"):
            check_number(getattr(self, member), member)


class MessageBody(Body, frozen=True, kw_only=True, omit_defaults=True):
    """A message was added to the history of `agent`."""

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
    """A call was cleared to run, and may have had an effect from here on. `key` is its idempotency key. It stays the
    same if the call is run again."""

    kind: ClassVar[str] = "started"

    call_id: str
    key: str = ""
    origin: Origin = ""

    def fold(self, standing: Standing) -> None:
        standing.session.started[self.call_id] = self.key
        standing.session.call_ids.add(self.call_id)  # no later call may be taken for it

    def check(self) -> None:
        check_id(self.call_id, "call_id", LONGEST_CALL_ID)


class RewoundBody(Body, frozen=True, kw_only=True, omit_defaults=False):
    """The agent's history goes on behind the message `after`, or from its beginning if that is empty."""

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
    """The session's state changed: to `value`, or by a `patch` (RFC 6902) if there is one."""

    kind: ClassVar[str] = "state"

    value: Any = None
    patch: list[dict[str, Any]] | None = None

    def fold(self, standing: Standing) -> None:
        standing.session.changes.take(self.value, self.patch, standing.seq)

    def fit(self, so_far: SoFar) -> "StateBody":
        return StateBody(value=so_far.state) if so_far.change_state(self.value, self.patch) else self


class TitledBody(Body, frozen=True, kw_only=True):
    """The session got a title."""

    kind: ClassVar[str] = "titled"

    title: str

    def fold(self, standing: Standing) -> None:
        standing.session.title = self.title

    def check(self) -> None:
        if not is_title(self.title):
            raise Wrong("body.title must be one line of 1 to 200 characters, without blanks at its ends.")


class ForkedBody(Body, frozen=True, kw_only=True):
    """The entries before this one are a copy of that session up to that message."""

    kind: ClassVar[str] = "forked"

    session_id: str
    message_id: str

    def fold(self, standing: Standing) -> None:
        standing.forked()

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
            standing.ask(self.agent, self.interrupt)

    def check(self) -> None:
        check_agent(self.agent)
        check_interrupt(self.interrupt)

    def fit(self, so_far: SoFar) -> Self:
        # Otherwise the answer would count for a later call with the same id.
        if so_far.standing.here(self.agent).tree.find_call(self.interrupt.call_id) is None:
            raise Wrong("body.interrupt.call_id is that of no call of the agent's before it.")
        return self


class AnsweredBody(Body, frozen=True, kw_only=True, omit_defaults=True):
    """An interrupt was answered. The first answer counts."""

    kind: ClassVar[str] = "answered"

    interrupt_id: str
    decision: Decision
    origin: Origin = ""

    def fold(self, standing: Standing) -> None:
        if self.decision.kind in ("result", "failed"):
            standing.takers.setdefault(self.interrupt_id, standing.run_id)
        if not self.origin:
            standing.session.decisions.setdefault(self.interrupt_id, self.decision)

    def fit(self, so_far: SoFar) -> Self:
        if self.interrupt_id not in so_far.standing.owners:
            raise Wrong("body.interrupt_id is that of no interrupt before it.")
        return self


KINDS: dict[str, type[Body]] = {each.kind: each for each in Body.__subclasses__()}
"""The class of each kind."""

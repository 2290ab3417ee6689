"""A session through calls, failures, time limits, stops, approvals, denials, new messages, crashes and resumes, in any
order: every call keeps its one result, and nothing is done that nobody has approved, or twice."""

import asyncio
from collections import Counter
from typing import Any
from unittest.mock import patch

import orjson
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agent_core import Engine
from agent_core.events import AgentEnd, Event, RunFailed
from agent_core.interrupts import Answer, Decision, Interrupt
from agent_core.messages import Message, new_id
from agent_core.pairing import open_calls
from agent_core.run_input import RunInput
from agent_core.sessions.entries import now_ms
from tests.agent_core.trust_world import GATED, IDEMPOTENT, PICK, SERVER_TOOLS, Effect, Fault, World
from tests.doubles import events_of

BATCH = st.lists(st.sampled_from([*SERVER_TOOLS, GATED, GATED, "pick", "nobody"]), min_size=1, max_size=4)
BATCHES = st.lists(BATCH, min_size=1, max_size=2)
FAULTS = [Fault(kind=kind, at=at) for kind in ("lost", "kept", "hiccup") for at in range(6)]
FAULT = st.sampled_from([None] * 2 * len(FAULTS) + FAULTS + [Fault(kind="model")])
CHOICE = st.sampled_from(["approve", "edit", "deny", "abandon"])
CHOICES = st.lists(CHOICE, min_size=4, max_size=4)


class Trust(RuleBasedStateMachine):
    """`shown` are the interrupts that a run's end has told of, `said` the answers that were sent to each."""

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.world = self.runner.run(_world())
        self.shown: dict[str, Interrupt] = {}
        self.said: dict[str, list[Answer]] = {}
        self.decisions: dict[str, Decision] = {}
        self.lost = False

    # What is done

    @precondition(lambda self: not self.pending())
    @rule(batches=BATCHES, parallel=st.booleans(), fault=FAULT)
    def say(self, batches: list[list[str]], parallel: bool, fault: Fault | None) -> None:
        self.world.batches = batches
        self.run(RunInput(messages=(_user("go"),), tools=(PICK,)), parallel, fault)

    @precondition(lambda self: self.pending())
    @rule(batches=BATCHES, fault=FAULT)
    def move_on(self, batches: list[list[str]], fault: Fault | None) -> None:
        """A new message: what waits is settled by it."""
        self.world.batches = batches
        self.run(RunInput(messages=(_user("rather"),), tools=(PICK,)), False, fault)

    @rule(batches=BATCHES, parallel=st.booleans(), fault=FAULT)
    def go_on(self, batches: list[list[str]], parallel: bool, fault: Fault | None) -> None:
        """A run that brings nothing new."""
        self.world.batches = batches
        self.run(RunInput(tools=(PICK,)), parallel, fault)

    @precondition(lambda self: self.pending())
    @rule(choices=CHOICES, parallel=st.booleans(), fault=FAULT, more=BATCHES)
    def answer_all(self, choices: list[str], parallel: bool, fault: Fault | None, more: list[list[str]]) -> None:
        self.world.batches = more
        answers = [_answer(each, choice) for each, choice in zip(self.pending(), choices, strict=False)]
        self.send(answers, parallel, fault)

    @precondition(lambda self: self.pending())
    @rule(choices=CHOICES, some=st.sets(st.integers(0, 3)), parallel=st.booleans(), fault=FAULT, more=BATCHES,
          message=st.booleans())  # fmt: skip
    def answer_some(
        self,
        choices: list[str],
        some: set[int],
        parallel: bool,
        fault: Fault | None,
        more: list[list[str]],
        message: bool,
    ) -> None:
        """Some of what waits is answered, perhaps with a new message beside it."""
        self.world.batches = more
        answered = [(each, choices[at]) for at, each in enumerate(self.pending()) if at in some]
        said = (_user("and this"),) if message else ()
        self.send([_answer(*each) for each in answered], parallel, fault, said)

    @precondition(lambda self: len(self.pending()) > 1)
    @rule(first=CHOICE, other=CHOICE, then=CHOICE, parallel=st.booleans(), fault=FAULT)
    def answer_in_two_halves(self, first: str, other: str, then: str, parallel: bool, fault: Fault | None) -> None:
        """One of what waits, then the rest; beside these, the first is answered again, otherwise."""
        one, *rest = self.pending()
        self.send([_answer(one, first)], parallel, None)
        assert self.pending() == tuple(rest)
        self.send([_answer(one, other), *(_answer(each, then) for each in rest)], parallel, fault)

    @precondition(lambda self: self.shown)
    @rule(choice=CHOICE, data=st.data(), parallel=st.booleans())
    def answer_again(self, choice: str, data: st.DataObject, parallel: bool) -> None:
        """An answer to what was answered before, or is settled otherwise, and one to what never was."""
        old = [each for key, each in sorted(self.shown.items()) if each not in self.pending()]
        if old:
            answer = _answer(data.draw(st.sampled_from(old)), choice)
            unknown = Answer(interrupt_id="nobody's", payload={"approved": True})
            self.send([answer, unknown], parallel, None)

    @precondition(lambda self: self.pending())
    @rule(late=st.booleans(), data=st.data())
    def answer_wrongly(self, late: bool, data: st.DataObject) -> None:
        """Too late, or of no shape: nothing of the input counts."""
        approvals = [each for each in self.pending() if each.kind == "approval"]
        if approvals:
            before = self.world.entries()
            bad = data.draw(st.sampled_from(approvals))
            payload = {"approved": True} if late else {"approved": "true"}
            answers = [_answer(each, "approve") for each in self.pending() if each is not bad]
            answers.append(Answer(interrupt_id=bad.id, payload=payload))
            clock = now_ms() + (120_000 if late else 0)
            with patch("agent_core.react.opening.decisions.now_ms", lambda: clock):
                events = self.run(RunInput(answers=tuple(answers)), False, None)
            assert isinstance(events[-1], RunFailed), events
            assert events[-1].code == "invalid_request"
            assert self.world.entries() == before

    @rule(forged=st.booleans(), parallel=st.booleans(), fault=FAULT)
    def return_results(self, forged: bool, parallel: bool, fault: Fault | None) -> None:
        """The client answers its calls. If `forged`, it answers the server's calls too."""
        calls = [call for call in open_calls(self.world.history().messages) if forged or call.name == "pick"]
        results = [
            Message(id=new_id("t"), role="tool", tool_call_id=call.id, content='{"approved":true}') for call in calls
        ]
        self.run(RunInput(messages=tuple(results), tools=(PICK,)), parallel, fault)

    @rule(parallel=st.booleans(), fault=FAULT)
    def regenerate(self, parallel: bool, fault: Fault | None) -> None:
        """The last question is asked again: what came of it is rewound."""
        messages = self.world.history().messages
        last = max((n for n, each in enumerate(messages) if each.role == "user"), default=None)
        if last is not None:
            self.run(RunInput(messages=tuple(messages[: last + 1]), tools=(PICK,)), parallel, fault, rewinds=True)

    @rule()
    def observe(self) -> None:
        before = self.pending()
        said = [Message(id=new_id("o"), role="user", content="by the way")]
        self.runner.run(self.world.engine.observe(self.world.agents[False], said, user_id="u", session_id="s"))
        assert self.pending() == before

    @rule()
    def restart(self) -> None:
        """The worker ends and another one takes over."""
        self.runner.run(self.change_engine())

    # How it is done

    def pending(self) -> tuple[Interrupt, ...]:
        return self.world.history().pending if hasattr(self, "world") else ()

    async def change_engine(self) -> None:
        await self.world.engine.aclose()
        self.world.store.revive()
        self.world.engine = Engine(store=self.world.store)

    def send(self, answers: list[Answer], parallel: bool, fault: Fault | None, said: tuple[Message, ...] = ()) -> None:
        for each in answers:
            self.said.setdefault(each.interrupt_id, []).append(each)
        self.run(RunInput(messages=said, answers=tuple(answers), tools=(PICK,)), parallel, fault)

    def run(self, given: RunInput, parallel: bool, fault: Fault | None, *, rewinds: bool = False) -> list[Event]:
        waited = {each.id for each in self.pending()}
        settled = {each.id for each in self.world.history().asked.values()} - waited
        done = len(self.world.effects)
        self.world.store.revive(fault)
        events = self.runner.run(events_of(self.world.engine, self.world.agents[parallel], given))
        died = self.world.store.dead
        self.world.store.revive()
        self.world.batches = []
        ends = [each for each in events if isinstance(each, AgentEnd | RunFailed)]
        assert ends == events[-1:], "exactly one terminal event, at the end"
        if died:
            self.runner.run(self.change_engine())
        end = ends[0]
        self.lost |= isinstance(end, RunFailed)
        if isinstance(end, AgentEnd):
            self.check_end(end)
        if rewinds or any(each.role == "user" for each in given.messages):
            settled |= waited
        if not any(each.name == "halt" for each in self.world.effects[done:]):  # a stop settles what waits
            self.check_survivors(settled)
        return events

    # What must hold

    def check_end(self, end: AgentEnd) -> None:
        history = self.world.history()
        assert end.interrupts == history.pending
        assert bool(end.interrupts) == (end.status in ("approval", "waiting"))
        if end.run_id not in history.runs:
            return  # it was only told what there is, and a lost run may have left calls that nobody has settled yet
        calls = open_calls(history.messages)
        assert bool(calls) == (end.status in ("approval", "waiting", "client_tools")), (end, calls)
        if end.status == "client_tools":
            # If a lost run left a call open, nobody knows any more whether its tool was a client's.
            assert {call.name for call in calls} <= ({"pick", "nobody"} if self.lost else {"pick"})
        self.shown |= {each.id: each for each in end.interrupts}

    def check_survivors(self, settled: set[str]) -> None:
        """What waited before, and what was asked since, waits still or has an answer."""
        history = self.world.history()
        for each in history.asked.values():
            assert each.id in settled or each in history.pending or each.id in history.decisions, f"{each} is gone"

    @invariant()
    def nothing_wrong_was_noted(self) -> None:
        if hasattr(self, "world"):
            assert self.world.wrong == []

    @invariant()
    def every_call_has_at_most_one_result_and_an_id_of_its_own(self) -> None:
        messages = self.world.history().messages if hasattr(self, "world") else []
        asked = Counter(call.id for each in messages for call in each.tool_calls)
        answered = Counter(each.tool_call_id for each in messages if each.role == "tool")
        assert set(asked.values()) | set(answered.values()) <= {1}
        assert set(answered) <= set(asked)

    @invariant()
    def a_decision_stands_and_is_what_somebody_said(self) -> None:
        found = self.world.history().decisions if hasattr(self, "world") else {}
        for interrupt_id, decision in self.decisions.items():
            assert found[interrupt_id] == decision
        for interrupt_id, decision in found.items():
            assert any(_means(each, decision) for each in self.said.get(interrupt_id, [])), decision
        self.decisions = dict(found) if hasattr(self, "world") else {}

    @invariant()
    def nothing_is_done_twice_or_without_its_approval(self) -> None:
        done: dict[str, list[Effect]] = {}
        for effect in self.world.effects if hasattr(self, "world") else []:
            done.setdefault(effect.call_id, []).append(effect)
        for effects in done.values():
            assert len({each.key for each in effects}) == 1, "the key stays the same"
            assert len(effects) == 1 or effects[0].name == IDEMPOTENT, effects
            if effects[0].name == GATED:
                self.check_approved(effects[0])

    def check_approved(self, effect: Effect) -> None:
        decision = self.world.decision_for(effect.call_id)
        interrupt = self.world.history().asked[effect.call_id]
        assert decision is not None, effect
        assert decision.kind == "approved"
        wanted = orjson.loads(decision.arguments or interrupt.arguments)
        assert wanted == {"n": effect.n} | ({"text": effect.text} if effect.text else {})

    def teardown(self) -> None:
        """Whatever has happened, a new message settles it all."""
        if not hasattr(self, "world"):
            return
        try:
            events = self.run(RunInput(messages=(_user("the last"),), tools=(PICK,)), False, None)
            assert isinstance(events[-1], AgentEnd), events
            assert events[-1].status == "completed"
            messages = self.world.history().messages
            assert {call.id for each in messages for call in each.tool_calls} == {
                each.tool_call_id for each in messages if each.role == "tool"
            }
            self.nothing_wrong_was_noted()
        finally:
            self.runner.run(self.world.engine.aclose())
            self.runner.close()


async def _world() -> World:
    return World()


def _user(text: str) -> Message:
    return Message(id=new_id("u"), role="user", content=text)


def _answer(interrupt: Interrupt, choice: str) -> Answer:
    """The choice as an answer to an approval, or to an operation, which has a result or has failed."""
    if choice == "abandon":
        return Answer(interrupt_id=interrupt.id, status="cancelled")
    payload: Any
    if interrupt.kind == "waiting":
        payload = {"error": "lost"} if choice == "deny" else {"result": "here"}
    elif choice == "edit":
        payload = {"approved": True, "arguments": orjson.loads(interrupt.arguments) | {"text": "edited"}}
    else:
        payload = {"approved": choice == "approve"}
    return Answer(interrupt_id=interrupt.id, payload=payload)


def _means(answer: Answer, decision: Decision) -> bool:
    if answer.status == "cancelled":
        return decision.kind == "abandoned"
    payload = answer.payload
    if "approved" in payload:
        edited = payload.get("arguments")
        kind = "approved" if payload["approved"] else "denied"
        return decision.kind == kind and (orjson.loads(decision.arguments) if decision.arguments else None) == edited
    return decision.kind == ("failed" if "error" in payload else "result")


TestTrust = Trust.TestCase
TestTrust.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)

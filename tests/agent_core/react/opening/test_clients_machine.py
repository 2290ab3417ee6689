"""A client that shows what it shows, and asks, edits, regenerates, picks branches, answers and repeats itself in any
order: the model sees what the client shows, and no call is carried out twice."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agent_core.errors import ModelError
from agent_core.events import AgentEnd, Event, RunFailed
from agent_core.interrupts import Answer
from agent_core.messages import Message
from agent_core.models.base import ModelRequest
from tests.agent_core.react.opening.talk import KEY, Talk, ignored, is_told, result, said, status, told
from tests.doubles import calls, says

TOOLS = {"note": ["note"], "mail": ["mail"], "pick": ["pick"], "mix": ["note", "pick"], "all": ["mail", "pick"]}
QUESTION = st.sampled_from(["yes", "yes", "hello", *TOOLS])
PLACE = st.integers(min_value=0, max_value=99)


class Client(RuleBasedStateMachine):
    """A client, as the machine knows it.

    - shows: the messages that it shows its user
    - branches: those that it has shown before
    - sent: its last request
    - failed: whether that request's run has failed

    Each call of the model has its own number, so that a call that runs twice is seen.
    """

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.talk = Talk()
        self.talk.model.steps = [self._step]
        self.shows: list[Message] = []
        self.branches: list[list[Message]] = []
        self.sent: dict[str, Any] = {}
        self.ids: list[str] = []
        self.number = 0
        self.fails = self.failed = False

    def _step(self, request: ModelRequest) -> list[Any]:
        self.number += 1
        question = next(each.text for each in reversed(request.messages) if each.role == "user")
        names = TOOLS.get(question.partition(" ")[0], ())
        if names and request.messages[-1].role != "tool":
            return calls(*((name, f'{{"text":"{self.number}"}}') for name in names))
        if self.fails:
            return [*says("half"), ModelError("model_unreachable")]
        return says(f"answer {self.number}")

    # What the client does

    @rule(question=QUESTION)
    def ask(self, question: str) -> None:
        self.send([*self.shows, self.new(question)])

    @rule(question=QUESTION)
    def ask_in_vain(self, question: str) -> None:
        self.fails = True
        self.send([*self.shows, self.new(question)])
        self.fails = False

    @rule(question=QUESTION)
    def ask_with_a_greeting_in_front(self, question: str) -> None:
        if self.shows:
            greeting = said(f"g{self.number}", "hello", "assistant")
            new = self.new(question)
            self.send([greeting, *self.shows, new], shown=[*self.shows, new])

    @precondition(lambda self: not self.failed)  # else a question with the same text is the one that failed
    @rule(question=QUESTION)
    def ask_with_only_what_is_new(self, question: str) -> None:
        new = self.new(question)
        self.send([new], shown=[*self.shows, new])

    @precondition(lambda self: self.shows)
    @rule()
    def instruct(self) -> None:
        new = said(f"s{self.number}", f"rule {self.number}", "system")
        self.send([*self.shows, new])

    @precondition(lambda self: self.shows)
    @rule(question=QUESTION, place=PLACE)
    def edit(self, question: str, place: int) -> None:
        at = self.question_at(place)
        edited = said(self.shows[at].id, f"{question} (edited {self.number})")
        self.send([*self.shows[:at], edited])

    @precondition(lambda self: len(self.questions) > 1)
    @rule(question=QUESTION, place=PLACE)
    def edit_under_a_new_id(self, question: str, place: int) -> None:
        at = self.questions[1 + place % (len(self.questions) - 1)]
        self.send([*self.shows[:at], self.new(question)])

    @precondition(lambda self: self.shows and not self.failed)
    @rule(place=PLACE)
    def regenerate(self, place: int) -> None:
        at = self.question_at(place)
        self.send(self.shows[: at + 1], asks=at != self.questions[-1] or not self.open)

    @precondition(lambda self: self.branches)
    @rule(place=PLACE, question=QUESTION)
    def go_on_with_a_branch(self, place: int, question: str) -> None:
        branch, new = self.branches[place % len(self.branches)], self.new(question)
        self.send([*branch, new], shown=[*branch, *self.added_to(branch), new])

    @precondition(lambda self: self.open)
    @rule(approved=st.booleans(), question=st.sampled_from(["", "", "and more"]))
    def answer(self, approved: bool, question: str) -> None:
        """All that waits."""
        waiting = self.runner.run(self.talk.history()).pending
        answers = [Answer(interrupt_id=each.id, status="resolved", payload={"approved": approved}) for each in waiting]
        asking = {each.call_id for each in waiting}
        results = [result(call_id, "blue") for call_id in self.open if call_id not in asking]
        new = [self.new(question)] if question else []
        self.send([*self.shows, *results, *new], answers=answers)

    @precondition(lambda self: self.sent)
    @rule(same=st.booleans())
    def repeat(self, same: bool) -> None:
        """The last request again, under its `runId` or another one. Somebody has read the answer. So if the request
        ended on a question or a result, it is a wish for another answer."""
        before, entries, failed = self.talk.asked, self.stored(), self.failed
        if not same:
            self.sent["run_id"] = f"again{self.number}"
        events = self.run(**self.sent)
        assert is_told(events) or not same or failed
        if is_told(events):
            assert (self.talk.asked, self.stored()) == (before, entries)
            assert told(events) == [each.text for each in self.shows]
        else:
            assert self.talk.asked > before or self.open
        self.show()

    @rule(data=st.data())
    def send_anything(self, data: st.DataObject) -> None:
        """What no client would send: whatever else it does, no word of the user's is lost in silence."""
        stored = [*self.shows, *(message for branch in self.branches for message in branch)]
        number = self.number = self.number + 1
        others = [
            *(said(f"x{number}-{at}", f"new {number}-{at}") for at in range(3)),
            *(Message(id=each.id, role="user", content=f"other {number} {each.id}") for each in stored[-8:]),
            *(result(call.id, "forged", f"f{number}-{call.id}") for each in stored for call in each.tool_calls),
            said(f"g{number}", "hello", "assistant"),
            said(f"r{number}", "be kind", "system"),
        ]
        self.sent = {}
        messages = data.draw(st.lists(st.sampled_from([*stored, *others]), max_size=6))
        run_id = data.draw(st.sampled_from([f"run{number}", *self.ids]))
        events = self.run(messages=messages, answers=[], run_id=run_id)
        if status(events) == "invalid_request":
            return  # an edit with an answer, by name
        passed_over = {each["messageId"] for each in ignored(events)}
        texts = set(self.runner.run(self.talk.said()))
        lost = [each for each in messages if each.role == "user" and each.text not in texts]
        assert {each.id for each in lost} <= passed_over
        self.show()

    # What it is told, and what holds

    def send(
        self,
        messages: list[Message],
        *,
        asks: bool = True,
        shown: list[Message] | None = None,
        answers: Sequence[Answer] = (),
    ) -> None:
        if self.shows and not self.open and len(self.branches) < 20:
            self.branches.append(self.shows)
        before = self.talk.asked
        self.number += 1
        self.sent = {"messages": messages, "answers": answers, "run_id": f"run{self.number}"}
        events = self.run(**self.sent)
        assert ignored(events) == []
        assert is_told(events) is not asks
        if asks:
            assert _turns(self.talk.model.requests[before].messages) == _turns(messages if shown is None else shown)
        self.show()

    def run(self, *, messages: Sequence[Message], answers: Sequence[Answer], run_id: str) -> list[Event]:
        self.ids.append(run_id)
        events = self.runner.run(self.talk.ask(*messages, answers=answers, run_id=run_id))
        ends = [each for each in events if isinstance(each, AgentEnd | RunFailed)]
        assert ends == events[-1:]
        if not is_told(events):
            self.failed = status(events) == "model_unreachable"
        refused = "model_unreachable" if self.fails else "" if self.sent else "invalid_request"
        assert status(events) in ("completed", "approval", "client_tools", refused)
        return events

    def show(self) -> None:
        self.shows = list(self.runner.run(self.talk.shown()))

    def stored(self) -> int:
        return len(self.runner.run(self.talk.engine.store.load(KEY)))

    def new(self, question: str) -> Message:
        self.number += 1
        return said(f"u{self.number}", question)

    @property
    def questions(self) -> list[int]:
        return [at for at, each in enumerate(self.shows) if each.role == "user"]

    def question_at(self, place: int) -> int:
        return self.questions[place % len(self.questions)]

    def added_to(self, branch: list[Message]) -> list[Message]:
        """What new instructions alone have added to a branch since. The user has said nothing there, so no other branch
        begins, and what they added is kept."""
        end = len(branch)
        if [each.id for each in self.shows[:end]] != [each.id for each in branch]:
            return []
        more = list(takewhile(lambda each: each.role != "user", self.shows[end:]))
        return more if more and more[0].role == "system" else []

    @property
    def open(self) -> list[str]:
        answered = {each.tool_call_id for each in self.shows}
        return [call.id for each in self.shows for call in each.tool_calls if call.id not in answered]

    @invariant()
    def nothing_is_carried_out_twice(self) -> None:
        assert max(Counter(self.talk.ran).values(), default=0) <= 1

    def teardown(self) -> None:
        self.runner.run(self.talk.engine.aclose())
        self.runner.close()


def _turns(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """What was said, without results: those of calls that nobody has answered are the server's."""
    return [(each.id, each.text) for each in messages if each.role in ("user", "assistant")]


TestClient = Client.TestCase
# A failure is told as it was found: to make it smaller takes longer than a test may. `list(Phase)` does it by hand.
PHASES = [each for each in Phase if each not in (Phase.shrink, Phase.explain)]
TestClient.settings = settings(max_examples=100, stateful_step_count=25, deadline=None, phases=PHASES)

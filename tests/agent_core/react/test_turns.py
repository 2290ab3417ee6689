"""Limits belong to a turn: they count over all runs for one question, on any worker, and start again with the next one.

A client may answer its own tools at once, a person may approve all calls, and an operation may always have its result.
None of that gives new limits to a model that goes in circles.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core import Agent, Engine, ToolError, tool
from agent_core.engine import RunResult
from agent_core.errors import ModelError, RunError
from agent_core.events import Event, ExceedMaxIters, Guard, RunFailed, ToolResultEnd
from agent_core.guards.settings import Guards
from agent_core.guards.watch import rewatched
from agent_core.interrupts import Answer
from agent_core.messages import Message, TextPart, ToolCall, new_id
from agent_core.models.base import ModelRequest, Piece, UsagePiece
from agent_core.names import SessionKey
from agent_core.pairing import open_calls, paired
from agent_core.run import Run
from agent_core.run_input import RunInput
from agent_core.sessions.entries import Addition, Entry, body_of
from agent_core.sessions.history import history_of
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.kinds import EndBody, RunBody
from agent_core.tools.base import Pending, ToolSpec
from agent_core.usage import Usage
from tests.agent_core.react.agents import stored
from tests.doubles import Collected, ScriptedModel, Step, calls, says
from tests.entries import end_entry, message_entry, rewound_entry, run_entry

PICK = ToolSpec(name="pick", description="The client's.")
HONEST = "I found no more than this."
KEY = SessionKey(user_id="u", session_id="s")


def always(name: str, arguments: Callable[[int], str]) -> Step:
    """Asks for the tool as long as there are tools, then answers."""

    def step(request: ModelRequest) -> Sequence[Piece]:
        asked = sum(len(message.tool_calls) for message in request.messages)
        return calls((name, arguments(asked))) if request.tools else says(HONEST)

    return step


def same(_: int) -> str:
    return '{"n":0}'


def counted(n: int) -> str:
    return f'{{"n":{n}}}'


class Client:
    """A client that goes on for ever: it answers its own tools at once, approves every call, and has the result of each
    operation. With `restarting`, each run has another engine."""

    def __init__(self, *steps: Step, restarting: bool = False, **members: Any) -> None:
        self.ran = 0
        self.picked = 0
        self.pick: Callable[[int], str] = lambda _: "ok"

        @tool
        def look(n: int = 0) -> str:
            self.ran += 1
            return f"seen {n}"

        @tool
        def dial(n: int = 0) -> str:
            self.ran += 1
            raise ToolError("busy")

        @tool(approval=True)
        def send(n: int = 0) -> str:
            self.ran += 1
            return "sent"

        @tool
        def order(n: int = 0) -> Pending:
            self.ran += 1
            return Pending(operation_id=f"op{self.ran}")

        self.store = InMemoryStore()
        self.model = ScriptedModel(steps)
        self.agent = Agent("a", self.model, tools=[look, dial, send, order], **members)
        self.events: list[Event] = []
        self.runs = 0
        self.restarting = restarting
        self.engine = Engine(store=self.store)
        self.watched: list[Run] = []

    async def run(self, *messages: Message, answers: tuple[Answer, ...] = ()) -> RunResult:
        if self.restarting:
            self.engine = Engine(store=self.store)  # the one before has nothing that this one needs
        self.runs += 1
        given = RunInput(messages=messages, tools=(PICK,), answers=answers)
        run = self.engine.admit(self.agent, given, user_id="u", session_id="s")
        self.watched.append(run)
        end = await self.engine.start(run, Collected(self.events))
        if isinstance(end, RunFailed):
            raise RunError(end.code, end.message)
        for request in self.model.requests:
            assert list(request.messages) == paired(request.messages)
        return RunResult(message=run.answer, status=end.status, interrupts=end.interrupts, usage=end.usage)

    async def go_on(self, result: RunResult, most: int = 300) -> RunResult:
        """Answer whatever is asked, until the run ends by itself."""
        while result.status in ("client_tools", "approval", "waiting"):
            assert self.runs < most, "it goes on for ever"
            if result.interrupts:
                result = await self.run(answers=tuple(self.answer_to(each) for each in result.interrupts))
                continue
            waiting = open_calls(await stored(self.engine))
            assert waiting
            result = await self.run(*(self.result_of(call.id) for call in waiting))
        return result

    def answer_to(self, interrupt: Any) -> Answer:
        payload = {"approved": True} if interrupt.kind == "approval" else {"result": "done"}
        return Answer(interrupt_id=interrupt.id, status="resolved", payload=payload)

    def result_of(self, call_id: str) -> Message:
        self.picked += 1
        return Message(id=new_id("t"), role="tool", tool_call_id=call_id, content=self.pick(self.picked))

    @property
    def trips(self) -> list[tuple[str, str, str, int]]:
        return [(each.guard, each.action, each.tool, each.count) for each in self.events if isinstance(each, Guard)]


def user(text: str, message_id: str = "") -> Message:
    return Message(id=message_id or new_id("u"), role="user", content=text)


NUDGED_AND_ENDED = [("nudge", 3), ("block", 4), ("block", 5), ("answer", 5)]


@pytest.mark.parametrize("restarting", [False, True])
@pytest.mark.parametrize("name", ["pick", "send", "order"])
async def test_whoever_answers_the_same_call_for_ever_it_is_told_then_blocked_then_ended(
    name: str, restarting: bool
) -> None:
    client = Client(always(name, same), restarting=restarting)
    result = await client.go_on(await client.run(user("go")))
    assert result.status == "max_iterations"
    assert result.message is not None
    assert result.message.text == HONEST
    assert client.trips == [("repeats", action, name, count) for action, count in NUDGED_AND_ENDED]
    assert client.ran + client.picked == 3
    assert client.runs == 4, "the blocked ones are nobody's to answer"
    results = [message for message in await stored(client.engine) if message.role == "tool"]
    assert "3 times in a row" in results[2].text, "the model reads it beside the result"
    assert [each.text.startswith("Error: This call was not run") for each in results] == [False] * 3 + [True] * 2


@pytest.mark.parametrize("restarting", [False, True])
@pytest.mark.parametrize("name", ["pick", "send", "order", "look"])
async def test_forty_calls_of_one_tool_are_the_most_of_a_turn_whoever_answers_them(name: str, restarting: bool) -> None:
    client = Client(always(name, counted), restarting=restarting, max_iterations=50)
    client.pick = str
    result = await client.go_on(await client.run(user("go")))
    assert result.status == "max_iterations"
    assert client.trips == [("calls_per_tool", "block", name, 40), ("calls_per_tool", "answer", name, 40)]
    assert client.ran + client.picked == 40


async def test_a_client_whose_results_change_is_a_cursor_and_has_ten() -> None:
    client = Client(always("pick", same))
    client.pick = lambda n: f"page {n}"
    result = await client.go_on(await client.run(user("go")))
    assert result.status == "max_iterations"
    counts = [("nudge", 10), ("block", 11), ("block", 12), ("answer", 12)]
    assert client.trips == [("repeats", action, "pick", count) for action, count in counts]
    assert client.picked == 10


async def test_a_server_tool_beside_a_clients_is_held_over_all_runs_of_a_turn() -> None:
    client = Client(lambda request: calls(("look", ""), ("pick", "")) if request.tools else says(HONEST))
    result = await client.go_on(await client.run(user("go")))
    assert result.status == "max_iterations"
    assert client.ran == 2
    assert client.picked == 2


@pytest.mark.parametrize("restarting", [False, True])
async def test_a_turn_has_a_hundred_rounds_and_a_run_its_own(restarting: bool) -> None:
    off = Guards(calls_per_tool=None, calls_per_run=None)
    client = Client(always("pick", counted), guards=off, max_iterations=2, restarting=restarting)
    client.pick = str
    result = await client.go_on(await client.run(user("go")))
    assert result.status == "max_iterations"
    assert (client.runs, client.picked, len(client.model.requests)) == (101, 100, 101)
    assert client.trips == [("turn_iterations", "answer", "", 100)]
    assert not any(isinstance(event, ExceedMaxIters) for event in client.events), "that is the run's"
    assert "100 rounds" in client.model.requests[-1].messages[0].text
    assert not client.model.requests[-1].tools


async def test_a_run_ends_at_its_own_rounds_first() -> None:
    client = Client(always("look", counted), max_iterations=2, guards=Guards(turn_iterations=3))
    assert (await client.run(user("go"))).status == "max_iterations"
    assert client.trips == []
    assert sum(isinstance(event, ExceedMaxIters) for event in client.events) == 1


async def test_failures_of_several_runs_are_one_tools() -> None:
    rounds = iter(["dial", "pick"] * 9)
    client = Client(lambda request: calls((next(rounds), "")) if request.tools else says(HONEST))
    client.pick = str
    result = await client.go_on(await client.run(user("go")))
    assert result.status == "max_iterations"
    assert client.trips == [("failures", "answer", "dial", 3)]
    assert client.ran == 3


async def test_a_tool_that_was_taken_away_stays_away_for_the_turn() -> None:
    rounds = iter([*["dial"] * 3, "pick", "dial"])

    def step(request: ModelRequest) -> Sequence[Piece]:
        name = next(rounds, "")
        return calls((name, "")) if name else says("done")

    client = Client(step, restarting=True, guards=Guards(on_tool_failure="disable", repeats=None))
    result = await client.go_on(await client.run(user("go")))
    assert result.status == "completed"
    offered = [any(spec.name == "dial" for spec in request.tools) for request in client.model.requests]
    assert offered == [True] * 3 + [False] * 3
    assert client.ran == 3
    assert (await client.run(user("and now"))).status == "completed"
    assert any(spec.name == "dial" for spec in client.model.requests[-1].tools), "a new turn, and it is back"


@pytest.mark.parametrize("restarting", [False, True])
async def test_tokens_of_all_runs_of_a_turn_are_one_budget(restarting: bool) -> None:
    cost = UsagePiece(Usage(provider="p", model="m", input_tokens=30, output_tokens=20))
    pick = always("pick", counted)
    assert callable(pick)
    client = Client(lambda request: [*pick(request), cost], guards=Guards(tokens=200), restarting=restarting)
    client.pick = str
    result = await client.go_on(await client.run(user("go")))
    assert result.status == "max_iterations"
    assert client.trips == [("tokens", "answer", "", 200)]
    assert client.picked == 4
    await client.go_on(await client.run(user("more")))
    assert client.picked == 8, "a new turn has a budget of its own"


async def test_the_time_of_all_runs_of_a_turn_is_one_budget() -> None:
    client = Client(always("pick", counted), guards=Guards(seconds=3600))
    first = await client.run(user("go"))
    entries = await client.store.load(KEY)
    [end] = [body for body in map(body_of, entries) if isinstance(body, EndBody)]
    assert end.seconds > 0
    # The same session, whose first run has taken an hour.
    long = [
        end_entry(entries[0].run_id, end.status, seconds=3600.0) if each.kind == "end" else each for each in entries
    ]
    client.store = InMemoryStore()
    client.engine = Engine(store=client.store)
    await client.engine.sessions.fill(SessionKey(user_id="u", session_id="s"), long)
    result = await client.go_on(first)
    assert result.status == "max_iterations"
    assert client.trips == [("seconds", "answer", "", 3600)]
    assert client.picked == 1


async def test_a_new_message_an_edit_and_a_regenerate_begin_anew_and_nothing_else_does() -> None:
    client = Client(always("look", same), guards=Guards(repeats=None, calls_per_tool=4), max_iterations=50)
    question = user("go", "u1")

    async def ran(*messages: Message) -> int:
        before = client.ran
        await client.run(*messages)
        return client.ran - before

    assert await ran(question) == 4
    assert await ran(question) == 4, "regenerate"
    assert await ran(user("do it", "u1")) == 4, "edit"
    assert await ran(user("go on", "u2")) == 4, "a new message"
    await client.engine.observe(client.agent, [user("seen", "o1")], user_id="u", session_id="s")
    assert len(history_of(await client.store.load(KEY), "a").turn.acted) == 10, "observed, and nobody has asked"


async def test_a_request_that_comes_again_after_a_failure_goes_on_with_its_turn() -> None:
    failed: set[int] = set()

    def step(request: ModelRequest) -> Sequence[Any]:
        done = sum(1 for message in request.messages if message.role == "tool")
        if not request.tools:
            return says(HONEST)
        if done and done % 2 == 0 and done not in failed:
            failed.add(done)
            return [ModelError("model_refused")]
        return calls(("look", counted(done)))

    client = Client(step, guards=Guards(turn_iterations=7, repeats=None))
    for _ in range(20):
        try:
            result = await client.run(user("go", "u1"))
        except RunError:
            continue
        break
    else:
        pytest.fail("it goes on for ever")
    assert result.status == "max_iterations"
    assert client.trips == [("turn_iterations", "answer", "", 7)]


async def test_a_restart_in_the_middle_of_a_turn_leaves_its_limits_as_they_were() -> None:
    client = Client(always("pick", same), restarting=True)
    await client.run(user("go", "u1"))
    [call] = open_calls(await stored(client.engine))
    second = await client.run(client.result_of(call.id))
    assert second.status == "client_tools"
    # The worker of the third run is lost behind its answer.
    [call] = open_calls(await stored(client.engine))
    again = ToolCall(id="c9", name=call.name, arguments=call.arguments)
    lost = Message(id="lost", role="assistant", tool_calls=(again,))
    async with client.engine._runner.writing(KEY, "lost") as writer:
        await writer.append(
            Addition(run_entry("lost", "a", opens=False)),
            Addition(message_entry("lost", "a", client.result_of(call.id))),
            Addition(message_entry("lost", "a", lost)),
        )
    result = await client.go_on(await client.run(client.result_of("c9")))
    assert result.status == "max_iterations"
    assert client.trips == [("repeats", action, "pick", count) for action, count in NUDGED_AND_ENDED]
    assert client.picked == 3


async def test_what_a_guard_blocks_nobody_is_asked_about() -> None:
    client = Client(always("send", same))
    result = await client.run(user("go"))
    asked = 0
    while result.interrupts:
        asked += len(result.interrupts)
        result = await client.run(answers=tuple(client.answer_to(each) for each in result.interrupts))
    assert asked == client.ran == 3


async def test_a_denial_that_comes_again_and_again_is_a_repeat_too() -> None:
    client = Client(always("send", same))
    result = await client.run(user("go"))
    asked = 0
    while result.interrupts:
        asked += 1
        deny = Answer(interrupt_id=result.interrupts[0].id, status="resolved", payload={"approved": False})
        result = await client.run(answers=(deny,))
    assert (asked, client.ran) == (3, 0)
    assert result.status == "max_iterations"


async def test_a_block_beside_an_approval_is_told_at_once_and_the_approval_still_waits() -> None:
    rounds = iter([*[[("pick", "{}")]] * 3, [("pick", "{}"), ("send", "{}")]])
    client = Client(lambda _: calls(*next(rounds, ())) or says("done"))
    result = await client.run(user("go"))
    while result.status == "client_tools":
        [call] = open_calls(await stored(client.engine))
        result = await client.run(client.result_of(call.id))
    assert result.status == "approval"
    assert [call.name for call in open_calls(await stored(client.engine))] == ["send"]
    blocked = [each for each in client.events if isinstance(each, ToolResultEnd) and each.status == "error"]
    assert [(each.name, each.content[:26]) for each in blocked] == [("pick", "Error: This call was not r")]
    assert (await client.go_on(result)).status == "completed"
    assert client.ran == 1


@pytest.mark.parametrize("content", ["a text", (TextPart(text="a "), TextPart(text="text"))])
async def test_what_the_guards_say_beside_a_clients_result_is_no_part_of_it(content: Any) -> None:
    client = Client(always("pick", same))
    result = await client.run(user("go"))
    while result.status == "client_tools":
        [call] = open_calls(await stored(client.engine))
        back = Message(id=new_id("t"), role="tool", tool_call_id=call.id, content=content)
        result = await client.run(back)
    results = [message for message in await stored(client.engine) if message.role == "tool"]
    assert [bool(message.noted) for message in results] == [False, False, True, False, False]
    assert results[2].text.startswith("a text")


def act(n: int, run_id: str) -> list[Entry]:
    asking = Message(id=f"a{n}", role="assistant", tool_calls=(ToolCall(id=f"c{n}", name="look"),))
    back = Message(id=f"t{n}", role="tool", tool_call_id=f"c{n}", content="r", name="look")
    return [message_entry(run_id, "a", asking), message_entry(run_id, "a", back)]


def test_entries_of_earlier_versions_say_by_their_messages_where_a_turn_begins() -> None:
    first = [run_entry("r1", "a"), message_entry("r1", "a", user("go", "u1")), *act(1, "r1"), end_entry("r1", "failed")]
    again = [run_entry("r2", "a"), *act(2, "r2"), end_entry("r2", "completed")]
    seen = [message_entry("observe_1", "a", user("seen", "o1"))]
    assert history_of([*first, *again, *seen], "a").turn.rounds == 2
    rewound = [run_entry("r3", "a"), rewound_entry("r3", "a", "u1"), *act(3, "r3")]
    assert history_of([*first, *again, *rewound], "a").turn.rounds == 1
    asked = [run_entry("r4", "a"), message_entry("r4", "a", user("more", "u4")), *act(4, "r4")]
    assert history_of([*first, *again, *asked], "a").turn.rounds == 1
    others = [run_entry("r5", "b"), message_entry("r5", "b", user("hi", "u5"))]
    assert history_of([*first, *again, *others], "a").turn.rounds == 2, "another agent's turn is not this one's"


@pytest.mark.parametrize("stopped", [False, True])
async def test_the_calls_of_an_answer_that_broke_off_count_once_and_were_not_run(stopped: bool) -> None:
    hanging = asyncio.Event()
    broken = [*calls(("look", "{}")), hanging if stopped else ModelError("model_refused")]
    client = Client(broken)
    if stopped:
        going = asyncio.create_task(client.run(user("go", "u1")))
        await client.model.streaming.wait()
        assert await client.engine.interrupt(user_id="u", session_id="s")
        assert (await going).status == "cancelled"
    else:
        with pytest.raises(RunError):
            await client.run(user("go", "u1"))
    turn = history_of(await client.store.load(KEY), "a").turn
    watch = client.watched[-1].lane.watch
    assert (turn.rounds, len(turn.acted), client.ran) == (1, 2, 0)
    assert rewatched(watch.guards, watch.repeatable, turn.acted) == watch


async def test_a_run_says_whether_it_opens_a_turn_and_what_it_used() -> None:
    client = Client(always("pick", same))
    await client.go_on(await client.run(user("go")))
    bodies = [body_of(entry) for entry in await client.store.load(KEY)]
    assert [body.opens for body in bodies if isinstance(body, RunBody)] == [True, False, False, False]
    assert all(body.seconds > 0 for body in bodies if isinstance(body, EndBody))


async def test_a_long_session_costs_a_run_no_more_than_its_turn() -> None:
    entries: list[Entry] = []
    for n in range(300):
        run_id = f"r{n}"
        entries += [run_entry(run_id, "a", opens=True), message_entry(run_id, "a", user("go", f"u{n}"))]
        entries += [*act(n, run_id), end_entry(run_id, "completed", tokens=10, seconds=1.0)]
    turn = history_of(entries, "a").turn
    assert (len(turn.acted), turn.rounds, turn.tokens, turn.seconds) == (2, 1, 10, 1.0)


ROUNDS = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["look", "dial", "pick", "send", "order", "nobody"]), st.sampled_from(["{}", "{"])),
        min_size=1,
        max_size=4,
    ),
    min_size=1,
    max_size=8,
)


@given(ROUNDS, st.booleans(), st.lists(st.sampled_from(["1", "2"]), min_size=1, max_size=3))
async def test_the_guards_that_were_kept_through_the_runs_are_those_that_the_entries_make(
    rounds: list[list[tuple[str, str]]], parallel: bool, results: list[str]
) -> None:
    def step(request: ModelRequest) -> Sequence[Piece]:
        done = sum(1 for message in request.messages if message.role == "assistant")
        return calls(*rounds[done % len(rounds)]) if request.tools else says(HONEST)

    client = Client(step, parallel_tool_calls=parallel, max_iterations=20)
    client.pick = lambda n: results[n % len(results)]
    result = await client.run(user("go"))
    while True:
        [*_, run] = client.watched
        turn = history_of(await client.store.load(KEY), "a").turn
        again = rewatched(run.lane.watch.guards, run.lane.watch.repeatable, turn.acted)
        kept = run.lane.watch
        if kept._ending is not None and kept._ending.guard == "turn_iterations":
            kept = replace(kept, _ending=None)  # which the loop counts, and not the calls
        assert again == kept
        if result.status not in ("client_tools", "approval", "waiting"):
            break
        waiting = open_calls(await stored(client.engine))
        if result.interrupts:
            result = await client.run(answers=tuple(client.answer_to(each) for each in result.interrupts))
        else:
            result = await client.run(*(client.result_of(call.id) for call in waiting))
    assert result.status == "max_iterations"

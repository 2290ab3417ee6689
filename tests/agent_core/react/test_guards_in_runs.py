"""The guards at work: models that go in circles or run wild, held by the engine, and what everybody is told."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, cast

import pytest

from agent_core import Agent, Engine, ToolContext, ToolError, tool
from agent_core.errors import ModelError
from agent_core.events import AgentEnd, Event, Guard, ModelCallEnd, ModelCallStart, TextDelta, ToolResultEnd
from agent_core.guards.settings import Guards
from agent_core.guards.watch import CLOSING, NO_SUMMARY
from agent_core.messages import Message, ResultStatus, ToolCall
from agent_core.models.base import ModelRequest, Piece, TextPiece, UsagePiece
from agent_core.pairing import paired, result_of
from agent_core.run_input import RunInput
from agent_core.tools.base import Tool, ToolSpec
from agent_core.usage import Usage
from tests.agent_core.react.agents import stored
from tests.doubles import ScriptedModel, Step, calls, events_of, says

HONEST = "I looked, and found no more than this."
Asked = tuple[str, str]


def always(*asked: Asked) -> Callable[[ModelRequest], Sequence[Piece]]:
    """Asks for the same as long as there are tools, then answers."""
    return lambda request: calls(*asked) if request.tools else says(HONEST)


def in_turn(*rounds: Sequence[Asked]) -> list[Step]:
    """One round of calls after the other, again and again."""

    def step(request: ModelRequest) -> Sequence[Piece]:
        done = sum(1 for message in request.messages if message.role == "assistant")
        return calls(*rounds[done % len(rounds)]) if request.tools else says(HONEST)

    return [step]


class Office:
    """An agent whose tools count how often they really ran."""

    def __init__(self, *steps: Step, **members: Any) -> None:
        self.ran: list[str] = []

        @tool
        def look(what: str = "") -> str:
            """Looks."""
            self.ran.append("look")
            return f"a {what}"

        @tool
        def read(page: int = 0) -> str:
            """Reads."""
            self.ran.append("read")
            return f"page {page}"

        @tool
        def dial() -> str:
            """Never works."""
            self.ran.append("dial")
            raise ToolError("busy")

        @tool(repeatable=True)
        def poll() -> str:
            """Always the same."""
            self.ran.append("poll")
            return "not yet"

        self.model = ScriptedModel(steps)
        self.agent = Agent("a", self.model, tools=[look, read, dial, poll], **({"max_iterations": 100} | members))
        self.engine = Engine()

    async def go(self, text: str = "go") -> list[Event]:
        events = await events_of(self.engine, self.agent, text)
        for request in self.model.requests:
            assert list(request.messages) == paired(request.messages)
        history = await stored(self.engine)
        assert history == paired(history)
        return events


def trips(events: Sequence[Event]) -> list[tuple[str, str, str, int]]:
    return [(each.guard, each.action, each.tool, each.count) for each in events if isinstance(each, Guard)]


def told(events: Sequence[Event]) -> list[str]:
    return [each.content for each in events if isinstance(each, ToolResultEnd)]


async def ended(office: Office, events: Sequence[Event], status: str = "max_iterations", text: str = HONEST) -> None:
    end = events[-1]
    assert isinstance(end, AgentEnd), end
    assert end.status == status
    last = (await stored(office.engine))[-1]
    assert (last.role, last.text) == ("assistant", text)


async def test_the_same_call_for_ever_is_told_then_blocked_then_ends_in_an_honest_answer() -> None:
    office = Office(always(("look", '{"what":"key"}')))
    events = await office.go()
    assert trips(events) == [
        ("repeats", "nudge", "look", 3),
        ("repeats", "block", "look", 4),
        ("repeats", "block", "look", 5),
        ("repeats", "answer", "look", 5),
    ]
    assert office.ran == ["look"] * 3
    results = told(events)
    assert results[:2] == ["a key", "a key"]
    assert results[2].startswith("a key\n\n"), "it was run, and the model is told beside its result"
    assert "3 times in a row" in results[2]
    assert all(each.startswith("Error: This call was not run") for each in results[3:])
    assert [message.text for message in office.model.requests[-1].messages if message.role == "tool"] == results
    await ended(office, events)


async def test_the_answer_without_tools_is_asked_for_with_what_happened_and_what_to_be_honest_about() -> None:
    office = Office(always(("look", "{}")), instructions="Be a pirate.")
    await office.go()
    closing = office.model.requests[-1]
    assert closing.tools == ()
    system = closing.messages[0].text
    assert CLOSING in system
    assert "'look' was called again and again" in system
    assert system.endswith("Be a pirate.")
    assert all(message.role != "system" for message in await stored(office.engine))


@pytest.mark.parametrize("step", [[], [TextPiece("  \n")]])
async def test_a_model_that_gives_no_answer_then_has_one_given_for_it(step: list[Piece]) -> None:
    office = Office(lambda request: calls(("look", "{}")) if request.tools else step)
    events = await office.go()
    last = (await stored(office.engine))[-1].text
    assert NO_SUMMARY in last
    assert "'look' was called again and again" in last
    await ended(office, events, text=last)


async def test_arguments_that_mean_the_same_are_the_same_call() -> None:
    office = Office(*in_turn([("read", '{"page": 1}')], [("read", '{ "page":1 }')], [("read", '{"page":1}')]))
    events = await office.go()
    assert trips(events)[0] == ("repeats", "nudge", "read", 3)
    assert office.ran == ["read"] * 3


@pytest.mark.parametrize("length", [2, 3])
async def test_calls_that_go_in_a_circle_end_in_an_answer_too(length: int) -> None:
    office = Office(*in_turn(*([("read", f'{{"page":{page}}}')] for page in range(length))))
    events = await office.go()
    assert [action for _, action, _, _ in trips(events)] == ["nudge", "block", "block", "answer"]
    assert len(office.ran) == 2 * length
    assert "in a circle" in told(events)[2 * length - 1]
    await ended(office, events)


async def test_one_answer_full_of_the_same_call_ends_nothing_since_the_model_was_not_told_yet() -> None:
    office = Office(calls(*[("look", "{}")] * 5), says("done"))
    events = await office.go()
    assert [action for _, action, _, _ in trips(events)] == ["nudge", "block", "block"]
    assert office.ran == ["look"] * 3
    await ended(office, events, "completed", "done")


async def test_unknown_names_and_broken_arguments_again_and_again_are_held_too() -> None:
    for asked in (("nobody", "{}"), ("look", "{broken")):
        office = Office(always(asked))
        events = await office.go()
        assert office.ran == []
        assert len(office.model.requests) < 10
        await ended(office, events)


async def test_a_tool_that_fails_three_times_ends_in_an_answer() -> None:
    office = Office(*in_turn([("dial", "{}")], [("read", '{"page":1}')], [("dial", "null")], [("look", "{}")]))
    events = await office.go()
    assert trips(events) == [("failures", "answer", "dial", 3)]
    assert office.ran.count("dial") == 3
    assert "has failed 3 times" in office.model.requests[-1].messages[0].text
    await ended(office, events)


async def test_a_tool_that_fails_three_times_is_only_taken_away_where_the_agent_wants_that() -> None:
    office = Office(
        *[calls(("dial", "{}"), ("read", f'{{"page":{n}}}')) for n in range(3)],
        calls(("dial", "{}")),
        says("without it"),
        guards=Guards(on_tool_failure="disable", repeats=None),
    )
    events = await office.go()
    assert trips(events)[0] == ("failures", "disable", "dial", 3)
    offered = [[spec.name for spec in request.tools] for request in office.model.requests]
    assert ["dial" in names for names in offered] == [True, True, True, False, False]
    assert "say honestly what is missing" in told(events)[4]
    assert office.ran.count("dial") == 3
    await ended(office, events, "completed", "without it")


async def test_forty_calls_of_one_tool_are_the_most() -> None:
    office = Office(*in_turn(*([("read", f'{{"page":{n}}}')] for n in range(99))))
    events = await office.go()
    assert trips(events) == [("calls_per_tool", "block", "read", 40), ("calls_per_tool", "answer", "read", 40)]
    assert len(office.ran) == 40
    assert told(events)[-1].startswith("Error: The tool 'read' was called 40 times")
    await ended(office, events)


async def test_150_calls_in_one_run_are_the_most_whichever_tool_they_are_of() -> None:
    rounds = [[("read", f'{{"page":{n}}}'), *[("poll", "{}")] * 4] for n in range(99)]
    office = Office(*in_turn(*rounds))
    events = await office.go()
    assert set(trips(events)) == {("calls_per_run", "block", "", 150), ("calls_per_run", "answer", "", 150)}
    assert len(office.ran) == 150
    await ended(office, events)


async def test_a_polling_tool_that_is_repeatable_trips_nothing_in_60_calls() -> None:
    office = Office(*[calls(("poll", "{}"))] * 60, says("there it is"))
    events = await office.go()
    assert trips(events) == []
    assert office.ran == ["poll"] * 60
    await ended(office, events, "completed", "there it is")


async def test_time_that_is_used_up_ends_as_summarizing_and_not_as_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    office = Office(*in_turn(*([("read", f'{{"page":{n}}}')] for n in range(99))), guards=Guards(seconds=3600))
    clock = iter([0.0, 0.0, 1e9])
    monkeypatch.setattr("agent_core.react.loop.monotonic", lambda: next(clock))
    events = await office.go()
    assert trips(events) == [("seconds", "answer", "", 3600)]
    assert office.ran == ["read"] * 2, "what has begun ends as it does"
    await ended(office, events)


@pytest.mark.parametrize(
    ("told", "rounds"),
    [
        ({"input_tokens": 30, "output_tokens": 20}, 2),
        ({"input_tokens": 49}, 3),
        ({"output_tokens": 49}, 3),
        ({"input_tokens": 99, "output_tokens": 99, "total_tokens": 50}, 2),
        ({}, 4),
    ],
)
async def test_tokens_that_are_used_up_end_as_summarizing_and_count_as_the_provider_reports_them(
    told: dict[str, int], rounds: int
) -> None:
    cost = UsagePiece(Usage(provider="p", model="m", **told))

    def step(request: ModelRequest) -> Sequence[Piece]:
        done = sum(1 for message in request.messages if message.role == "tool")
        acts = request.tools and done < 4
        return [*(calls(("read", f'{{"page":{done}}}')) if acts else says(HONEST)), cost]

    office = Office(step, guards=Guards(tokens=100))
    events = await office.go()
    assert office.ran == ["read"] * rounds
    assert trips(events) == ([("tokens", "answer", "", 100)] if told else [])
    await ended(office, events, "max_iterations" if told else "completed")


async def test_a_tool_that_does_not_say_whether_it_is_repeatable_is_not() -> None:
    class Plain:
        """A user's own tool, with no more than is asked of one."""

        spec = ToolSpec(name="plain")
        approval, timeout, idempotent, exclusive = False, None, False, False

        async def run(self, arguments: Mapping[str, Any], context: ToolContext, threads: Executor) -> str:
            return "seen"

    model = ScriptedModel([calls(("plain", "{}"), ("plain", "{}")), says("done")])
    agent = Agent("a", model, tools=[cast(Tool, Plain())], guards=Guards(calls_per_tool=1))
    events = await events_of(Engine(), agent, "?")
    assert [each[:3] for each in trips(events)] == [
        ("calls_per_tool", "block", "plain"),
        ("calls_per_tool", "answer", "plain"),
    ]


@pytest.mark.parametrize(("score", "texts"), [("20", ["perhaps", "surely"]), ("95", ["perhaps"]), ("?", ["perhaps"])])
async def test_an_answer_that_the_model_doubts_gets_one_more_round(score: str, texts: list[str]) -> None:
    office = Office(says("perhaps"), says(score), says("surely"), guards=Guards(confidence=0.8))
    events = await office.go()
    history = [message.text for message in await stored(office.engine) if message.role == "assistant"]
    assert history == texts
    assert trips(events) == ([("confidence", "nudge", "", 20)] if score == "20" else [])
    assert len(office.model.requests) == len(texts) + 1, "the score is asked for once, and is not asked of the second"
    await ended(office, events, "completed", texts[-1])


async def test_the_score_is_seen_by_nobody_and_its_call_counts_as_one() -> None:
    office = Office(says("perhaps"), says("20"), says("surely"), guards=Guards(confidence=0.8))
    events = await office.go()
    assert [each.text for each in events if isinstance(each, TextDelta)] == ["perhaps", "surely"]
    assert sum(isinstance(each, ModelCallStart) for each in events) == 3
    assert [message.role for message in await stored(office.engine)] == ["user", "assistant", "assistant"]
    assert "scored your last answer 20%" in office.model.requests[2].messages[-1].text


async def test_a_question_about_an_answer_that_fails_costs_what_it_cost_and_the_answer_stands() -> None:
    cost = UsagePiece(Usage(provider="p", model="m", input_tokens=30, output_tokens=20))
    office = Office(
        says("perhaps"), [cost, ModelError("model_unreachable")], guards=Guards(confidence=0.8), max_retries=0
    )
    events = await office.go()
    await ended(office, events, "completed", "perhaps")
    end = events[-1]
    assert isinstance(end, AgentEnd)
    assert [each.input_tokens for each in end.usage] == [30]
    assert sum(isinstance(each, ModelCallEnd) for each in events) == 2


async def test_a_tool_that_the_client_s_own_results_disable_is_not_offered_again() -> None:
    said: list[Message] = [Message(id="u1", role="user", content="go")]
    outcomes: list[tuple[str, ResultStatus]] = [("pick", "error"), ("see", "ok")]
    for name, status in outcomes:
        call = ToolCall(id=f"c-{name}", name=name)
        result = result_of(call, status, "what it said")
        said += [Message(id=f"a-{name}", role="assistant", tool_calls=(call,)), result]
    tools = ToolSpec(name="pick"), ToolSpec(name="see")
    model = ScriptedModel([says("done")])
    agent = Agent("a", model, guards=Guards(failures=1, on_tool_failure="disable"))
    events = await events_of(Engine(), agent, RunInput(messages=tuple(said), tools=tools, whole=True))
    assert isinstance(events[-1], AgentEnd)
    assert [spec.name for spec in model.requests[0].tools] == ["see"]


async def test_a_run_begins_with_fresh_guards() -> None:
    office = Office(always(("look", "{}")))
    first = await office.go()
    assert trips(await office.go("continue")) == trips(first)
    assert office.ran == ["look"] * 6


async def test_guards_that_are_off_leave_the_budget_of_rounds_alone() -> None:
    off = Guards(repeats=None, failures=None, calls_per_tool=None, calls_per_run=None)
    office = Office(always(("look", "{}"), ("dial", "{}")), guards=off, max_iterations=60)
    events = await office.go()
    assert trips(events) == []
    assert len(office.ran) == 120
    assert any(type(each).__name__ == "ExceedMaxIters" for each in events)
    await ended(office, events)


async def test_side_by_side_the_guards_hold_as_one_by_one() -> None:
    asked = [("dial", "{}"), ("read", '{"page":1}')]
    seen = []
    for parallel in (False, True):
        office = Office(always(*asked), parallel_tool_calls=parallel)
        events = await office.go()
        # A circle is told of beside the result that closes it, and which one comes last is open side by side.
        whats = [(guard, action, count) for guard, action, _, count in trips(events)]
        parts = [each.partition("\n\n") for each in told(events)]
        notes = sum(1 for _, note, _ in parts if note)
        seen.append((whats, sorted(office.ran), sorted(result for result, _, _ in parts), notes))
        await ended(office, events)
    assert seen[0] == seen[1]
    assert seen[0][3] == 1

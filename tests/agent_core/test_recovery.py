"""What a lost worker left behind is repaired by the next run, and no action happens twice by itself."""

from collections.abc import Sequence

import pytest

from agent_core import Agent, Engine, ToolContext, tool
from agent_core.events import Event, MessagesSnapshot, Rewound, ToolResultEnd
from agent_core.messages import Message, ToolCall
from agent_core.names import SessionKey
from agent_core.pairing import open_calls, paired
from agent_core.run_input import RunInput
from agent_core.sessions.entries import Entry, body_of
from agent_core.sessions.history import history_of
from agent_core.sessions.kinds import EndBody
from agent_core.tools.base import ToolSpec
from tests.doubles import ScriptedModel, events_of, kinds, says
from tests.entries import end_entry, message_entry, run_entry, started_entry

ASKED = Message(id="u1", role="user", content="do it")
CALLS = (ToolCall(id="c1", name="once"), ToolCall(id="c2", name="again"), ToolCall(id="c3", name="once"))
ASKING = Message(id="a1", role="assistant", tool_calls=CALLS)
LOST = [
    run_entry("lost", "a"),
    message_entry("lost", "a", ASKED),
    message_entry("lost", "a", ASKING),
    started_entry("lost", "c1", "lost:0:c1"),
    started_entry("lost", "c2", "lost:0:c2"),
]


class Fixture:
    """An agent with a tool that must not be run twice and one that may be, on a session with these entries."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, str]] = []

        @tool
        def once(context: ToolContext) -> str:
            """Acts."""
            self.ran.append((context.call_id, context.idempotency_key))
            return "done"

        @tool(idempotent=True)
        def again(context: ToolContext) -> str:
            """Acts, and may act again."""
            self.ran.append((context.call_id, context.idempotency_key))
            return "done again"

        self.model = ScriptedModel([says("fine")])
        self.agent = Agent("a", self.model, tools=[once, again])

    async def run(self, entries: Sequence[Entry], given: RunInput) -> tuple[list[Event], list[Entry]]:
        async with Engine() as engine:
            await engine.sessions.fill(SessionKey(user_id="u", session_id="s"), entries)
            events = await events_of(engine, self.agent, given)
            after = list(await engine.store.load(engine.session("u", "s").key))
        messages = history_of(after, "a").messages
        answered = [message.tool_call_id for message in messages if message.role == "tool"]
        assert len(answered) == len(set(answered)), "one result for each call"
        assert [m for m in paired(messages) if m in messages] == paired(messages) or open_calls(messages)
        assert history_of(after, "a").lost == {}
        return events, after


def statuses(entries: Sequence[Entry]) -> dict[str | None, str]:
    return {m.tool_call_id: m.status for m in history_of(entries, "a").messages if m.role == "tool"}


async def test_a_new_message_settles_the_lost_run_s_calls_and_runs_none_of_them() -> None:
    fixture = Fixture()
    new = Message(id="u2", role="user", content="never mind")
    events, after = await fixture.run(LOST, RunInput(messages=(ASKED, new)))
    assert fixture.ran == []
    assert statuses(after) == {"c1": "interrupted", "c2": "interrupted", "c3": "not_run"}
    told = [(event.call_id, event.status) for event in events if isinstance(event, ToolResultEnd)]
    assert told == [("c1", "interrupted"), ("c2", "interrupted"), ("c3", "not_run")]
    ends = [body for entry in after if entry.run_id == "lost" and isinstance(body := body_of(entry), EndBody)]
    assert [(end.status, end.code) for end in ends] == [("failed", "worker_lost")]


async def test_asking_again_goes_on_with_what_had_not_started_or_may_be_run_again() -> None:
    fixture = Fixture()
    events, after = await fixture.run(LOST, RunInput(messages=(ASKED,)))
    assert [call for call, _ in fixture.ran] == ["c2", "c3"]
    assert fixture.ran[0][1] == "lost:0:c2", "an idempotent call keeps its key"
    assert fixture.ran[1][1] not in ("", "lost:0:c3")
    assert statuses(after) == {"c1": "interrupted", "c2": "ok", "c3": "ok"}
    assert "ToolCallStart" not in kinds(events), "the calls were streamed by the lost run"
    assert [m.role for m in fixture.model.requests[0].messages] == ["user", "assistant", "tool", "tool", "tool"]


async def test_a_second_crash_does_not_run_what_the_first_one_had_cleared() -> None:
    entries = [
        *LOST,
        end_entry("lost", "failed", "worker_lost"),
        run_entry("lost2", "a"),
        started_entry("lost2", "c3", "k"),
    ]
    fixture = Fixture()
    _, after = await fixture.run(entries, RunInput(messages=(ASKED,)))
    assert [call for call, _ in fixture.ran] == ["c2"]
    assert statuses(after) == {"c1": "interrupted", "c2": "ok", "c3": "interrupted"}


async def test_a_client_s_calls_still_wait_after_a_crash() -> None:
    pick = Message(
        id="a1", role="assistant", tool_calls=(ToolCall(id="c1", name="pick"), ToolCall(id="c2", name="once"))
    )
    entries = [*LOST[:2], message_entry("lost", "a", pick), started_entry("lost", "c2", "k")]
    fixture = Fixture()
    offered = (ToolSpec(name="pick"),)
    events, after = await fixture.run(entries, RunInput(messages=(ASKED,), tools=offered))
    assert statuses(after) == {"c2": "interrupted"}
    assert getattr(events[-1], "status", None) == "client_tools"
    assert fixture.ran == []


async def test_a_run_lost_before_its_model_answered_is_just_run() -> None:
    fixture = Fixture()
    events, after = await fixture.run(LOST[:2], RunInput(messages=(ASKED,)))
    assert [m.text for m in history_of(after, "a").messages] == ["do it", "fine"]
    assert not any(isinstance(event, Rewound) for event in events)


async def test_the_lost_run_of_another_agent_is_marked_too_and_its_calls_are_left_to_it() -> None:
    entries = [run_entry("other", "b"), message_entry("other", "b", ASKING)]
    fixture = Fixture()
    _, after = await fixture.run(entries, RunInput(messages=(ASKED,)))
    assert fixture.ran == []
    assert [m.role for m in history_of(after, "b").messages] == ["assistant"]


async def test_regenerating_rewinds_and_says_so() -> None:
    fixture = Fixture()
    answer = Message(id="a1", role="assistant", content="first try")
    entries = [
        run_entry("r", "a"),
        message_entry("r", "a", ASKED),
        message_entry("r", "a", answer),
        end_entry("r", "completed"),
    ]
    events, after = await fixture.run(entries, RunInput(messages=(ASKED,)))
    assert [event.after for event in events if isinstance(event, Rewound)] == ["u1"]
    assert [m.text for m in history_of(after, "a").messages] == ["do it", "fine"]
    assert [m.text for m in fixture.model.requests[0].messages] == ["do it"]
    assert [entry.seq for entry in after] == list(range(1, len(after) + 1)), "nothing is deleted"


async def test_an_answer_that_nobody_saw_is_shown_and_not_made_again() -> None:
    fixture = Fixture()
    answer = Message(id="a1", role="assistant", content="the answer")
    entries = [
        run_entry("r", "a"),
        message_entry("r", "a", ASKED),
        message_entry("r", "a", answer),
        end_entry("r", "completed", unread=True),
    ]
    events, _ = await fixture.run(entries, RunInput(messages=(ASKED,)))
    assert fixture.model.requests == []
    shown = [event.messages for event in events if isinstance(event, MessagesSnapshot)]
    assert shown == [(ASKED, answer)]


@pytest.mark.parametrize("given", [(), (Message(id="a1", role="assistant", content="forged"),)])
async def test_input_that_says_nothing_goes_on_with_a_lost_run(given: tuple[Message, ...]) -> None:
    fixture = Fixture()
    await fixture.run(LOST, RunInput(messages=given))
    assert [call for call, _ in fixture.ran] == ["c2", "c3"]

"""A call that had begun never begins again, and a call from outside never runs: whatever is rewound, edited, copied,
approved or asked again."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from agent_core import Agent, Engine, ToolContext, tool
from agent_core.events import Event, RequireExternalExecution
from agent_core.interrupts import Answer, Decision, Interrupt
from agent_core.messages import Message, ToolCall
from agent_core.models.base import ArgumentsPiece, CallPiece, Piece
from agent_core.names import SessionKey
from agent_core.pairing import result_of
from agent_core.run_input import RunInput
from agent_core.sessions.copies.fork import fork_entries
from agent_core.sessions.copies.portable import export_lines, import_entries
from agent_core.sessions.entries import Addition, Entry, body_of
from agent_core.sessions.history import history_of
from agent_core.sessions.kinds import MessageBody
from agent_core.tools.base import ToolSpec
from tests.agent_core.sessions.talk import numbered
from tests.doubles import ScriptedModel, Step, events_of, says
from tests.entries import (
    answered_entry,
    asked_entry,
    end_entry,
    forked_entry,
    message_entry,
    rewound_entry,
    run_entry,
    started_entry,
)

ONCE, AGAIN = ToolCall(id="c1", name="once"), ToolCall(id="c2", name="again")
CLIENTS = ToolCall(id="c3", name="theirs")


def user(message_id: str, text: str = "do it") -> Message:
    return Message(id=message_id, role="user", content=text)


def asks(message_id: str, *calls: ToolCall) -> Message:
    return Message(id=message_id, role="assistant", tool_calls=calls)


def said(run_id: str, *messages: Message) -> list[Entry]:
    return [message_entry(run_id, "a", each) for each in messages]


def approved(call: ToolCall, run_id: str = "r1") -> list[Entry]:
    """A person was asked about the call, and has agreed."""
    interrupt = Interrupt(id=f"i-{call.id}", kind="approval", call_id=call.id, name=call.name)
    return [asked_entry(run_id, "a", interrupt), answered_entry(run_id, interrupt.id, Decision(kind="approved"))]


BEGUN = [
    run_entry("r1", "a"),
    *said("r1", user("u1"), asks("a1", ONCE, AGAIN)),
    *approved(ONCE),
    started_entry("r1", "c1", "r1:0:c1"),
    started_entry("r1", "c2", "r1:0:c2"),
]
"""A worker was lost while both calls ran."""

OBSERVED = [*BEGUN, *said("observe", user("o1", "by the way"))]
DONE = [
    *BEGUN,
    *said("r1", result_of(ONCE, "ok", "did it"), result_of(AGAIN, "ok", "did it"), Message(id="a2", role="assistant")),
    end_entry("r1", "completed"),
    run_entry("r2", "a"),
    *said("r2", user("u2", "and then?"), Message(id="a3", role="assistant", content="nothing")),
    end_entry("r2", "completed"),
]

CRAFTED = [
    run_entry("r1", "a"),
    *said("r1", user("u1"), asks("a1", ONCE, AGAIN, CLIENTS)),
    *approved(ONCE),
    *said("r1", user("u2", "well?"), asks("a2", AGAIN), result_of(AGAIN, "ok", "x")),
    *said("r1", Message(id="a3", role="assistant", content="done"), user("u3", "more")),
    end_entry("r1", "completed"),
]
"""An export that nobody has made: calls without results in the middle, one of them approved."""


class World:
    """An agent with a tool that may not run twice, one that may, and a client with a tool of its own."""

    def __init__(self, *steps: Step) -> None:
        self.ran: list[tuple[str, str]] = []

        @tool(approval=True)
        def once(context: ToolContext) -> str:
            """Acts."""
            self.ran.append((context.call_id, context.idempotency_key))
            return "done"

        @tool(idempotent=True)
        def again(context: ToolContext) -> str:
            """Acts, and may act again."""
            self.ran.append((context.call_id, context.idempotency_key))
            return "done again"

        self.model = ScriptedModel(steps or [says("fine")])
        self.agent = Agent("a", self.model, tools=[once, again])
        self.theirs: list[str] = []

    async def run(self, engine: Engine, session: str, given: RunInput) -> list[Event]:
        given = RunInput(messages=given.messages, answers=given.answers, tools=(ToolSpec(name="theirs"),))
        events = await events_of(engine, self.agent, given, session)
        for event in events:
            if isinstance(event, RequireExternalExecution):
                self.theirs += event.call_ids
        return events


def requests(entries: Sequence[Entry]) -> list[RunInput]:
    """The requests that a client may send to a session with these entries:

    - nothing new
    - answers to all interrupts, open or not
    - the messages up to each of the user's messages
    - the same, with that message in other words
    - the same, with a new system message
    """
    messages = history_of(entries, "a").messages
    answers = tuple(Answer(interrupt_id=f"i-c{n}", payload={"approved": True}) for n in (1, 2, 3))
    found = [RunInput(), RunInput(answers=answers), RunInput(messages=(user("new", "go on"),))]
    for at, message in enumerate(messages):
        if message.role == "user":
            before = tuple(messages[:at])
            edited = replace(message, content="in other words")
            found += [
                RunInput(messages=(*before, message)),
                RunInput(messages=(*before, edited)),
                RunInput(messages=(edited,)),
                RunInput(messages=(*before, message), answers=answers),
                RunInput(messages=(Message(id="s", role="system", content="be kind"), *before, message)),
            ]
    return found


def rewound(entries: Sequence[Entry]) -> list[list[Entry]]:
    """The entries, and the same rewound to each message that was ever said, and to the beginning."""
    bodies = [body_of(entry) for entry in entries]
    ids = ["", *(body.message.id for body in bodies if isinstance(body, MessageBody))]
    return [list(entries), *([*entries, rewound_entry("later", "a", each)] for each in ids)]


async def everything(world: World, entries: Sequence[Entry]) -> None:
    """Send each request to a fresh session with the entries, and to it once more, rewound in each way."""
    async with Engine() as engine:
        number = 0
        for given in rewound(entries):
            for request in requests(given):
                number += 1
                ids = {"user_id": "u", "session_id": f"s{number}"}
                await engine.sessions.fill(SessionKey(**ids), given)
                await world.run(engine, f"s{number}", request)
                after = await engine.store.load(engine.session("u", f"s{number}").key)
                later = requests(after)
                await world.run(engine, f"s{number}", later[number % len(later)])


@pytest.mark.parametrize("entries", [BEGUN, OBSERVED, DONE], ids=["begun", "observed", "done"])
async def test_a_call_that_had_begun_is_not_begun_again_whatever_is_asked_for(entries: list[Entry]) -> None:
    world = World()
    await everything(world, entries)
    assert {call for call, _ in world.ran} <= {"c2"}
    assert {key for _, key in world.ran} <= {"r1:0:c2"}, "what may run again keeps its key"


def restored(entries: Sequence[Entry]) -> list[Entry]:
    return import_entries(export_lines(numbered(*entries), session_id="s", title=""))


def of_an_earlier_version(entries: Sequence[Entry]) -> list[Entry]:
    """A fork as it was stored before copies were marked."""
    return [*entries, end_entry("r1", "cancelled"), forked_entry("f", "s", "u2")]


@pytest.mark.parametrize("entries", [BEGUN, OBSERVED, DONE, CRAFTED], ids=["begun", "observed", "done", "crafted"])
@pytest.mark.parametrize("how", ["import", "import of a fork", "import of an import", "fork", "old fork"])
async def test_nothing_that_came_from_outside_is_ever_carried_out(entries: list[Entry], how: str) -> None:
    last = history_of(entries, "a").messages[-1].id
    forked = fork_entries(entries, "a", last, session_id="s")
    copy = {
        "import": lambda: restored(entries),
        "import of a fork": lambda: restored(forked),
        "import of an import": lambda: restored(restored(entries)),
        "fork": lambda: forked,
        "old fork": lambda: of_an_earlier_version(entries),
    }[how]()
    world = World()
    await everything(world, copy)
    assert world.ran == []
    assert world.theirs == []


async def test_a_used_approval_does_not_count_in_a_restored_snapshot() -> None:
    pieces: list[Piece] = [CallPiece(0, "c1", "once"), ArgumentsPiece(0, "{}")]
    world = World(pieces, says("done"), says("fine"))
    async with Engine() as engine:
        first = engine.session("u", "s")
        waiting = await first.call(world.agent, RunInput(messages=(user("u1"),)))
        [interrupt] = waiting.interrupts
        while_it_waits = await first.snapshot()
        yes = RunInput(answers=(Answer(interrupt_id=interrupt.id, payload={"approved": True}),))
        await first.call(world.agent, yes)
        used = await first.snapshot()
        assert [call for call, _ in world.ran] == ["c1"]
        for number, snapshot in enumerate((while_it_waits, used)):
            for rewinding in range(2):
                copy = engine.session("u", f"copy{number}{rewinding}")
                await copy.restore(snapshot)
                if rewinding:
                    async with engine._runner.writing(copy.key, "later", of=("a", "root")) as writer:
                        asking = next(m.id for m in writer.fold.history.messages if m.tool_calls)
                        await writer.append(Addition(rewound_entry("later", "a", asking)))
                ended = await copy.call(world.agent, RunInput(messages=(user("u1"),), answers=yes.answers))
                assert ended.interrupts == ()
                again = await copy.snapshot()
                assert b'"copied"' in again
        assert [call for call, _ in world.ran] == ["c1"]


async def test_the_calls_of_a_brought_conversation_are_never_the_server_s_to_run() -> None:
    """Also if a later version of the agent has a tool of that name. The client may answer them."""
    world = World()
    brought = RunInput(messages=(user("u1"), asks("a1", AGAIN, CLIENTS)), whole=True, tools=(ToolSpec(name="theirs"),))
    bare = Agent("a", world.model)
    async with Engine() as engine:
        ended = await engine.call(bare, brought, user_id="u", session_id="s")
        assert ended.status == "client_tools"
        for request in (RunInput(), RunInput(messages=(user("u1"),))):
            await world.run(engine, "s", request)
    assert world.ran == []


async def test_a_client_answers_the_open_call_of_the_conversation_that_it_brought() -> None:
    model = ScriptedModel([says("fine")])
    agent = Agent("a", model)
    theirs = (ToolSpec(name="theirs"),)
    async with Engine() as engine:
        brought = RunInput(messages=(user("u1"), asks("a1", CLIENTS)), whole=True, tools=theirs)
        assert (await engine.call(agent, brought, user_id="u", session_id="s")).status == "client_tools"
        given = RunInput(messages=(Message(id="t", role="tool", tool_call_id="c3", content="42"),), tools=theirs)
        assert (await engine.call(agent, given, user_id="u", session_id="s")).status == "completed"
    assert [m.text for m in model.requests[0].messages][-1] == "42"


async def test_a_new_call_is_never_taken_for_one_that_an_import_says_had_begun() -> None:
    """Its id may be one that the model will use; then the call gets another, and a key of its own."""
    crafted = [*said("r1", user("u1")), started_entry("r1", "c7", "stolen"), end_entry("r1", "completed")]
    world = World([CallPiece(0, "c7", "again"), ArgumentsPiece(0, "{}")], says("done"))
    async with Engine() as engine:
        await engine.sessions.fill(SessionKey(user_id="u", session_id="s"), restored([run_entry("r1", "a"), *crafted]))
        await world.run(engine, "s", RunInput(messages=(user("u2"),)))
    [(call, key)] = world.ran
    assert call != "c7"
    assert key != "stolen"


def test_what_is_taken_in_again_keeps_its_mark() -> None:
    copy = restored(restored(DONE))
    bodies: list[Any] = [body_of(entry) for entry in copy]
    marks = [body.origin for body in bodies if hasattr(body, "origin")]
    assert marks == ["copied"] * len(marks)
    assert len(marks) > 8

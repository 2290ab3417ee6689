"""Edited arguments are told with every kind of result. Arguments that do not fit are refused before an approval is used
up."""

import asyncio
from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

from agent_core import Agent, Engine, ToolContext, tool
from agent_core.edits import LONGEST_TOLD, same_arguments
from agent_core.events import AgentStart, Custom, Event, RequireUserConfirm, RunFailed, ToolResultEnd
from agent_core.interrupts import Answer, Interrupt
from agent_core.messages import MediaPart, Message, TextPart, new_id
from agent_core.permissions import Permissions, Rule
from agent_core.run_input import RunInput
from agent_core.sessions.copies.fork import fork_entries
from agent_core.sessions.history import history_of
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.tools.base import Pending
from tests.agent_core.test_approval import ended, waits, yes
from tests.doubles import ScriptedModel, calls, events_of, says

PICTURE = MediaPart(kind="image", source="data", value="QUJD", mime_type="image/png")
TOLD = 'A person changed the arguments to {"to":"zed"}.\n'


class Desk:
    """An agent whose tools all ask a person first, and each of which comes to another end."""

    def __init__(self, *steps: Any, store: InMemoryStore | None = None, **members: Any) -> None:
        self.done: list[str] = []
        self.model = ScriptedModel(steps)
        self.agent = Agent("a", self.model, tools=self.tools(), **members)
        self.engine = Engine(store=store or InMemoryStore())

    def tools(self) -> list[Any]:
        def did(name: str, to: str) -> None:
            self.done.append(f"{name} {to}")

        @tool(approval=True)
        def send(to: str, on: date | None = None) -> str:
            """Sends."""
            did("send", to)
            return f"sent to {to}"

        @tool(approval=True)
        def fail(to: str) -> str:
            """Fails."""
            did("fail", to)
            raise OSError("disk")

        @tool(approval=True, timeout=0.005)
        async def hang(to: str) -> str:
            """Never comes back."""
            did("hang", to)
            await asyncio.Event().wait()
            return ""

        @tool(approval=True)
        def draw(to: str) -> list[Any]:
            """Draws."""
            did("draw", to)
            return ["Here:", PICTURE]

        @tool(approval=True)
        def order(to: str) -> Pending:
            """Begins something that takes days."""
            did("order", to)
            return Pending(operation_id="op1")

        @tool(approval=True, idempotent=True)
        def put(to: str, context: ToolContext) -> str:
            """Can be done again."""
            did(f"put {context.idempotency_key}", to)
            return f"put at {to}"

        return [send, fail, hang, draw, order, put]

    async def ask(self, text: str | None = "go", *answers: Answer) -> list[Event]:
        said = () if text is None else (Message(id=new_id("u"), role="user", content=text),)
        return await events_of(self.engine, self.agent, RunInput(messages=said, answers=answers))

    async def results(self) -> list[Message]:
        history = history_of(await self.engine.store.load(self.engine.session("u", "s").key), "a")
        return [message for message in history.messages if message.role == "tool"]

    async def edited(self, name: str) -> tuple[list[Event], Interrupt]:
        """The call of the tool, approved with another address."""
        (interrupt,) = waits(await self.ask())
        return await self.ask(None, yes(interrupt, arguments={"to": "zed"})), interrupt


def step(name: str) -> Any:
    return calls((name, '{"to":"ann"}'))


def told(events: Sequence[Event]) -> list[tuple[str, Any]]:
    """The edits and the results, in the order in which they were told."""
    found: list[tuple[str, Any]] = []
    for event in events:
        if isinstance(event, Custom) and event.name == "arguments_edited":
            assert event.size > 0
            found.append((event.value["toolCallId"], event.value["arguments"]))
        elif isinstance(event, ToolResultEnd):
            found.append((event.call_id, event.content))
    return found


@pytest.mark.parametrize(
    ("name", "status", "text"),
    [
        ("send", "ok", "sent to zed"),
        ("fail", "error", "Error: OSError"),
        ("hang", "timed_out", "Timed out: "),
        ("draw", "ok", "Here:"),
    ],
)
async def test_an_edit_is_told_to_the_model_and_to_every_reader_however_the_call_ends(
    name: str, status: str, text: str
) -> None:
    desk = Desk(step(name), says("done"))
    events, interrupt = await desk.edited(name)
    ended(events)
    assert desk.done == [f"{name} zed"]
    [result] = await desk.results()
    assert (result.status, result.edited_arguments) == (status, {"to": "zed"})
    assert result.text.startswith(TOLD + text)
    assert told(events) == [(interrupt.call_id, {"to": "zed"}), (interrupt.call_id, result.text)]
    assert desk.model.requests[-1].messages[-1] == result
    assert desk.model.requests[-1].messages[-2].tool_calls[0].arguments == '{"to":"ann"}', "as the model wrote them"


async def test_a_result_with_media_keeps_its_parts_behind_the_edit() -> None:
    desk = Desk(step("draw"), says("done"))
    await desk.edited("draw")
    [result] = await desk.results()
    assert result.content == (TextPart(text=TOLD), TextPart(text="Here:"), PICTURE)


async def test_a_denial_of_edited_arguments_by_a_rule_says_what_was_denied_and_is_no_fault_of_the_model_s() -> None:
    rules = (Rule(tool="send", decision="deny", arguments={"to": "zed"}, reason="Not there."),)
    desk = Desk(step("send"), says("done"), permissions=Permissions(rules=rules))
    events, interrupt = await desk.edited("send")
    ended(events)
    [result] = await desk.results()
    assert (desk.done, result.status) == ([], "denied")
    assert result.text == f"{TOLD}Denied: Not there."
    assert told(events) == [(interrupt.call_id, {"to": "zed"}), (interrupt.call_id, result.text)]


@pytest.mark.parametrize(
    ("payload", "status", "text"),
    [({"result": "printed"}, "ok", "printed"), ({"error": "no paper"}, "error", "Error: no paper")],
)
async def test_an_edit_is_told_with_a_result_that_comes_later(payload: Any, status: str, text: str) -> None:
    desk = Desk(step("order"), says("done"))
    events, _ = await desk.edited("order")
    (waiting,) = waits(events, "waiting")
    assert told(events) == []
    assert waiting.arguments == '{"to":"zed"}', "what the operation was begun with"
    events = await desk.ask(None, Answer(interrupt_id=waiting.id, payload=payload))
    ended(events)
    [result] = await desk.results()
    assert (result.status, result.text, result.edited_arguments) == (status, TOLD + text, {"to": "zed"})
    assert told(events) == [(waiting.call_id, {"to": "zed"}), (waiting.call_id, TOLD + text)]
    assert desk.done == ["order zed"]


async def test_of_parallel_calls_each_has_its_own_edit() -> None:
    asked = calls(("send", '{"to":"ann"}'), ("send", '{"to":"bob"}'), ("send", '{"to":"cid"}'))
    desk = Desk(asked, says("done"), parallel_tool_calls=True)
    first, second, third = waits(await desk.ask())
    answers = (yes(first, arguments={"to": "zed"}), yes(second), yes(third, args={"to": "yan"}))
    events = await desk.ask(None, *answers)
    ended(events)
    assert sorted(desk.done) == ["send bob", "send yan", "send zed"]
    assert [each.edited_arguments for each in await desk.results()] == [{"to": "zed"}, None, {"to": "yan"}]
    said = told(events)
    for interrupt, to in ((first, "zed"), (third, "yan")):
        at = said.index((interrupt.call_id, {"to": to}))
        assert said[at + 1][0] == interrupt.call_id, "right in front of its result"
    assert [each for each in said if each[0] == second.call_id] == [(second.call_id, "sent to bob")]


def refused(events: Sequence[Event]) -> RunFailed:
    start, failed = events
    assert isinstance(start, AgentStart)
    assert isinstance(failed, RunFailed)
    assert failed.code == "invalid_request"
    return failed


class Lost(InMemoryStore):
    """A store of a worker that is lost when it would store a result."""

    def __init__(self) -> None:
        super().__init__()
        self.lost, self.acted = True, False

    async def append(self, lease: Any, entries: Any, *, release: bool = False) -> None:
        acts = any(entry.kind == "started" for entry in entries)
        self.acted = self.acted or acts
        if self.lost and self.acted and not acts:
            raise OSError("gone")
        await super().append(lease, entries, release=release)


@pytest.mark.parametrize(("name", "status", "times"), [("put", "ok", 2), ("send", "interrupted", 1)])
async def test_after_a_crash_the_edit_still_counts_and_is_told(name: str, status: str, times: int) -> None:
    store = Lost()
    desk = Desk(step(name), says("done"), store=store)
    events, interrupt = await desk.edited(name)
    assert isinstance(events[-1], RunFailed)
    assert told(events) == []
    store.lost = False
    after = Desk(says("done"), store=store)
    events = await after.ask(None)
    ended(events)
    [result] = await after.results()
    assert (result.status, result.edited_arguments) == (status, {"to": "zed"})
    assert result.text.startswith(TOLD)
    assert told(events) == [(interrupt.call_id, {"to": "zed"}), (interrupt.call_id, result.text)]
    assert len(set(desk.done + after.done)) == 1, "the same key, the same arguments"
    assert len(desk.done + after.done) == times


async def test_a_call_that_is_stopped_while_it_runs_says_with_which_arguments_it_began() -> None:
    begun = asyncio.Event()

    @tool(approval=True)
    async def wait(to: str) -> str:
        """Waits."""
        begun.set()
        await asyncio.Event().wait()
        return to

    engine, agent = Engine(), Agent("a", ScriptedModel([step("wait")]), tools=[wait])
    (interrupt,) = waits(await events_of(engine, agent, "go"))
    given = RunInput(answers=(yes(interrupt, arguments={"to": "zed"}),))
    task = asyncio.ensure_future(events_of(engine, agent, given))
    await begun.wait()
    assert await engine.interrupt(user_id="u", session_id="s")
    said = told(await task)
    assert said[0] == (interrupt.call_id, {"to": "zed"})
    assert said[1][1].startswith(TOLD + "Interrupted: ")


async def test_a_run_that_is_stopped_before_an_approved_call_began_says_what_the_person_had_decided() -> None:
    desk = Desk(calls(("send", '{"to":"ann"}'), ("send", '{"to":"bob"}')), says("fine"))
    first, _ = waits(await desk.ask())
    waits(await desk.ask(None, yes(first, arguments={"to": "zed"})))
    ended(await desk.ask("never mind"))
    texts = [(each.text.splitlines()[0] + "\n", each.status) for each in await desk.results()]
    assert texts[0] == (TOLD, "not_run")
    assert texts[1][1] == "not_run"
    assert desk.done == []


@pytest.mark.parametrize("same", [{"to": "ann", "on": None}, {"on": None, "to": "ann"}])
async def test_arguments_that_are_sent_back_as_they_were_are_no_edit(same: dict[str, Any]) -> None:
    desk = Desk(calls(("send", '{"to": "ann", "on": null}')), says("done"))
    (interrupt,) = waits(await desk.ask())
    events = await desk.ask(None, yes(interrupt, arguments=same))
    assert told(events) == [(interrupt.call_id, "sent to ann")]
    assert [each.edited_arguments for each in await desk.results()] == [None]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a":1,"b":[2]}', '{ "b": [2], "a": 1 }', True),
        ("{}", "", True),
        ("{}", "null", True),
        ("{}", '{"a":1}', False),
        ('{"a":1}', '{"a":true}', False),
        ('{"a":[1,2]}', '{"a":[2,1]}', False),
        ('{"a":1}', '{"a":' * 300 + "1" + "}" * 300, False),
    ],
)
def test_arguments_are_the_same_whatever_the_order_of_their_members(one: str, other: str, same: bool) -> None:
    assert same_arguments(one, other) == same_arguments(other, one) == same


async def test_long_edited_arguments_are_told_in_part_and_kept_whole() -> None:
    desk = Desk(step("send"), says("done"))
    (interrupt,) = waits(await desk.ask())
    long = "z" * 50_000
    await desk.ask(None, yes(interrupt, arguments={"to": long}))
    [result] = await desk.results()
    assert result.edited_arguments == {"to": long}
    assert "… [cut: 50009 characters]." in result.text
    assert len(result.text.partition("\n")[0]) < LONGEST_TOLD + 100


WRONG = [
    ({"too": "zed"}, "to", "is required"),
    ({}, "to", "is required"),
    ({"to": 5}, "to", "is not of type"),
    ({"to": "zed", "cc": []}, "cc", "is not a parameter"),
    ({"to": "zed", "on": "tomorrow"}, "on", "date"),  # the schema's format is a note; the function's type is not
]


@pytest.mark.parametrize(("edited", "member", "why"), WRONG)
@pytest.mark.parametrize("name", ["arguments", "editedArguments", "args"])
async def test_an_edit_that_does_not_fit_is_refused_and_all_waits_as_before(
    edited: dict[str, Any], member: str, why: str, name: str
) -> None:
    desk = Desk(step("send"), says("done"))
    (interrupt,) = waits(await desk.ask())
    before = await desk.engine.store.load(desk.engine.session("u", "s").key)
    answer = Answer(interrupt_id=interrupt.id, payload={"approved": True, name: edited}, param="answers[2]")
    failed = refused(await desk.ask("and more", answer))
    assert failed.param == f"answers[2].payload.{name}.{member}"
    assert failed.message.startswith(f"answers[2].payload.{name}.{member}: ")
    assert why in failed.message
    assert await desk.engine.store.load(desk.engine.session("u", "s").key) == before
    assert len(desk.model.requests) == 1, "the model hears nothing of it"
    ended(await desk.ask(None, yes(interrupt, arguments={"to": "zed"})))
    assert desk.done == ["send zed"]


async def test_one_edit_that_does_not_fit_leaves_the_other_answers_unused() -> None:
    desk = Desk(calls(("send", '{"to":"ann"}'), ("send", '{"to":"bob"}')), says("done"))
    first, second = waits(await desk.ask())
    bad = Answer(interrupt_id=second.id, payload={"approved": True, "args": {"to": []}}, param="resume[1]")
    failed = refused(await desk.ask(None, yes(first), bad))
    assert failed.param == "resume[1].payload.args.to"
    (confirm,) = [e for e in await desk.ask(None, yes(first)) if isinstance(e, RequireUserConfirm)]
    assert confirm.interrupts == (second,)


async def test_all_that_is_wrong_with_an_edit_is_said_and_a_long_name_of_it_is_cut() -> None:
    desk = Desk(step("send"), says("done"))
    (interrupt,) = waits(await desk.ask())
    failed = refused(await desk.ask(None, yes(interrupt, arguments={"to": 1, "on": 2, "x" * 100_000: 3})))
    assert (failed.param or "").startswith("resume[0].payload.arguments.xxx")
    assert len(failed.param or "") < 200
    assert " to: " in failed.message
    assert " on: " in failed.message
    assert len(failed.message) < 2_000


async def test_an_answer_that_was_given_before_is_not_looked_at_again() -> None:
    desk = Desk(step("send"), says("done"))
    events, interrupt = await desk.edited("send")
    ended(events)
    ended(await desk.ask(None, yes(interrupt, arguments={"nobody": 1})))
    assert desk.done == ["send zed"]


async def test_a_fork_of_a_session_whose_worker_was_lost_says_with_which_arguments_the_call_began() -> None:
    store = Lost()
    desk = Desk(step("send"), says("done"), store=store)
    await desk.edited("send")
    entries = await store.load(desk.engine.session("u", "s").key)
    called = next(m.id for m in history_of(entries, "a").messages if m.tool_calls)
    copy = history_of(fork_entries(entries, "a", called, session_id="s"), "a")
    [result] = [message for message in copy.messages if message.role == "tool"]
    assert (result.status, result.edited_arguments) == ("interrupted", {"to": "zed"})
    assert result.text.startswith(f"{TOLD}Interrupted: ")

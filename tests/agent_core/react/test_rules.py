"""The rules about tools, approvals, guards and endings: one row each, played through the engine."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent_core import Agent, Engine, ToolError, tool
from agent_core.events import AgentEnd, Event, ExceedMaxIters, RequireExternalExecution
from agent_core.guards.settings import Guards
from agent_core.interrupts import Answer
from agent_core.messages import Message, new_id
from agent_core.models.base import Piece, TextPiece
from agent_core.pairing import paired
from agent_core.permissions import Permissions, Rule
from agent_core.run_input import RunInput
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.tools.base import Pending, ToolSpec
from tests.agent_core.react.agents import results, stored
from tests.doubles import ScriptedModel, Step, calls, events_of, says

PICK = ToolSpec(
    name="pick",
    parameters={
        "type": "object",
        "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}},
        "required": ["colour"],
    },
)
RED = ("pick", '{"colour":"red"}')
SEND = ("send", '{"to":"ann"}')


class Shop:
    """An agent with tools of each kind. They note what they really did."""

    def __init__(self, *steps: Step, store: InMemoryStore | None = None, **members: Any) -> None:
        self.ran: list[str] = []
        self.model = ScriptedModel(steps)
        self.agent = Agent("a", self.model, tools=self.tools(), **members)
        self.engine = Engine(store=store or InMemoryStore())

    def tools(self) -> list[Any]:
        @tool
        def look(what: str = "cat") -> str:
            """Looks."""
            self.ran.append(f"look {what}")
            return f"a {what}"

        @tool
        def weigh(grams: int) -> str:
            """Weighs."""
            self.ran.append(f"weigh {grams}")
            return f"{grams} g"

        @tool(approval=True)
        def send(to: str) -> str:
            """Sends."""
            self.ran.append(f"send {to}")
            return f"sent to {to}"

        @tool
        def refuse() -> str:
            """Refuses."""
            self.ran.append("refuse")
            raise ToolError("sold out")

        @tool(timeout=0.005)
        async def sleep() -> str:
            """Never wakes."""
            self.ran.append("sleep")
            await asyncio.Event().wait()
            return ""

        @tool
        def nothing() -> None:
            """Returns nothing."""
            self.ran.append("nothing")

        @tool
        def order() -> Pending:
            """Orders."""
            self.ran.append("order")
            return Pending(operation_id="op")

        return [look, weigh, send, refuse, sleep, nothing, order]

    async def ask(self, text: str | None = "go", *answers: Answer) -> list[Event]:
        said = () if text is None else (Message(id=new_id("u"), role="user", content=text),)
        events = await events_of(self.engine, self.agent, RunInput(messages=said, answers=answers, tools=(PICK,)))
        for request in self.model.requests:
            assert list(request.messages) == paired(request.messages)
        return events


def end_of(events: Sequence[Event]) -> AgentEnd:
    end = events[-1]
    assert isinstance(end, AgentEnd), end
    return end


@dataclass(frozen=True, kw_only=True)
class Row:
    """A case: the model's answers. And what must follow: the run's status, the results (the status and a part of the
    text of each), and the tools that have run."""

    steps: Sequence[Step]
    status: str = "completed"
    results: Sequence[tuple[str, str]] = ()
    ran: Sequence[str] = ()
    members: dict[str, Any] = field(default_factory=dict)


DENY_PICK = Permissions(rules=(Rule(tool="pick", decision="deny", reason="No colours today."),))
DENY_LOOK = Permissions(rules=(Rule(tool="look", decision="deny", arguments={"what": "s*"}, reason="Not that."),))
ASK_ALL = Permissions(rules=(Rule(tool="*", decision="ask"),))
DONE = says("done")

TABLE: dict[str, Row] = {
    # How a run ended is its status
    "an answer is completed": Row(steps=[DONE]),
    "a used up budget is max_iterations": Row(
        steps=[calls(("look", "")), DONE],
        members={"max_iterations": 1},
        status="max_iterations",
        results=[("ok", "a cat")],
        ran=["look cat"],
    ),
    "calls for the client are client_tools": Row(steps=[calls(RED)], status="client_tools"),
    "calls for a person are approval": Row(steps=[calls(SEND)], status="approval"),
    "calls for an operation are waiting": Row(steps=[calls(("order", ""))], status="waiting", ran=["order"]),
    "approval counts before client_tools": Row(steps=[calls(RED, SEND)], status="approval"),
    "waiting counts before client_tools": Row(steps=[calls(RED, ("order", ""))], status="waiting", ran=["order"]),
    # Only what was offered, with arguments that fit, is run
    "an unknown name gets a list of the allowed ones": Row(
        steps=[calls(("lok", "{}")), DONE],
        results=[("error", "look, nothing, order, pick, refuse, send, sleep, weigh")],
    ),
    "arguments are checked, and the error says where and what": Row(
        steps=[calls(("weigh", '{"grams":"much"}')), DONE], results=[("error", "grams")]
    ),
    "arguments of a client's tool are checked too, and the client is not asked": Row(
        steps=[calls(("pick", '{"colour":"green"}')), DONE], results=[("error", "colour")]
    ),
    "arguments of a call that asks are checked before anybody is asked": Row(
        steps=[calls(("send", '{"to":7}')), DONE], results=[("error", "to")]
    ),
    "arguments that are no JSON never run": Row(steps=[calls(("look", '{"what":')), DONE], results=[("error", "")]),
    "arguments that are a list never run": Row(steps=[calls(("look", '["cat"]')), DONE], results=[("error", "")]),
    "arguments that are a text never run": Row(steps=[calls(("look", '"cat"')), DONE], results=[("error", "")]),
    "no arguments are {} where nothing is required": Row(
        steps=[calls(("look", "")), DONE], results=[("ok", "a cat")], ran=["look cat"]
    ),
    "null is {} where nothing is required": Row(
        steps=[calls(("look", "null")), DONE], results=[("ok", "a cat")], ran=["look cat"]
    ),
    "no arguments never run where something is required": Row(
        steps=[calls(("weigh", "")), DONE], results=[("error", "grams")]
    ),
    "null never runs where something is required": Row(
        steps=[calls(("weigh", "null")), DONE], results=[("error", "grams")]
    ),
    # What comes of a call
    "a failing tool is a result, and the run goes on": Row(
        steps=[calls(("refuse", ""), ("look", "")), DONE],
        results=[("error", "sold out"), ("ok", "a cat")],
        ran=["refuse", "look cat"],
    ),
    "a tool that takes too long has timed_out, and its siblings go on": Row(
        steps=[calls(("sleep", ""), ("look", "")), DONE],
        results=[("timed_out", "0.005"), ("ok", "a cat")],
        ran=["sleep", "look cat"],
    ),
    "an empty output says that it is empty": Row(
        steps=[calls(("nothing", "")), DONE], results=[("ok", "returned nothing")], ran=["nothing"]
    ),
    # Permissions
    "a denied call has a result with the reason": Row(
        steps=[calls(("look", '{"what":"safe"}'), ("look", '{"what":"dog"}')), DONE],
        members={"permissions": DENY_LOOK},
        results=[("denied", "Not that."), ("ok", "a dog")],
        ran=["look dog"],
    ),
    "a client's tool can be denied, and the client is not asked": Row(
        steps=[calls(RED), DONE], members={"permissions": DENY_PICK}, results=[("denied", "No colours today.")]
    ),
    "nobody is asked about a tool of the client's, which asks its own person": Row(
        steps=[calls(RED)], members={"permissions": ASK_ALL}, status="client_tools"
    ),
    "nobody is asked about a tool that does not exist": Row(
        steps=[calls(("lok", "{}")), DONE], members={"permissions": ASK_ALL}, results=[("error", "no tool")]
    ),
    # What waits beside a call that asks
    "calls beside an asking call wait with it": Row(
        steps=[calls(("look", ""), SEND, RED, ("order", ""))], status="approval"
    ),
    "a denied call of the client's is no call of its own when the others go on": Row(
        steps=[calls(SEND, RED)],
        members={"permissions": DENY_PICK},
        status="approval",
        results=[("denied", "No colours today.")],
    ),
    "a call of no tool is nobody's to answer later": Row(
        steps=[calls(SEND, ("lok", "{}"))], status="approval", results=[("error", "no tool named 'lok'")]
    ),
}


@pytest.mark.parametrize("rule", TABLE)
async def test_rule(rule: str) -> None:
    row = TABLE[rule]
    shop = Shop(*row.steps, **row.members)
    events = await shop.ask()
    assert end_of(events).status == row.status
    found = results(events)
    assert [status for status, _ in found] == [status for status, _ in row.results], found
    for (_, text), (_, part) in zip(found, row.results, strict=True):
        assert part in text
    assert shop.ran == list(row.ran)


async def test_the_budget_is_ten_rounds_and_the_closing_call_is_not_one_of_them() -> None:
    shop = Shop(*[calls(("look", f'{{"what":"{n}"}}')) for n in range(10)], DONE)
    events = await shop.ask()
    [exceeded] = [each for each in events if isinstance(each, ExceedMaxIters)]
    assert (exceeded.max_iters, exceeded.current_iter, len(shop.model.requests)) == (10, 10, 11)
    assert shop.model.requests[-1].tools == ()


async def test_a_stop_of_the_user_s_is_cancelled_and_each_call_has_its_result() -> None:
    @tool(timeout=None)
    async def dig() -> str:
        """Digs for ever; the user stops it."""
        await shop.engine.interrupt(user_id="u", session_id="s")
        await asyncio.Event().wait()
        return ""

    shop = Shop(calls(("dig", ""), ("look", ""), RED))
    shop.agent = Agent("a", shop.model, tools=[*shop.agent.tools, dig])
    events = await shop.ask()
    assert end_of(events).status == "cancelled"
    assert [status for status, _ in results(events)] == ["interrupted", "not_run", "not_run"]


async def test_a_tool_that_was_taken_away_is_not_run_although_the_agent_has_it() -> None:
    shop = Shop(
        *[calls(("refuse", ""))] * 3,
        calls(("refuse", ""), ("look", "")),
        DONE,
        guards=Guards(on_tool_failure="disable", repeats=None),
    )
    events = await shop.ask()
    assert shop.ran == ["refuse"] * 3 + ["look cat"]
    status, text = results(events)[3]
    assert status == "error"
    assert "sold out" not in text


async def test_a_model_that_repeats_an_id_gets_an_id_for_each_call() -> None:
    shop = Shop(calls(("look", "")), calls(("look", '{"what":"dog"}')), DONE)
    await shop.ask()
    await shop.ask()
    ids = [call.id for message in await stored(shop.engine) for call in message.tool_calls]
    assert len(ids) == len(set(ids)) == 2


async def test_any_worker_goes_on_with_an_answer() -> None:
    class Kept(InMemoryStore):
        async def aclose(self) -> None:
            pass

    store = Kept()
    first = Shop(calls(SEND, ("look", ""), RED), store=store)
    async with first.engine:
        (interrupt,) = end_of(await first.ask()).interrupts
    second = Shop(DONE, store=store)
    answer = Answer(interrupt_id=interrupt.id, payload={"approved": True})
    events = await second.ask(None, answer)
    assert (first.ran, second.ran) == ([], ["send ann", "look cat"])
    assert end_of(events).status == "client_tools"
    [external] = [each for each in events if isinstance(each, RequireExternalExecution)]
    assert len(external.call_ids) == 1


async def test_a_denied_call_of_the_client_s_stays_denied_when_its_sibling_is_approved() -> None:
    shop = Shop(calls(SEND, RED, ("lok", "{}")), DONE, permissions=DENY_PICK)
    (interrupt,) = end_of(await shop.ask()).interrupts
    events = await shop.ask(None, Answer(interrupt_id=interrupt.id, payload={"approved": True}))
    assert end_of(events).status == "completed"
    assert shop.ran == ["send ann"]
    assert [each.status for each in await stored(shop.engine) if each.role == "tool"] == ["ok", "denied", "error"]


async def test_an_operation_still_waits_when_its_run_fails_behind_it() -> None:
    shop = Shop(calls(("order", ""), ("look", "")), DONE)
    append, at = shop.engine.store.append, 0

    async def fail_once(lease: Any, entries: Any, *, release: bool = False) -> None:
        nonlocal at
        at += 1
        if at == 4:  # the entries are: the input, the calls, the interrupt, and the result of `look`
            raise OSError("disk")
        await append(lease, entries, release=release)

    shop.engine.store.append = fail_once  # type: ignore[method-assign]
    assert type((await shop.ask())[-1]).__name__ == "RunFailed"
    (interrupt,) = end_of(await shop.ask(None)).interrupts
    events = await shop.ask(None, Answer(interrupt_id=interrupt.id, payload={"result": "tea"}))
    assert end_of(events).status == "completed"
    assert shop.ran == ["order", "look cat"]
    assert [each.status for each in await stored(shop.engine) if each.role == "tool"] == ["ok", "interrupted"]


async def test_a_blank_answer_behind_results_gets_the_last_text_there_was() -> None:
    blank: list[Piece] = [TextPiece(" ")]
    shop = Shop([*says("I look."), *calls(("look", ""))], blank, blank)
    events = await shop.ask()
    assert end_of(events).status == "completed"
    assert (await stored(shop.engine))[-1].text == "I look."

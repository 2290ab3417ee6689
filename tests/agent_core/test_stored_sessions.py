"""What the engine tells of stored sessions, and what it does with them outside of runs."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

import pytest

from agent_core import Agent, Engine, InMemoryStore, Message, Pending, RunInput, tool
from agent_core.errors import HeldElsewhere, InvalidRequest, RunError, SessionBusy, SessionExists
from agent_core.events import AgentEnd, MessagesSnapshot, RunFailed, TextDelta
from agent_core.interrupts import Answer
from agent_core.names import SessionKey
from agent_core.sessions import leases
from agent_core.sessions.records import InMemoryRecords, Record
from agent_core.sessions.timed_records import TimedRecords
from agent_core.tools.base import Tool
from tests.doubles import ScriptedModel, calls, events_of, says

KEY = SessionKey(user_id="u", session_id="s")
OTHER = SessionKey(user_id="u", session_id="other")


@tool
def begin() -> Pending:
    """Begins something that goes on elsewhere."""
    return Pending(operation_id="op-1")


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with Engine() as made:
        yield made


def agent(*steps: object, name: str = "a", tools: Sequence[Tool] = ()) -> Agent:
    return Agent(name, ScriptedModel([*steps] or [says("hi")]), tools=tools)  # type: ignore[list-item]


async def test_an_outline_names_the_agents_that_have_a_history_and_the_state(engine: Engine) -> None:
    await engine.call(agent(name="one"), RunInput(messages=(said("1"),), state={"n": 1}), user_id="u", session_id="s")
    await engine.call(agent(name="two"), "hello", user_id="u", session_id="s")
    outline = await engine.sessions.outline(KEY)
    assert (outline.agents, outline.state) == (("one", "two"), {"n": 1})


async def test_messages_are_given_to_whoever_shows_them_and_its_refusal_comes_through(engine: Engine) -> None:
    await engine.call(agent(), "hello", user_id="u", session_id="s")

    def texts(messages: Sequence[Message]) -> list[str]:
        return [message.text for message in messages]

    def refuse(messages: Sequence[Message]) -> None:
        raise InvalidRequest(f"{len(messages)} are too many")

    assert await engine.sessions.messages(KEY, "a", texts) == ["hello", "hi"]
    assert await engine.sessions.messages(KEY, "nobody", texts) == []
    with pytest.raises(InvalidRequest, match="2 are too many"):
        await engine.sessions.messages(KEY, "a", refuse)


async def test_a_run_that_is_over_is_told_from_the_store(engine: Engine) -> None:
    end = (await events_of(engine, agent(), "hello"))[-1]
    stored = await engine.sessions.run(KEY, end.run_id)
    assert stored is not None
    assert isinstance(stored.end, AgentEnd)
    assert stored.end.status == "completed"
    [told] = [event for event in stored.snapshot if isinstance(event, MessagesSnapshot)]
    assert [message.text for message in told.messages] == ["hello", "hi"]
    assert await engine.sessions.run(KEY, "never") is None
    assert await engine.sessions.run(OTHER, end.run_id) is None


async def test_a_run_of_another_worker_is_not_over_while_that_holds_the_session_and_lost_when_it_is_gone() -> None:
    store = InMemoryStore()
    looking, working = Engine(store=store), Engine(store=store)
    model = ScriptedModel([[asyncio.Event()]])
    task = asyncio.create_task(events_of(working, Agent("a", model), "go"))
    await model.streaming.wait()
    [run] = working.under_way(KEY)
    with pytest.raises(HeldElsewhere):
        await working.sessions.run(KEY, run.run_id)
    # The in-memory store knows one process, in which no other worker can be alive.
    stored = await looking.sessions.run(KEY, run.run_id)
    assert stored is not None
    assert isinstance(stored.end, RunFailed)
    assert stored.end.code == "worker_lost"
    await working.aclose()
    await task


async def test_what_waits_is_known_with_its_owner_and_so_is_the_run_that_took_a_result(engine: Engine) -> None:
    one = agent(calls(("begin", "{}")), says("done"), tools=[begin])
    await engine.call(one, "go", user_id="u", session_id="s")
    pending = await engine.sessions.pending(KEY, ["a", "b"])
    [waiting] = pending["a"]
    assert list(pending) == ["a"]
    assert await engine.sessions.interrupts(KEY) == {waiting.id: "a"}
    assert await engine.sessions.taker(KEY, "op-1") is None
    answer = RunInput(answers=(Answer(interrupt_id=waiting.id, payload={"result": 1}),))
    await engine.call(one, answer, user_id="u", session_id="s", run_id="r2")
    assert await engine.sessions.pending(KEY, ["a"]) == {"a": ()}
    assert await engine.sessions.taker(KEY, "op-1") == "r2"
    assert await engine.sessions.interrupts(KEY) == {waiting.id: "a"}


def said(text: str, message_id: str = "") -> Message:
    return Message(id=message_id or text, role="user", content=text)


def claiming(text: str) -> RunInput:
    """A request with the key `key_1`, as it comes for the first time."""
    return RunInput(messages=(said(text),), own_ids=False, claim=f"key_1_{text}")


async def test_an_earlier_request_is_known_by_its_claim_with_its_answer(engine: Engine) -> None:
    result = await engine.call(agent(), claiming("hello"), user_id="u", session_id="s", run_id="r1")
    find = engine.sessions.earlier
    earlier = await find(KEY, "a", key_claim="key_1", claim="key_1_hello", seconds=60)
    assert earlier is not None
    assert earlier.same
    assert earlier.answer is not None
    assert (earlier.answer.run_id, earlier.answer.session_id) == ("r1", "s")
    assert result.message is not None
    [told, end] = earlier.answer.events
    assert isinstance(told, TextDelta)
    assert (told.text, told.reply_id) == ("hi", result.message.id)
    assert isinstance(end, AgentEnd)
    other = await find(KEY, "a", key_claim="key_1", claim="key_1_bye", seconds=60)
    assert other is not None
    assert not other.same
    for strange in (
        await find(KEY, "b", key_claim="key_1", claim="key_1_hello", seconds=60),
        await find(KEY, "a", key_claim="key_2", claim="key_2_hello", seconds=60),
        await find(KEY, "a", key_claim="key_1", claim="key_1_hello", seconds=-1),
    ):
        assert strange is None


async def test_an_earlier_request_that_is_under_way_is_busy_and_one_that_was_stopped_has_no_answer(
    engine: Engine,
) -> None:
    model = ScriptedModel([[asyncio.Event()]])
    task = asyncio.create_task(events_of(engine, Agent("a", model), claiming("hello")))
    await model.streaming.wait()
    with pytest.raises(SessionBusy):
        await engine.sessions.earlier(KEY, "a", key_claim="key_1", claim="key_1_hello", seconds=60)
    await engine.interrupt(user_id="u", session_id="s")
    await task
    earlier = await engine.sessions.earlier(KEY, "a", key_claim="key_1", claim="key_1_hello", seconds=60)
    assert earlier is not None
    assert (earlier.same, earlier.answer) == (True, None)


async def test_a_session_is_exported_brought_in_and_forked_but_never_over_another(engine: Engine) -> None:
    result = await engine.call(agent(), "hello", user_id="u", session_id="s")
    assert result.message is not None
    sessions = engine.sessions
    await sessions.bring_in(OTHER, await sessions.export(KEY, "A title"))
    fork = SessionKey(user_id="u", session_id="fork")
    await sessions.fork(KEY, "a", result.message.id, fork)
    for copy in (OTHER, fork):
        assert await sessions.messages(copy, "a", len) == 2
        with pytest.raises(SessionExists):
            await sessions.fork(KEY, "a", result.message.id, copy)
    with pytest.raises(InvalidRequest, match="messageId"):
        await sessions.fork(KEY, "a", "nothing", SessionKey(user_id="u", session_id="x"))


async def test_a_store_that_is_silent_is_unavailable_and_not_waited_for(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silence(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(leases, "SAVING", 0.01)
    for name in ("find", "load", "page", "check"):
        monkeypatch.setattr(engine.store, name, silence)
    for asked in (
        engine.sessions.find(KEY),
        engine.sessions.outline(KEY),
        engine.sessions.page("u", 10),
        engine.sessions.check(0.01),
    ):
        with pytest.raises(RunError, match="store_unavailable"):
            await asked


async def test_records_that_are_silent_are_unavailable_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(InMemoryRecords):
        async def recall(self, user_id: str, names: Sequence[str]) -> Mapping[str, Record]:
            await asyncio.Event().wait()
            raise AssertionError

    records = TimedRecords(Silent())
    await records.keep("u", "one", b"1", seconds=60)
    monkeypatch.setattr(leases, "SAVING", 0.01)
    with pytest.raises(RunError, match="store_unavailable"):
        await records.recall("u", ["one"])

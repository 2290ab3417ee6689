"""The life of a run over a store that fails, hangs or misbehaves: one terminal event, and a free gate."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Sequence

import pytest

from agent_core import Agent, Engine, tool
from agent_core import runner as runner_module
from agent_core.context import RunContext
from agent_core.errors import RunError
from agent_core.events import AgentEnd, Event, RunFailed
from agent_core.messages import Message
from agent_core.names import SessionKey
from agent_core.pairing import paired
from agent_core.react.lane import Lane
from agent_core.react.scope import Nowhere
from agent_core.run import Run
from agent_core.sessions import folds as folds_module
from agent_core.sessions import leases as leases_module
from agent_core.sessions import writer as writer_module
from agent_core.sessions.entries import Entry
from agent_core.sessions.history import history_of, take_all
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.standing import Standing
from agent_core.sessions.store import Lease, LeaseLost, Mark, Opened
from tests.agent_core.react.agents import add
from tests.app.doubles import until
from tests.doubles import Collected, ScriptedModel, calls, events_of, kinds, says
from tests.entries import message_entry

KEY = SessionKey(user_id="u", session_id="s")
PLACES = [("open", 1), *(("append", nth) for nth in range(1, 5))]


class FailingStore(InMemoryStore):
    """Fails at the nth use of one method: raises the error, or hangs without one."""

    def __init__(self, method: str, nth: int, error: BaseException | None) -> None:
        super().__init__()
        self.method, self.left, self.error = method, nth, error
        self.released = 0

    async def _use(self, method: str) -> None:
        if method == self.method:
            self.left -= 1
            if self.left == 0:
                if self.error is None:
                    await asyncio.Event().wait()
                else:
                    raise self.error

    async def open(self, key: SessionKey, owner: str, known: Mark | None = None) -> Opened:
        await self._use("open")
        return await super().open(key, owner, known)

    async def append(self, lease: Lease, entries: Sequence[Entry], *, release: bool = False) -> None:
        await self._use("append")
        await super().append(lease, entries, release=release)

    async def release(self, lease: Lease) -> None:
        self.released += 1
        await self._use("release")
        await super().release(lease)


def adding() -> Agent:
    return Agent("a", ScriptedModel([calls(("add", '{"a":1,"b":1}')), says("2")]), tools=[add])


def check_ended(events: Sequence[Event], engine: Engine) -> AgentEnd | RunFailed:
    assert kinds(events)[0] == "AgentStart"
    assert sum(kind in ("AgentEnd", "RunFailed") for kind in kinds(events)) == 1
    assert len(engine.gate) == 0
    end = events[-1]
    assert isinstance(end, AgentEnd | RunFailed)
    return end


@pytest.mark.parametrize(
    "error",
    [RunError("store_unavailable"), OSError("secret disk"), asyncio.CancelledError(), LeaseLost(), None],
    ids=["known", "unknown", "leaked cancel", "lease lost", "silence"],
)
@pytest.mark.parametrize(("method", "nth"), PLACES)
async def test_a_store_that_fails_anywhere_is_one_terminal_event(
    method: str, nth: int, error: BaseException | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if error is None:  # else a slow machine would be taken for a silent store
        for module in (runner_module, leases_module, writer_module):
            monkeypatch.setattr(module, "SAVING", 0.05)
    store = FailingStore(method, nth, error)
    async with Engine(store=store) as engine:
        end = check_ended(await events_of(engine, adding(), "1+1?"), engine)
        assert isinstance(end, RunFailed)
        if isinstance(error, OSError) or error is None:
            assert end.code == "store_unavailable"
        if isinstance(error, LeaseLost):
            assert end.code == "worker_lost"
        assert "secret" not in end.message
        assert store.released == (0 if method == "open" else 1)
        monkeypatch.undo()
        again = check_ended(await events_of(engine, adding(), "and now?"), engine)
        assert isinstance(again, AgentEnd), "the session goes on"
        messages = history_of(await store.load(KEY), "a").messages
        assert paired(messages) == messages


def _fails(*_: object) -> None:
    raise MemoryError


async def test_a_run_that_cannot_be_made_leaves_the_session_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever raises on the way: nobody would give its place at the gate back."""
    async with Engine() as engine:
        with monkeypatch.context() as patched:
            patched.setattr(Lane, "watch_over", _fails)
            with pytest.raises(MemoryError):
                engine.admit(adding(), "go", user_id="u", session_id="s")
        assert (len(engine.gate), engine.under_way(KEY)) == (0, ())
        check_ended(await events_of(engine, adding(), "go"), engine)


async def test_a_run_that_cannot_be_started_leaves_the_session_free() -> None:
    async with Engine() as engine:
        run = engine.admit(adding(), "go", user_id="u", session_id="s")
        with pytest.raises(AttributeError):
            engine.start(run, None)  # type: ignore[arg-type]
        assert (len(engine.gate), engine.under_way(KEY)) == (0, ())
        check_ended(await events_of(engine, adding(), "go"), engine)


async def test_a_session_that_cannot_be_moved_out_of_memory_is_given_free() -> None:
    @tool(approval=True)
    def act() -> str:
        """Acts."""
        raise AssertionError

    agent = Agent("a", ScriptedModel([calls(("act", "{}"))]), tools=[act])
    store = FailingStore("append", 1, OSError("full"))
    async with Engine(store=store) as engine:
        run = engine.admit(agent, "go", user_id="u", session_id="s", ephemeral=True)
        end = await engine.start(run, Nowhere())
        assert isinstance(end, RunFailed)
        assert end.code == "store_unavailable"
        assert store.released == 1


async def test_a_stop_ends_the_wait_for_a_store_that_is_silent() -> None:
    store = FailingStore("open", 1, None)
    async with Engine(store=store) as engine:
        running = asyncio.create_task(events_of(engine, adding(), "go"))
        await until(lambda: store.left == 0)
        assert await engine.interrupt(user_id="u", session_id="s")
        end = check_ended(await running, engine)
        assert isinstance(end, AgentEnd)
        assert end.status == "cancelled"


async def test_instructions_that_raise_a_cancel_do_not_end_the_run_without_a_word() -> None:
    def odd(context: RunContext) -> str:
        raise asyncio.CancelledError

    async with Engine() as engine:
        events = await events_of(engine, Agent("a", ScriptedModel([says("hi")]), instructions=odd), "go")
        end = check_ended(events, engine)
        assert isinstance(end, RunFailed)
        assert end.code == "internal"


async def test_a_stop_ends_the_reading_of_a_long_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread goes on reading, and nobody waits for it."""
    reading, go = threading.Event(), threading.Event()

    def slowly(standing: Standing, entries: Sequence[Entry]) -> Standing:
        reading.set()
        assert go.wait(10)
        return take_all(standing, entries)

    async with Engine() as engine:
        said = [message_entry("r", "a", Message(id=f"u{n}", role="user", content="x" * 1_000)) for n in range(1_000)]
        await engine.sessions.fill(SessionKey(user_id="u", session_id="s"), said)
        with monkeypatch.context() as patched:
            patched.setattr(folds_module, "take_all", slowly)
            run = engine.admit(adding(), "go", user_id="u", session_id="s")
            task = engine.start(run, Nowhere())
            assert await asyncio.to_thread(reading.wait, 10)
            assert run.stop("interrupt")
            end = await task
            go.set()
        assert isinstance(end, AgentEnd)
        assert end.status == "cancelled"
        check_ended(await events_of(engine, adding(), "go"), engine)


class Kept(Collected):
    """A sink that can be watched."""


@pytest.mark.parametrize("ephemeral", [False, True])
async def test_a_run_that_is_over_is_freed_without_the_garbage_collector(ephemeral: bool) -> None:
    """The collector seldom runs on a server, and what waits for it holds whole conversations."""

    class Note:
        async def before_calls(self) -> None:
            pass

        async def at_end(self, run: Run, end: AgentEnd | RunFailed) -> None:
            pass

    sink = Kept([])
    left = weakref.ref(sink)
    async with Engine() as engine:
        gc.collect()
        gc.disable()
        try:
            outside = Note() if ephemeral else None
            run = engine.admit(adding(), "1+1?", user_id="u", session_id="s", ephemeral=ephemeral, outside=outside)
            task = engine.start(run, sink)
            assert isinstance(await task, AgentEnd)
            del run, task, sink
            await asyncio.sleep(0)
            assert left() is None
        finally:
            gc.enable()

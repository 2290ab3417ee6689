"""Folds that are kept: each equals one that reads the session anew, whatever has happened to the session."""

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core import Agent, Engine, ToolContext, tool
from agent_core.errors import CoreError
from agent_core.interrupts import Answer
from agent_core.messages import Message
from agent_core.models.base import ModelRequest, Piece
from agent_core.names import SessionKey
from agent_core.react.scope import Nowhere
from agent_core.run_input import RunInput
from agent_core.sessions.entries import Addition, Entry
from agent_core.sessions.folds import EMPTY, Fold, Folds
from agent_core.sessions.history import history_of
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.store import Lease, Mark, Opened, Store
from tests.agent_core.sessions.stores import KEY, key, opened
from tests.agent_core.sessions.views import view_of
from tests.doubles import ScriptedModel, calls, events_of, says
from tests.entries import message_entry, run_entry

OF = ("a", "root")


class CountingStore(InMemoryStore):
    """Counts the entries that are read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.read_entries: list[int] = []
        self.loads = 0

    async def open(self, key: SessionKey, owner: str, known: Mark | None = None) -> Opened:
        found = await super().open(key, owner, known)
        self.read_entries.append(len(found.entries))
        return found

    async def load(self, key: SessionKey) -> Sequence[Entry]:
        self.loads += 1
        return await super().load(key)


@tool
async def put(context: ToolContext, value: int) -> str:
    """Put a value into the state."""
    context.state.setdefault("list", []).append(value)
    return "put"


@tool(approval=True)
async def order(context: ToolContext) -> str:
    """Order something."""
    context.state["ordered"] = True
    return "ordered"


def act(request: ModelRequest) -> Sequence[Piece]:
    """Do what the last message says, if it is the user's."""
    last = request.messages[-1]
    if last.role == "user" and last.text.startswith("put"):
        return calls(("put", f'{{"value":{len(request.messages)}}}'))
    if last.role == "user" and last.text.startswith("order"):
        return calls(("order", "{}"), ("put", '{"value":0}'))
    return says("done")


def agent(name: str = "a") -> Agent:
    return Agent(name, ScriptedModel([act]), tools=[put, order])


def user(words: str, message_id: str) -> Message:
    return Message(id=message_id, role="user", content=words)


class Workers:
    """Two workers on one store, and what may happen to a session."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.engines = [Engine(store=store), Engine(store=store)]
        self.number = 0

    async def aclose(self) -> None:
        for engine in self.engines:
            await engine.aclose()

    def _next(self) -> int:
        self.number += 1
        return self.number

    async def _messages(self) -> list[Message]:
        return history_of(await self.store.load(KEY), "a").messages

    async def say(self, engine: Engine, words: str = "hello", name: str = "a") -> None:
        number = self._next()
        given = RunInput(messages=(user(words, f"u{number}"),), state={"n": number} if number % 5 == 0 else None)
        await events_of(engine, agent(name), given)

    async def put(self, engine: Engine) -> None:
        await self.say(engine, "put it")

    async def order(self, engine: Engine) -> None:
        await self.say(engine, "order it")

    async def other(self, engine: Engine) -> None:
        await self.say(engine, "put it", "b")

    async def approve(self, engine: Engine) -> None:
        waiting = history_of(await self.store.load(KEY), "a").pending
        answers = tuple(Answer(interrupt_id=each.id, payload={"approved": True}) for each in waiting)
        await events_of(engine, agent(), RunInput(answers=answers))

    async def edit(self, engine: Engine) -> None:
        asked = [each for each in await self._messages() if each.role == "user"]
        if asked:
            old = asked[len(asked) // 2]
            await events_of(engine, agent(), RunInput(messages=(user(f"put {self._next()}", old.id),)))

    async def again(self, engine: Engine) -> None:
        await events_of(engine, agent(), RunInput(messages=tuple((await self._messages())[:1])))

    async def observe(self, engine: Engine) -> None:
        await engine.observe(agent(), [user("seen", f"o{self._next()}")], user_id="u", session_id="s")

    async def rename(self, engine: Engine) -> None:
        await engine.sessions.rename(KEY, f"title {self._next()}")

    async def delete(self, engine: Engine) -> None:
        await engine.sessions.delete(KEY)

    async def restore(self, engine: Engine) -> None:
        snapshot = await engine.sessions.snapshot(KEY)
        await engine.sessions.delete(KEY)
        await engine.sessions.restore(KEY, snapshot)

    async def bring_in(self, engine: Engine) -> None:
        lines = await engine.sessions.export(KEY, "brought")
        await engine.sessions.delete(KEY)
        await engine.sessions.bring_in(KEY, lines)

    async def fork(self, engine: Engine) -> None:
        messages = await self._messages()
        to = key(f"fork{self._next()}")
        await engine.sessions.fork(KEY, "a", messages[-1].id if messages else "none", to)
        lines = await engine.sessions.export(to, "forked")
        await engine.sessions.delete(KEY)
        await engine.sessions.bring_in(KEY, lines)

    async def crash(self, engine: Engine) -> None:
        """A run begins, and is never heard of again. Its lease has expired."""
        lease = await self.store.acquire(KEY, engine._runner.owner)
        assert lease is not None
        number = self._next()
        lost = Message(id=f"lost{number}", role="user", content="hello")
        begun = [run_entry(f"lost{number}", "a"), message_entry(f"lost{number}", "a", lost)]
        await self.store.append(lease, begun, release=True)

    async def ask_for_an_earlier_request(self, engine: Engine) -> None:
        await engine.sessions.earlier(KEY, "a", key_claim="key", claim="key_claim", seconds=60)

    async def do(self, name: str, worker: int) -> None:
        """Do it, and check all folds that are kept."""
        deed: Callable[[Engine], Coroutine[Any, Any, None]] = getattr(self, name)
        with suppress(CoreError) if name in MAY_BE_REFUSED else nullcontext():
            await deed(self.engines[worker])
        for engine in self.engines:
            await self.check(engine._runner.histories.folds)

    async def check(self, folds: Folds) -> None:
        entries = await self.store.load(KEY)
        kept = [fold for agent in "ab" if (fold := folds.take(KEY, (agent, "root"))) is not None]
        for fold in kept:
            mark = fold.mark
            assert mark is not None
            assert mark.head == fold.head
            read = await self.store.read(KEY, mark)
            if read.after:  # else it is another session now, and the next run reads that
                fresh = Fold(fold.of)
                fresh.read(entries[: fold.head])
                assert view_of(fold) == view_of(fresh)
            folds.put(KEY, fold)


DEEDS = [
    *("say", "put", "order", "other", "approve", "edit", "again", "observe", "rename", "delete", "restore", "bring_in"),
    *("fork", "crash", "ask_for_an_earlier_request"),
]

MAY_BE_REFUSED = {"fork", "edit", "restore", "bring_in", "again", "approve"}
"""They need something that need not be there."""


@asynccontextmanager
async def workers(store: Store) -> AsyncGenerator[Workers, None]:
    made = Workers(store)
    try:
        yield made
    finally:
        await made.aclose()


@settings(max_examples=150)
@given(st.lists(st.tuples(st.sampled_from(DEEDS), st.integers(0, 1)), max_size=14))
async def test_a_kept_fold_equals_a_fresh_one_after_whatever_happened(deeds: list[tuple[str, int]]) -> None:
    async with workers(InMemoryStore()) as made:
        for name, worker in deeds:
            await made.do(name, worker)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_kept_fold_equals_a_fresh_one_on_a_database(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store, workers(store) as made:
        for turn in range(3):
            for at, name in enumerate(DEEDS):
                await made.do(name, (at + turn) % 2)
                await made.do("put", at % 2)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_a_run_right_after_another_worker_s_sees_what_that_one_wrote(kind: str, tmp_path: Path) -> None:
    async with opened(kind, tmp_path) as store, workers(store) as made:
        for number in range(4):
            await made.do("put", number % 2)
        assert history_of(await store.load(KEY), "a").state == {"list": [1, 5, 9, 13]}


async def test_a_run_reads_only_what_it_does_not_know() -> None:
    store = CountingStore()
    async with Engine(store=store) as one:
        for number in range(5):
            await events_of(one, agent(), RunInput(messages=(user("hello", f"u{number}"),)))
        assert store.read_entries == [0] * 5
        async with Engine(store=store) as two:
            await events_of(two, agent(), RunInput(messages=(user("hello", "v1"),)))
            head = len(await store.load(KEY))
            assert store.read_entries[5:] == [head - 4]
            await events_of(one, agent(), RunInput(messages=(user("hello", "v2"),)))
            assert store.read_entries[6:] == [4], "the other worker's run"
            await one.sessions.rename(KEY, "new")
            await events_of(one, agent(), RunInput(messages=(user("hello", "v3"),)))
            assert store.read_entries[7:] == [1], "the title"
            await one.observe(agent(), [user("seen", "o1")], user_id="u", session_id="s")
            await events_of(one, agent("b"), RunInput(messages=(user("hello", "v4"),)))
            assert store.read_entries[8:] == [0, head + 10], "another agent has a history of its own"


async def test_neither_a_claim_nor_an_unchanged_state_reads_the_whole_session() -> None:
    store = CountingStore()
    async with Engine(store=store) as engine:
        for number in range(3):
            await events_of(engine, agent(), RunInput(messages=(user("hello", f"u{number}"),)))
        store.loads = 0
        assert await engine.sessions.earlier(KEY, "a", key_claim="k", claim="k_c", seconds=60) is None
        await events_of(engine, agent(), RunInput(messages=(user("another text", "u1"),)))
        assert (store.loads, store.read_entries[-1]) == (0, 0)
        shown = history_of(await store.load(KEY), "a").messages
        assert [each.id for each in shown if each.role == "user"] == ["u0", "u1"]


async def test_a_rewind_finds_the_state_as_it_stood() -> None:
    async with Engine() as engine:
        for number in range(3):
            await events_of(engine, agent(), RunInput(messages=(user("put it", f"u{number}"),)))
        await events_of(engine, agent(), RunInput(messages=(user("hello there", "u1"),)))
        history = history_of(await engine.store.load(KEY), "a")
        assert history.state == {"list": [1]}


async def test_the_folds_of_many_sessions_stay_within_their_bound() -> None:
    most = 40 * EMPTY
    folds = Folds(most)
    for number in range(100_000):
        folds.put(key(f"s{number}"), _fold(number % 3))
        assert folds.size <= most
    assert folds.take(key("s0"), OF) is None
    last = folds.take(key("s99999"), OF)
    assert last is not None
    kept = [folds.take(key(f"s{number}"), OF) for number in range(99_900, 99_999)]
    assert sum(each.size for each in kept if each is not None) <= most
    assert (folds.size, len(folds)) == (0, 0)


def _fold(entries: int) -> Fold:
    fold = Fold(OF)
    fold.read([message_entry("r", "a", user("x" * 500, f"m{number}")) for number in range(entries)])
    fold.mark = Mark(row=1, head=entries)
    return fold


@pytest.mark.parametrize("text", ["x", "é", "x" * 499 + "\N{SNOWMAN}", "x" * 499 + "\N{MUSICAL SYMBOL G CLEF}"])
def test_a_fold_has_no_more_bytes_than_are_counted(text: str) -> None:
    entries = [message_entry("r", "a", user(text * (500 // len(text)), f"message-{number}")) for number in range(1_000)]
    gc.collect()
    tracemalloc.start()
    try:
        fold = Fold(OF)
        fold.read(entries)
        real, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert real <= fold.size <= 8 * real


async def test_a_fold_that_is_too_large_for_the_bound_is_not_kept() -> None:
    folds = Folds(EMPTY + 100)
    folds.put(KEY, _fold(1))
    assert (folds.size, len(folds)) == (0, 0)


async def test_the_session_that_was_used_longest_ago_goes_first_and_a_newer_fold_stays() -> None:
    folds = Folds(3 * EMPTY + 100)
    for name in ("one", "two", "three"):
        folds.put(key(name), _fold(0))
    one = folds.take(key("one"), OF)
    assert one is not None
    folds.put(key("one"), one)
    folds.put(key("four"), _fold(0))
    assert folds.take(key("two"), OF) is None
    assert len(folds) == 3
    newer = _fold(0)
    newer.head = 7
    folds.put(key("four"), newer)
    folds.put(key("four"), _fold(0))
    assert folds.take(key("four"), OF) is newer


async def test_what_was_deleted_is_no_longer_kept() -> None:
    async with Engine() as engine:
        folds = engine._runner.histories.folds
        for name in ("a", "b"):
            await events_of(engine, agent(name), "hello")
        assert len(folds) == 2
        await engine.sessions.delete(KEY)
        assert (len(folds), folds.size) == (0, 0)


async def test_an_ephemeral_session_is_not_kept() -> None:
    async with Engine() as engine:
        run = engine.admit(agent(), "hello", user_id="u", session_id="s", ephemeral=True)
        await engine.start(run, Nowhere())
        assert len(engine._runner.histories.folds) == 0
        assert len(engine._runner._scratch_histories.folds) == 0


class SlowAppends(InMemoryStore):
    """An append waits until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def append(self, lease: Lease, entries: Sequence[Entry], *, release: bool = False) -> None:
        await self.go_on.wait()
        await super().append(lease, entries, release=release)


async def test_a_fold_whose_last_write_is_still_under_way_is_not_kept() -> None:
    store = SlowAppends()
    async with Engine(store=store) as engine:
        histories, leases = engine._runner.histories, engine._runner._leases
        writer = await histories.open(leases, KEY, OF, wait=1)
        store.go_on.clear()
        late = asyncio.create_task(writer.append(Addition(message_entry("r", "a", user("late", "m1")))))
        await asyncio.sleep(0)
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        histories.keep(writer)
        store.go_on.set()
        await writer.quiet()
        assert len(histories.folds) == 0
        again = await histories.open(leases, KEY, OF, wait=1)
        assert [each.id for each in again.fold.history.messages] == ["m1"]
        await leases.release(again.lease)


async def test_what_a_run_showed_stays_as_it_was_when_the_next_run_goes_on() -> None:
    async with Engine() as engine:
        runs = []
        for number in range(2):
            given = RunInput(messages=(user("put it", f"u{number}"),))
            run = engine.admit(agent(), given, user_id="u", session_id="s")
            await engine.start(run, Nowhere())
            runs.append(run)
        assert [len(run.messages) for run in runs] == [4, 8]
        assert [run.state for run in runs] == [{"list": [1]}, {"list": [1, 5]}]
        assert len(runs[0].snapshot()) == len(runs[1].snapshot())


async def test_an_earlier_request_is_told_to_be_running_while_its_run_has_the_fold() -> None:
    hold = asyncio.Event()
    model = ScriptedModel([[hold, *says("hi")]])
    async with Engine() as engine:
        given = RunInput(messages=(user("hello", "u1"),), claim="k_c")
        task = asyncio.create_task(events_of(engine, Agent("a", model), given))
        await model.streaming.wait()
        with pytest.raises(CoreError) as caught:
            await engine.sessions.earlier(KEY, "a", key_claim="k", claim="k_c", seconds=60)
        assert type(caught.value).__name__ == "SessionBusy"
        hold.set()
        await task
        found = await engine.sessions.earlier(KEY, "a", key_claim="k", claim="k_c", seconds=60)
        assert found is not None
        assert found.answer is not None

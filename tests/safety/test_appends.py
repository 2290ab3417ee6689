"""One append after another, each on the head that the one before has left, and on disk when it is answered."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from sqlalchemy import Connection

from agent_core import Agent, Engine, tool
from agent_core.events import AgentEnd
from agent_core.sessions.entries import Addition, Entry
from agent_core.sessions.history import history_of
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.sql.database_file import DATABASE
from agent_core.sessions.sql.transactions import BROKEN
from agent_core.sessions.sql.work import Work
from agent_core.sessions.writer import Writer
from tests.agent_core.sessions.sql.sqlite_stores import held_up, keeper_of, opened
from tests.agent_core.sessions.stores import entry, fails, key, take
from tests.app.doubles import until
from tests.doubles import ScriptedModel, calls, events_of, says
from tests.entries import titled_entry
from tests.safety.recording import KEY, RecordingStore, sqlite

SIDE_BY_SIDE = 8


async def test_calls_side_by_side_append_one_after_another_over_sqlite(tmp_path: Path) -> None:
    together = asyncio.Barrier(SIDE_BY_SIDE)

    @tool
    async def act(number: int) -> int:
        """Ends when all the others do."""
        await together.wait()
        return number

    asked = [("act", f'{{"number":{number}}}') for number in range(SIDE_BY_SIDE)]
    model = ScriptedModel([calls(*asked), says("done")])
    agent = Agent("a", model, tools=[act], parallel_tool_calls=True, max_parallel_tool_calls=SIDE_BY_SIDE)
    store = RecordingStore(await sqlite(tmp_path))
    async with Engine(store=store) as engine:
        end = (await events_of(engine, agent, "go"))[-1]
        assert isinstance(end, AgentEnd)
        assert end.status == "completed"
        results = [m.text for m in history_of(await store.load(KEY), "a").messages if m.role == "tool"]
        assert sorted(results) == [str(number) for number in range(SIDE_BY_SIDE)]
    appends = [step.split()[0] for step in store.steps if step.startswith("append")]
    assert appends == ["append", "appended"] * (len(appends) // 2), "none begins before the one before has ended"


async def test_what_is_done_again_after_another_s_failure_is_on_disk_when_it_is_answered(tmp_path: Path) -> None:
    def fail(conn: Connection) -> None:
        raise ZeroDivisionError

    store = await opened(tmp_path)
    lease = await take(store)
    await store.append(lease, [entry("first")])
    with held_up(store):
        await asyncio.sleep(0)
        failing = asyncio.ensure_future(store._backend.run(Work(do=fail)))
        writing = asyncio.ensure_future(store.append(lease, [entry("kept")]))
        await asyncio.sleep(0)
    await writing
    with closing(sqlite3.connect(tmp_path / DATABASE)) as other:
        assert other.execute("SELECT count(*) FROM entries").fetchone() == (2,)
    with pytest.raises(ZeroDivisionError):
        await failing
    await store.aclose()


async def test_what_could_not_be_committed_is_answered_to_nobody_as_done(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    lease = await take(store)
    await store.append(lease, [entry("first")])
    keeper = keeper_of(store)
    commit, keeper._commit = keeper._commit, Mock(side_effect=sqlite3.OperationalError("disk full"))
    await fails(store.append(lease, [entry("lost")]))
    keeper._commit = commit
    assert lease.head == 1
    assert len(await store.load(KEY)) == 1
    await store.append(lease, [entry("next")])
    assert len(await store.load(KEY)) == 2
    await store.aclose()


async def test_an_append_is_carried_to_its_end_though_its_waiter_is_cancelled() -> None:
    store = RecordingStore(InMemoryStore())
    lease = await store.acquire(KEY, "w")
    assert lease is not None
    writer, done = Writer(store, lease), list[str]()
    go_on = store.hold("append message")
    waiter = asyncio.create_task(writer.write(lambda: [Addition(entry(1))], lambda: done.append("first")))
    await until(lambda: "append message" in store.steps)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    second = asyncio.create_task(
        writer.write(lambda: [Addition(titled_entry("r", f"behind {len(done)}"))], lambda: done.append("second"))
    )
    await asyncio.sleep(0)
    assert "append titled" not in store.steps, "it waits for the one that nobody waits for"
    go_on.set()
    await second
    assert done == ["first", "second"]
    entries: list[Entry] = list(await store.load(KEY))
    assert [each.kind for each in entries] == ["message", "titled"]
    assert b"behind 1" in entries[1].body


class Refusing:
    """The connection, on which a commit fails."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self._raw = raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def execute(self, statement: str) -> Any:
        if statement == "COMMIT":
            raise sqlite3.OperationalError("disk full")
        return self._raw.execute(statement)


async def test_a_lease_that_was_given_out_is_broken_where_the_commit_behind_it_fails(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.append(await take(store), [entry("first")])
    keeper = keeper_of(store)
    keeper._raw = Refusing(keeper._raw)
    lease = await take(store, key("other"))
    await fails(store.append(lease, [entry("lost")]))
    assert lease.row == BROKEN
    assert "lease was lost" in await fails(store.append(lease, [entry("lost")]))
    await store.aclose()

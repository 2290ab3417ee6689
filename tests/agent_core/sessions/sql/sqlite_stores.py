"""A store on SQLite for tests, and looks inside."""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from agent_core.sessions.sql.sqlite import SqliteBackend
from agent_core.sessions.sql.store import SqlStore, make_store
from agent_core.sessions.sql.work import Work


async def opened(data_dir: Path) -> SqlStore:
    """A store that does not wait for locks."""
    backend = await SqliteBackend.open(data_dir, busy_timeout=0.01)
    return await make_store(backend, data_dir, lease_seconds=30, journal_key=None, alone=True)


def keeper_of(store: SqlStore) -> Any:
    backend = store._backend
    assert isinstance(backend, SqliteBackend)
    return backend._writer


async def run_sql(store: SqlStore, statement: str) -> list[Any]:
    def do(conn: Connection) -> list[Any]:
        result = conn.execute(text(statement))
        return list(result.all()) if result.returns_rows else []

    return await store._backend.run(Work(do=do))


@contextmanager
def held_up(store: SqlStore) -> Generator[None, None, None]:
    """Keep the store's thread busy inside the block, so that work piles up. It begins with the loop's next turn."""
    go_on = threading.Event()

    def wait(conn: Connection) -> None:
        go_on.wait(30)

    blocking = asyncio.ensure_future(store._backend.run(Work(do=wait, durable=False)))
    try:
        yield
    finally:
        go_on.set()
        assert not blocking.cancelled()


async def count_commits(store: SqlStore) -> Callable[[], int]:
    said: list[str] = []
    heartbeat = keeper_of(store)
    await store._backend.run(Work(do=lambda _: heartbeat._raw.set_trace_callback(said.append)))
    said.clear()
    return lambda: said.count("COMMIT")

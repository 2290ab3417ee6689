"""Stores for tests, and short words for what tests do with them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from agent_core.errors import RunError
from agent_core.messages import Message
from agent_core.names import SessionKey
from agent_core.sessions.entries import Entry
from agent_core.sessions.history import history_of
from agent_core.sessions.sql.store import SqlStore
from agent_core.sessions.sql.work import Work
from agent_core.sessions.storage import open_store
from agent_core.sessions.store import Lease, Store
from tests.entries import message_entry
from tests.postgres import fresh_database

KEY = SessionKey(user_id="u", session_id="s")


def said(number: int) -> Message:
    return Message(id=f"m{number}", role="user", content=f"text {number}")


def entry(words: int | str = 1) -> Entry:
    """A message of the agent `a`: the words, or a text with this number."""
    if isinstance(words, int):
        return message_entry("r", "a", said(words))
    return message_entry("r", "a", Message(id=words[:20], role="user", content=words))


def key(session_id: str, user_id: str = "u") -> SessionKey:
    return SessionKey(user_id=user_id, session_id=session_id)


async def take(store: Store, whose: SessionKey = KEY, owner: str = "w") -> Lease:
    lease = await store.acquire(whose, owner)
    assert lease is not None
    return lease


async def fill(store: Store, whose: SessionKey = KEY, *entries: Entry) -> None:
    """Append the entries in one run."""
    await store.append(await take(store, whose), entries or [entry()], release=True)


async def texts(store: Store, whose: SessionKey = KEY) -> list[str]:
    return [message.text for message in history_of(await store.load(whose), "a").messages]


async def names(store: Store, user_id: str = "u") -> list[str]:
    return [each.session_id for each in (await store.page(user_id, 200)).sessions]


async def die(store: SqlStore, owner: str) -> None:
    """Let the owner's last heartbeat be long ago."""
    statement = text("UPDATE workers SET expires_at = expires_at - 3000 WHERE owner = :owner")
    await store._backend.run(Work(do=lambda conn: conn.execute(statement, {"owner": owner})))


def stop_clock(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """All that is written from now on is written at this millisecond."""
    monkeypatch.setattr("agent_core.sessions.sql.store.now_ms", lambda: at)
    monkeypatch.setattr("agent_core.sessions.in_memory.now_ms", lambda: at)


@asynccontextmanager
async def opened(kind: str, data_dir: Path) -> AsyncGenerator[Store, None]:
    """A fresh store; `kind` is memory, sqlite or postgres."""
    if kind == "postgres":
        with fresh_database() as url:
            async with opened(url, data_dir) as store:
                yield store
        return
    store = await open_store(kind, data_dir, lease_seconds=30)
    try:
        yield store
    finally:
        await store.aclose()


async def fails(awaited: Any) -> str:
    """The detail of the RunError `store_unavailable` that this raises."""
    with pytest.raises(RunError) as caught:
        await awaited
    assert caught.value.code == "store_unavailable"
    return caught.value.detail

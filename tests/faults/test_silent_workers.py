"""Workers that were stopped for longer than their lease, one thing at a time; pauses.py has the whole."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

import asyncpg
import pytest

from agent_core.messages import Message
from agent_core.names import SessionKey
from agent_core.sessions import heartbeat
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.storage import open_store
from agent_core.sessions.store import Cancel
from tests.app.doubles import until
from tests.entries import message_entry
from tests.postgres import postgres_url

__all__ = ["postgres_url"]

KEY = SessionKey(user_id="u", session_id="s")


async def test_a_worker_that_was_stopped_in_the_middle_of_a_statement_does_not_keep_its_successor_waiting(
    tmp_path: Path, postgres_url: str
) -> None:
    store = await open_store(postgres_url, tmp_path, lease_seconds=3)
    try:
        lease = await store.acquire(KEY, "first")
        assert lease is not None
        await store.append(lease, [message_entry("r", "a", Message(id="m", role="user", content="hi"))])
        stopped = await asyncpg.connect(postgres_url, server_settings={"application_name": "ostinato"})
        await stopped.execute("BEGIN")
        await stopped.execute("UPDATE sessions SET title = 'half done'")
        await stopped.prepare("SELECT 1")  # the server waits for the next message, and does not count as idle
        assert await store.acquire(KEY, "second") is not None
        stopped.terminate()
    finally:
        await store.aclose()


class Beating(InMemoryStore):
    """Counts the heartbeats."""

    beats = 0

    async def renew(self, owner: str) -> Sequence[Cancel]:
        self.beats += 1
        return []


async def test_a_worker_that_wakes_up_too_late_takes_its_leases_for_lost_although_its_heart_beats_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, asleep, lost = Beating(), 0.0, asyncio.Event()
    monkeypatch.setattr(heartbeat, "monotonic", lambda: monotonic() + asleep)
    heart = heartbeat.Heartbeat(store, "w", 0.3, busy=lambda: True, cancel=lambda _: None, lost=lost.set)
    await heart.ensure()
    await until(lambda: store.beats > 1)
    assert not lost.is_set()
    asleep = 60.0
    await lost.wait()
    lost.clear()
    beats = store.beats
    await until(lambda: store.beats > beats + 2)
    assert not lost.is_set(), "it is alive again, and what it acquires from now on is its own"
    await heart.aclose()

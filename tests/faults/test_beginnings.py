"""RUN_STARTED acknowledges the input, so it must not be sent for one that could not be stored."""

import asyncio
from collections.abc import Sequence

import httpx
import pytest

from agent_core import Agent
from agent_core.errors import RunError
from agent_core.sessions.entries import Entry
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.store import Lease
from tests.doubles import ScriptedModel, says
from tests.serving import run_input, serving


class Unwritable(InMemoryStore):
    """Can be read, and fails in writing as a database does: after a while."""

    async def append(self, lease: Lease, entries: Sequence[Entry], *, release: bool = False) -> None:
        await asyncio.sleep(0)
        raise RunError("store_unavailable")


async def test_a_run_whose_input_cannot_be_stored_is_refused_before_the_first_byte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agent_core.sessions.storage.InMemoryStore", Unwritable)
    async with serving(Agent("a", ScriptedModel([says("hi")]))) as up, httpx.AsyncClient() as http:
        response = await http.post(up.url + "/agui", json=run_input("hello"))
        assert response.status_code == 503, response.text
        assert response.json()["error"]["code"] == "store_unavailable"

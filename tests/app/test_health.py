"""Readiness asks the store, and not more often than it must."""

import asyncio

import pytest

from agent_core.engine import Engine
from agent_core.errors import RunError
from agent_core.sessions.in_memory import InMemoryStore
from app import health as module
from app.health import Health


class Patient(InMemoryStore):
    def __init__(self, failure: Exception | None = None) -> None:
        super().__init__()
        self.failure = failure
        self.asked = 0

    async def check(self) -> None:
        self.asked += 1
        if self.failure is not None:
            raise self.failure


async def test_many_who_ask_at_once_are_one_question() -> None:
    store = Patient()
    health = Health(Engine(store=store))
    await asyncio.gather(*(health.check() for _ in range(20)))
    assert store.asked == 1


@pytest.mark.parametrize("failure", [RunError("store_unavailable"), OSError("secret path")])
async def test_a_store_that_fails_is_told_and_so_is_its_recovery(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FRESH", -1.0)
    store = Patient(failure)
    health = Health(Engine(store=store))
    with pytest.raises(RunError, match="store_unavailable") as caught:
        await health.check()
    assert "secret" not in str(caught.value)
    store.failure = None
    await health.check()


async def test_a_store_that_is_silent_counts_as_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.01)

    class Silent(InMemoryStore):
        async def check(self) -> None:
            await asyncio.Event().wait()

    with pytest.raises(RunError, match="store_unavailable"):
        await Health(Engine(store=Silent())).check()

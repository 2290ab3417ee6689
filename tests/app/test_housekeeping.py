"""Sessions that are too old or too many are deleted, and none that somebody works in."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from agent_core import Agent, Engine, InMemoryStore, Message, stored_sessions
from agent_core.errors import RunError
from agent_core.sessions import in_memory
from agent_core.sessions.entries import now_ms
from agent_core.sessions.records import InMemoryRecords
from app import housekeeping as module
from app.housekeeping import DAY_MS, Housekeeping
from app.settings import Settings
from tests.doubles import ScriptedModel, events_of, says

AGENT = Agent("a", ScriptedModel([says("hi")]))


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with Engine(store=InMemoryStore()) as made:
        yield made


async def begin(engine: Engine, monkeypatch: pytest.MonkeyPatch, session_id: str, at: int, user_id: str = "u") -> None:
    with monkeypatch.context() as patch:
        patch.setattr(in_memory, "now_ms", lambda: at)
        said = Message(id="m", role="user", content="hello")
        await engine.observe(AGENT, [said], user_id=user_id, session_id=session_id)


async def left(engine: Engine, user_id: str = "u") -> list[str]:
    return [each.session_id for each in (await engine.store.page(user_id, 200)).sessions]


async def test_sessions_that_were_not_written_to_for_days_are_deleted(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = now_ms()
    for days in range(5):
        await begin(engine, monkeypatch, f"s{days}", now - days * DAY_MS - 1000)
    assert await Housekeeping(engine, Settings(session_days=2.5), lambda *_: None).round() == 2
    assert await left(engine) == ["s0", "s1", "s2"]


async def test_of_each_user_only_so_many_are_kept(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        await begin(engine, monkeypatch, f"s{number}", 1000 + number)
    await begin(engine, monkeypatch, "other", 1, user_id="v")
    assert await Housekeeping(engine, Settings(max_sessions=2), lambda *_: None).round() == 3
    assert (await left(engine), await left(engine, "v")) == (["s4", "s3"], ["other"])


async def test_many_sessions_are_deleted_in_one_round(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_sessions, "BATCH", 3)
    for number in range(10):
        await begin(engine, monkeypatch, f"s{number}", 1000 + number)
    assert await Housekeeping(engine, Settings(session_days=1), lambda *_: None).round() == 10
    assert len(engine.gate) == 0


async def test_a_session_with_a_run_under_way_is_passed_over(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    await begin(engine, monkeypatch, "s", 1000)
    await begin(engine, monkeypatch, "idle", 1001)
    model = ScriptedModel([[asyncio.Event()]])
    running = asyncio.create_task(events_of(engine, Agent("a", model), "go"))
    await model.streaming.wait()
    monkeypatch.setattr(in_memory, "now_ms", lambda: 1002)
    assert await Housekeeping(engine, Settings(max_sessions=1, session_days=1), lambda *_: None).round() == 1
    assert await left(engine) == ["s"]
    await engine.interrupt(user_id="u", session_id="s")
    await running


async def test_a_session_that_is_written_to_in_between_is_kept(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    await begin(engine, monkeypatch, "s", 1000)
    find = engine.store.find

    async def find_and_be_late(key):  # type: ignore[no-untyped-def]
        info = await find(key)
        said = Message(id="new", role="user", content="still here")
        await engine.observe(AGENT, [said], user_id="u", session_id="s")
        return info

    monkeypatch.setattr(engine.store, "find", find_and_be_late)
    assert await Housekeeping(engine, Settings(session_days=1), lambda *_: None).round() == 0
    assert await left(engine) == ["s"]


async def test_a_store_that_fails_is_tried_again_in_the_next_round(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST", 0.0)
    monkeypatch.setattr(module, "EVERY", 0.0)
    await begin(engine, monkeypatch, "s", 1000)
    expired, tries = engine.store.expired, 0
    done = asyncio.Event()

    async def fail_once(**options):  # type: ignore[no-untyped-def]
        nonlocal tries
        tries += 1
        if tries == 1:
            raise RunError("store_unavailable")
        found = await expired(**options)
        if not found:
            done.set()
        return found

    monkeypatch.setattr(engine.store, "expired", fail_once)
    keeping = Housekeeping(engine, Settings(session_days=1), lambda *_: None)
    keeping.start()
    await done.wait()
    await keeping.aclose()
    assert await left(engine) == []


async def test_without_a_setting_no_session_is_deleted(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    await begin(engine, monkeypatch, "s", 1000)
    assert await Housekeeping(engine, Settings(), lambda *_: None).round() == 0
    assert await left(engine) == ["s"]


async def test_records_that_are_over_their_time_are_deleted_whatever_the_settings_say(engine: Engine) -> None:
    records = engine.store.records
    await records.keep("u", "old", b"x", seconds=-1)
    await records.keep("u", "new", b"x", seconds=60)
    await Housekeeping(engine, Settings(), lambda *_: None).round()
    assert isinstance(records, InMemoryRecords)
    assert [name for _, name in records._kept] == ["new"]

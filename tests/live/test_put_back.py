"""A database that was put back under a running anchor, and everything that a client can ask of its sessions."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_core import Agent, Engine, RunError, open_store
from app.settings import Settings
from tests.app.doubles import Running
from tests.doubles import ScriptedModel, says
from tests.serving import run, run_input, serving, text_of

DATABASE = ("sessions.db", "sessions.db-wal", "sessions.db-shm")
SAID = {"messages": [{"id": "o1", "role": "user", "content": "seen"}]}
DENIED = {"interruptId": "i", "status": "cancelled"}
ASKED = {"model": "a", "messages": [{"role": "user", "content": "hi"}]}


@asynccontextmanager
async def served(data: Path) -> AsyncIterator[Running]:
    """Its one agent counts the answers that it has given."""
    agent = Agent("a", ScriptedModel([lambda request: says(f"answer {len(request.messages) // 2}")]))
    async with serving(agent, settings=Settings(store="sqlite", data_dir=data)) as up:
        yield up


def copy_database(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for name in DATABASE:
        (target / name).unlink(missing_ok=True)
        if (source / name).exists():
            shutil.copy(source / name, target / name)


@pytest.fixture
async def data(tmp_path: Path) -> Path:
    """Session `lost` has one run in the database and the anchor has seen two; `kept` is as it was."""
    data = tmp_path / "data"
    async with served(data) as up:
        await run(up.url, run_input("one", thread="lost"))
        await run(up.url, run_input("one", thread="kept"))
    copy_database(data, tmp_path / "old")
    async with served(data) as up:
        await run(up.url, run_input("two", thread="lost", runId="r2"))
    copy_database(tmp_path / "old", data)
    return data


WAYS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a run": ("POST", "/agui", {"json": run_input("three", thread="lost")}),
    "a run again": ("POST", "/agui", {"json": run_input("two", thread="lost", runId="r2")}),
    "a run of the old dialect": (
        "POST",
        "/agui",
        {"json": {k: v for k, v in run_input("three", thread="lost").items() if k != "protocolVersion"}},
    ),
    "an answer to an approval": ("POST", "/agui", {"json": run_input(thread="lost", resume=[DENIED])}),
    "an answer over its own route": ("POST", "/sessions/lost/resume", {"json": {"answers": [DENIED]}}),
    "what waits for an answer": ("GET", "/sessions/lost/interrupts", {}),
    "a chat": ("POST", "/v1/chat/completions", {"json": ASKED}),
    "a streamed chat": ("POST", "/v1/chat/completions", {"json": ASKED | {"stream": True}}),
    "observe": ("POST", "/sessions/lost/observe", {"json": SAID}),
    "rename": ("PATCH", "/sessions/lost", {"json": {"title": "New"}}),
    "delete": ("DELETE", "/sessions/lost", {}),
    "fork": ("POST", "/sessions/lost/fork", {"json": {"messageId": "m", "sessionId": "new"}}),
    "export": ("GET", "/sessions/lost/export", {}),
    "messages": ("GET", "/sessions/lost/messages", {}),
    "the session": ("GET", "/sessions/lost", {}),
    "a stream picked up again": ("GET", "/sessions/lost/runs/r2/events", {}),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_session_that_lost_entries_is_refused_whatever_is_asked(data: Path, way: str) -> None:
    method, path, rest = WAYS[way]
    headers = {"x-session-id": "lost"} if path.startswith("/v1") else {}
    async with served(data) as up, httpx.AsyncClient(base_url=up.url, timeout=20) as http:
        for _ in range(3):  # as many as would be needed to catch up with what was lost
            response = await http.request(method, path, headers=headers, **rest)
            assert (response.status_code, response.json()["error"]["code"]) == (503, "store_unavailable")
            assert response.json()["error"]["message"].startswith("The store has lost what was written to this session")
        titles = {each["id"]: each["title"] for each in (await http.get("/sessions")).json()["sessions"]}
        assert titles == {"lost": "one", "kept": "one"}
        assert (await http.get("/readyz")).status_code == 200
        assert text_of(await run(up.url, run_input("two", thread="kept"))) == "answer 1"
        assert text_of(await run(up.url, run_input("one", thread="other"))) == "answer 0"


async def test_an_import_does_not_write_to_it_either(data: Path) -> None:
    async with served(data) as up, httpx.AsyncClient(base_url=up.url, timeout=20) as http:
        lines = (await http.get("/sessions/kept/export")).content
        kind = {"content-type": "application/x-ndjson"}
        response = await http.post("/sessions/lost/import", content=lines, headers=kind)
        assert response.status_code == 409
        assert (await http.post("/sessions/copy/import", content=lines, headers=kind)).status_code == 201


async def test_the_library_refuses_it_in_the_same_way(data: Path) -> None:
    agent = Agent("a", ScriptedModel([says("hello")]))
    store = await open_store("sqlite", data, lease_seconds=30)
    async with Engine(store=store) as engine:
        lost, kept = engine.session("local", "lost"), engine.session("local", "kept")
        snapshot = await kept.snapshot()
        for attempt in (lost.call(agent, "hi"), lost.snapshot(), lost.restore(snapshot), lost.observe(agent, [])):
            with pytest.raises(RunError) as caught:
                await attempt
            assert caught.value.code == "store_unavailable"
        answer = (await kept.call(agent, "hi")).message
        assert answer is not None
        assert answer.text == "hello"


@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_a_server_on_another_database_than_before_is_not_ready(data: Path, tmp_path: Path, how: str) -> None:
    if how == "replaced":
        (tmp_path / "strange").mkdir()
        shutil.copy(data / "journal.key", tmp_path / "strange" / "journal.key")
        async with served(tmp_path / "strange") as up:
            await run(up.url, run_input("one", thread="lost"))
            await run(up.url, run_input("one", thread="kept"))
    copy_database(tmp_path / ("strange" if how == "replaced" else "nowhere"), data)
    async with served(data) as up, httpx.AsyncClient(base_url=up.url, timeout=20) as http:
        for thread in ("lost", "kept", "new"):
            response = await http.post("/agui", json=run_input("hi", thread=thread))
            assert (response.status_code, response.json()["error"]["code"]) == (503, "store_unavailable")
        ways = [*WAYS.values(), ("GET", "/sessions", {}), ("POST", "/sessions/lost/import", {})]
        for method, path, rest in sorted(ways, key=lambda way: way[0]):  # a run's own failure can be read again
            headers = {"x-session-id": "lost"} if path.startswith("/v1") else {}
            response = await http.request(method, path, headers=headers, **rest)
            assert (path, response.status_code) == (path, 503)
            assert response.json()["error"]["code"] == "store_unavailable"
        assert (await http.get("/readyz")).status_code == 503
        assert (await http.get("/healthz")).status_code == 200
    store = await open_store("sqlite", data, lease_seconds=30)
    async with Engine(store=store) as engine:
        with pytest.raises(RunError) as caught:
            await engine.session("local", "kept").snapshot()
        assert caught.value.code == "store_unavailable"

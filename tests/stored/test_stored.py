"""What earlier versions have stored is read, gone on with and verified."""

import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from agent_core.names import SessionKey
from agent_core.sessions.journal.anchor import ANCHOR_FILE
from agent_core.sessions.sql.database_file import DATABASE
from agent_core.sessions.sql.offline import verify_database
from app.settings import Settings
from tests.app.doubles import Running
from tests.doubles import says
from tests.serving import Frame, run, run_input, serving, text_of
from tests.stored.make import agent

HERE = Path(__file__).parent
VERSIONS = sorted(path.name for path in HERE.iterdir() if (path / DATABASE).exists())


@pytest.fixture(params=VERSIONS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of what the version has stored."""
    folder = tmp_path / "data"
    shutil.copytree(HERE / request.param, folder)
    for path in (folder, *folder.iterdir()):
        path.chmod(0o700 if path is folder else 0o600)  # git keeps no modes
    return folder


@asynccontextmanager
async def served(folder: Path, *steps: Any) -> AsyncIterator[tuple[Running, httpx.AsyncClient]]:
    """A server of this version on it, with the agent that it knows."""
    async with (
        serving(agent(*steps), settings=Settings(store="sqlite", data_dir=folder)) as up,
        httpx.AsyncClient(base_url=up.url) as http,
    ):
        yield up, http


def asking(text: str, thread: str) -> Frame:
    """A message under an id that was never there."""
    return run_input(messages=[{"id": "another", "role": "user", "content": text}], thread=thread)


LINES = {"content-type": "application/jsonl"}


def entries_in(export: bytes) -> list[Any]:
    return [orjson.loads(line) for line in export.splitlines()[1:]]


def shown(messages: list[dict[str, Any]]) -> list[str]:
    return [f"{each['role']}: {each.get('content', '')}" for each in messages]


TALK = [
    "user: How many people live in Paris?",
    "assistant: ",
    "tool: Paris has 2100000",
    "assistant: Two million.",
    "user: Say it in a rhyme",
    "assistant: Better.",
]


async def messages_of(http: httpx.AsyncClient, session: str) -> list[str]:
    return shown((await http.get(f"/sessions/{session}/messages")).json()["messages"])


async def test_its_sessions_are_read_with_their_rewinds_state_and_forks(stored: Path) -> None:
    async with served(stored, says("never")) as (_, http):
        listed = (await http.get("/sessions")).json()["sessions"]
        assert sorted(each["id"] for each in listed) == ["forked", "named", "t1", "waits"]
        for session in ("t1", "forked"):
            assert await messages_of(http, session) == TALK
            assert (await http.get(f"/sessions/{session}")).json()["state"] == {"unit": "people", "looked_up": "Paris"}


async def test_it_is_exported_as_it_was_then_and_that_export_comes_in_again(stored: Path) -> None:
    then = (stored / "t1.jsonl").read_bytes()
    async with served(stored, says("never")) as (_, http):
        now = (await http.get("/sessions/t1/export")).content
        assert [orjson.loads(line) for line in now.splitlines()[1:]] == [
            orjson.loads(line) for line in then.splitlines()[1:]
        ]
        brought = await http.post(
            "/sessions/brought/import", content=then, headers={"content-type": "application/jsonl"}
        )
        assert brought.status_code < 300, brought.text
        assert await messages_of(http, "brought") == TALK


async def test_the_approval_that_waits_is_given_and_its_run_goes_on(stored: Path) -> None:
    async with served(stored, says("Sent.")) as (_, http):
        [interrupt] = (await http.get("/sessions/waits/interrupts")).json()["interrupts"]
        answers = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
        told = await http.post("/sessions/waits/resume", json={"answers": answers})
        assert (told.json()["status"], told.json()["message"]["content"]) == ("completed", "Sent.")
        assert (await messages_of(http, "waits"))[2:] == [
            "tool: Rome has 2100000",
            "tool: sent to ann",
            "assistant: Sent.",
        ]


async def test_its_fork_goes_on(stored: Path) -> None:
    async with served(stored, says("Three.")) as (up, http):
        assert text_of(await run(up.url, asking("And Rome?", "forked"))) == "Three."
        assert await messages_of(http, "forked") == [*TALK, "user: And Rome?", "assistant: Three."]


async def test_a_request_that_was_answered_then_finds_its_answer_by_its_message(stored: Path) -> None:
    """Its claim stood in the id of its message, and not with its run."""
    async with served(stored, says("never")) as (up, _):
        find = up.server.app.state.services.engine.sessions.earlier
        key = SessionKey(user_id="local", session_id="named")
        claim = {"key_claim": "key_6ab9f1eb8f7d3388", "claim": "key_6ab9f1eb8f7d3388_9db7baef0570fbd1"}
        found = await find(key, "a", seconds=1e10, **claim)
        assert found.same
        assert "Yes, I am." in str(found.answer.events)
        assert not (await find(key, "a", seconds=1e10, **claim | {"claim": "key_6ab9f1eb8f7d3388_0"})).same
        assert await find(key, "a", seconds=0, **claim) is None


def verified(folder: Path) -> list[str]:
    return [str(each) for each in verify_database("sqlite", folder, [folder / ANCHOR_FILE]).findings]


async def test_its_journal_is_whole_before_and_after_this_version_has_written_to_it(stored: Path) -> None:
    assert verified(stored) == []
    async with served(stored, says("More.")) as (up, _):
        for session in ("t1", "waits", "named"):
            assert text_of(await run(up.url, asking("Go on", session))) == "More."
    assert verified(stored) == []
    with sqlite3.connect(stored / DATABASE) as conn:
        conn.execute("UPDATE entries SET body = '{}' WHERE seq = 2")
    conn.close()
    assert len(verified(stored)) == 4

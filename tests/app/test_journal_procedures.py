"""The commands of docs/journal.md, as they stand there, in a shell."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_core.names import SessionKey
from agent_core.sessions.journal.anchor import ANCHOR_FILE
from agent_core.sessions.storage import open_store
from agent_core.sessions.store import SessionPutBack, Store
from tests.app.command.test_cli import environment
from tests.entries import end_entry, run_entry
from tests.missing import skip_without
from tests.postgres import PostgresServer, postgres_server, postgres_url

__all__ = ["postgres_url"]

PAGE = Path(__file__).parents[2] / "docs" / "journal.md"
KEY = "a key for the journal of the tests"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def said(words: str) -> str:
    """The words, which must stand on the page as code."""
    assert f"`{words}`" in PAGE.read_text().replace("\n  ", " "), words
    return words


def shell(script: str, folder: Path, **variables: str) -> tuple[int, str]:
    """Run it with `ostinato` on the path: its exit code, and what it said."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-ec", script],
        cwd=folder,
        env=environment(PATH=path, **variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


@asynccontextmanager
async def opened(data: Path, where: str = "sqlite") -> AsyncIterator[Store]:
    store = await open_store(where, data, lease_seconds=30, journal_key=KEY if where != "sqlite" else None)
    try:
        yield store
    finally:
        await store.aclose()


async def write(store: Store, *names: str) -> None:
    """A run of two entries in each session."""
    for name in names:
        lease = await store.acquire(SessionKey(user_id="local", session_id=name), "w")
        assert lease is not None
        await store.append(lease, [run_entry("r", "a"), end_entry("r", "completed")], release=True)


async def refused(store: Store, name: str) -> None:
    with pytest.raises(SessionPutBack):
        await store.acquire(SessionKey(user_id="local", session_id=name), "w")


def copy(source: Path, target: Path, names: Sequence[str]) -> None:
    target.mkdir(exist_ok=True)
    for name in names:
        if (source / name).exists():
            shutil.copy(source / name, target / name)


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A folder with data of the server in `.ostinato`: two sessions."""
    async with opened(tmp_path / ".ostinato") as store:
        await write(store, "t1", "t2")
    return tmp_path


async def test_the_first_command_says_what_the_page_says_that_it_says(folder: Path) -> None:
    command, answer = blocks("console")[0].splitlines()
    code, out = shell(command.removeprefix("$ "), folder)
    assert (code, out) == (0, "4 entries of 2 sessions, 0 deleted: the journal is whole.\n")
    assert re.sub(r"[0-9][0-9 ]*(?= )", "N", out.strip()) == re.sub(r"[0-9][0-9 ]*(?= )", "N", answer)


async def test_a_server_that_is_running_is_left_alone(folder: Path) -> None:
    async with opened(folder / ".ostinato"):
        for verb in ("verify", "accept"):
            code, out = shell(f"ostinato sessions {verb}", folder)
            assert code == 2
            assert out.startswith("Error: A server is using")


async def test_a_key_is_made_as_the_page_says(tmp_path: Path) -> None:
    skip_without(shutil.which("openssl") is not None, "openssl is not installed")
    code, out = shell(said("openssl rand -hex 32"), tmp_path)
    assert code == 0
    key = out.strip()
    await (await open_store("sqlite", tmp_path / ".ostinato", lease_seconds=30, journal_key=key)).aclose()
    assert shell("ostinato sessions verify", tmp_path, OSTINATO_JOURNAL_KEY=key)[0] == 0
    assert shell("ostinato sessions verify", tmp_path, OSTINATO_JOURNAL_KEY=key[:-1])[0] == 2


@pytest.mark.parametrize(
    ("tool", "words", "rest"),
    [
        ("cp", "cp --sparse=always", ".ostinato/journal.anchor elsewhere/"),
        ("rsync", "rsync --sparse", ".ostinato/journal.anchor elsewhere/"),
        ("tar", "tar --sparse", "-cf - -C .ostinato journal.anchor | tar -xf - -C elsewhere"),
    ],
)
async def test_an_anchor_is_copied_and_verified_with(folder: Path, tool: str, words: str, rest: str) -> None:
    skip_without(shutil.which(tool) is not None, f"{tool} is not installed")
    (folder / "elsewhere").mkdir()
    assert shell(f"{said(words)} {rest}", folder) == (0, "")
    assert (folder / "elsewhere" / ANCHOR_FILE).read_bytes() == (folder / ".ostinato" / ANCHOR_FILE).read_bytes()
    command = said("ostinato sessions verify --anchor /elsewhere/journal.anchor").replace("/elsewhere", "elsewhere")
    assert shell(command, folder)[0] == 0
    (folder / ".ostinato" / ANCHOR_FILE).unlink()
    assert shell(command, folder)[0] == 0
    assert shell("ostinato sessions verify", folder)[0] == 2


async def test_an_anchor_may_be_a_link_to_another_volume(folder: Path) -> None:
    (folder / "volume").mkdir()
    anchor = folder / ".ostinato" / ANCHOR_FILE
    anchor.rename(folder / "volume" / "anchor")
    anchor.symlink_to(folder / "volume" / "anchor")
    async with opened(folder / ".ostinato") as store:
        await write(store, "t1", "t3")
    assert anchor.is_symlink()
    assert shell("ostinato sessions verify --anchor volume/anchor", folder)[0] == 0


def restore_script() -> str:
    [script] = [each for each in blocks("sh") if "ostinato sessions accept" in each]
    return script


@pytest.mark.parametrize("how", ["a copy of the stopped server's folder", "a snapshot of a running one"])
async def test_a_backup_is_restored_as_the_page_says(folder: Path, how: str) -> None:
    data, backup = folder / ".ostinato", folder / "backup"
    names = ("journal.anchor", "sessions.db", "sessions.db-wal")
    if how.startswith("a copy"):
        copy(data, backup, names)
    async with opened(data) as store:
        await write(store, "t1")
        if how.startswith("a snapshot"):
            copy(data, backup, names)
            assert (backup / "sessions.db-wal").stat().st_size
        await write(store, "t1", "t1", "t4")
    by_hand = restore_script().partition("ostinato sessions accept")[0]
    assert shell(by_hand, folder) == (0, "")
    code, out = shell("ostinato sessions verify", folder)
    assert (code, out.count("local/t1: entry ")) == (1, 1), out
    async with opened(data) as store:  # who forgets it
        await refused(store, "t1")
        await write(store, "t2")
    shutil.copy(data / ANCHOR_FILE, folder / "before")
    code, out = shell(restore_script(), folder)
    assert code == 0, out
    assert out.endswith("the journal is whole.\n")
    assert "session number 3: the session was removed" in out
    async with opened(data) as store:
        await write(store, "t1", "t2", "t4")
    assert shell("ostinato sessions verify", folder)[0] == 0
    [kept] = data.glob("journal.anchor.*")
    assert said("ostinato sessions verify --anchor .ostinato/journal.anchor.…")
    code, out = shell(f"ostinato sessions verify --anchor .ostinato/{kept.name}", folder)
    assert code == 1
    assert kept.read_bytes() == (folder / "before").read_bytes()
    assert said(f"{kept.name[:15]}") == "journal.anchor."


async def test_taking_the_anchor_away_by_hand_does_the_same(folder: Path) -> None:
    data, backup = folder / ".ostinato", folder / "backup"
    copy(data, backup, ("sessions.db",))
    async with opened(data) as store:
        await write(store, "t1")
    copy(backup, data, ("sessions.db",))
    async with opened(data) as store:
        await refused(store, "t1")
    (data / ANCHOR_FILE).unlink()
    async with opened(data) as store:
        await write(store, "t1", "t2")
    assert shell("ostinato sessions verify", folder)[0] == 0


@pytest.fixture
def postgres(postgres_url: str) -> tuple[PostgresServer, str]:
    return postgres_server(), postgres_url.rpartition("/")[2]


async def test_a_postgresql_is_dumped_restored_and_accepted_for_each_server(
    tmp_path: Path, postgres: tuple[PostgresServer, str], postgres_url: str
) -> None:
    server, name = postgres
    one, two = tmp_path / "one", tmp_path / "two"
    async with opened(one, postgres_url) as store, opened(two, postgres_url) as other:
        await write(store, "t1", "t2")
        await write(other, "t3")
        backup = server.dump(name)
        await write(store, "t1", "t4")
        await write(other, "t3")
    server.sql(f"DROP DATABASE {name} WITH (FORCE)")
    server.sql(f"CREATE DATABASE {name}")
    server.restore(backup, name)
    async with opened(one, postgres_url) as store, opened(two, postgres_url) as other:
        await refused(store, "t1")
        await refused(other, "t3")
        await write(store, "t2", "t5")
        command = said("ostinato sessions accept --store postgresql://… --data-dir …")
        for data in (one, two):
            words = command.replace("postgresql://…", postgres_url).replace("--data-dir …", f"--data-dir {data}")
            code, out = shell(words, tmp_path, OSTINATO_JOURNAL_KEY=KEY)
            assert code == 0, out
            assert "is missing: the anchor has seen" in out
        await write(store, "t1", "t3", "t4")
        await write(other, "t1", "t3", "t4")
    both = f"ostinato sessions verify --store {postgres_url} --data-dir {one} --anchor {two}/journal.anchor"
    code, out = shell(both, tmp_path, OSTINATO_JOURNAL_KEY=KEY)
    assert code == 0, out


async def test_a_move_to_another_database_is_accepted(folder: Path, postgres_url: str) -> None:
    data = folder / ".ostinato"
    shutil.copy(data / "journal.key", folder / "key")
    variables = {"OSTINATO_STORE": postgres_url}
    assert shell("ostinato sessions accept", folder, **variables)[0] == 2, "there are no tables yet"
    await (await open_store(postgres_url, data, lease_seconds=30)).aclose()
    code, out = shell("ostinato sessions accept", folder, **variables)
    assert code == 0, out
    store = await open_store(postgres_url, data, lease_seconds=30)
    await write(store, "t1")
    await store.aclose()
    assert shell("ostinato sessions verify", folder, **variables)[0] == 0

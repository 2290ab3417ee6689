"""The store's door: opened once, verified and accepted by name, and light until a database is named."""

import subprocess
import sys
from pathlib import Path

import pytest

from agent_core.errors import StoreError
from agent_core.sessions.in_memory import InMemoryStore
from agent_core.sessions.storage import Storage


async def test_whoever_asks_first_opens_the_store_and_the_others_get_the_same(tmp_path: Path) -> None:
    storage = Storage("sqlite", tmp_path, lease_seconds=30)
    store = await storage.open()
    assert await storage.open() is store
    await store.aclose()
    storage.closed()
    again = await storage.open()
    assert again is not store
    await again.check()
    await again.aclose()


async def test_what_servers_wrote_is_verified_and_accepted_under_its_name(tmp_path: Path) -> None:
    storage = Storage("sqlite", tmp_path, lease_seconds=30)
    await (await storage.open()).aclose()
    assert storage.anchor.exists()
    assert storage.verify([storage.anchor]).whole
    accepted = storage.accept()
    assert accepted.database.whole
    assert not accepted.done, "the anchor agrees already"
    storage.anchor.unlink()
    assert storage.accept().done
    assert storage.anchor.exists()


async def test_a_store_in_memory_leaves_nothing_to_verify_or_accept(tmp_path: Path) -> None:
    storage = Storage("memory", tmp_path / "data", lease_seconds=30)
    assert isinstance(await storage.open(), InMemoryStore)
    for verb in (lambda: storage.verify([]), storage.accept):
        with pytest.raises(StoreError, match="there is nothing to verify"):
            verb()
    assert not storage.anchor.parent.exists()


def test_a_database_that_a_server_uses_is_not_read(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys; from pathlib import Path; from agent_core.sessions.storage import Storage\n"
        "async def main():\n"
        "    await Storage('sqlite', Path(sys.argv[1]), lease_seconds=30).open()\n"
        "    print('open', flush=True); sys.stdin.read()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "open\n"
        with pytest.raises(StoreError, match="A server is using"):
            Storage("sqlite", tmp_path, lease_seconds=30).verify([])
        server.kill()


def test_a_server_without_a_database_loads_none() -> None:
    code = (
        "import asyncio, sys, app.main; from app.settings import Settings\n"
        "asyncio.run(Settings(store='memory').storage().open())\n"
        "print(sorted({'sqlalchemy', 'asyncpg'} & set(sys.modules)))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"

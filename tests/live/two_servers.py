"""Two servers on one PostgreSQL database, each with a data directory of its own."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from sqlalchemy import text

from agent_core import Agent
from agent_core.sessions.sql.store import SqlStore
from agent_core.sessions.sql.work import Work
from app.services import Services
from app.settings import Settings
from tests.app.doubles import Running
from tests.postgres import fresh_database
from tests.serving import serving


@asynccontextmanager
async def pair(folder: Path, *agents: Agent, **settings: Any) -> AsyncIterator[tuple[Running, Running]]:
    with fresh_database() as url:
        async with AsyncExitStack() as stack:
            servers = [
                await stack.enter_async_context(
                    serving(
                        *agents,
                        settings=Settings(
                            store=url, data_dir=folder / name, journal_key=SecretStr("k" * 64), **settings
                        ),
                    )
                )
                for name in ("one", "two")
            ]
            yield servers[0], servers[1]


def services_of(up: Running) -> Services:
    services = up.server.app.state.services
    assert isinstance(services, Services)
    return services


async def sql(up: Running, statement: str, **values: Any) -> list[Any]:
    """What the server's database answers."""
    store = services_of(up).engine.store
    assert isinstance(store, SqlStore)

    def do(conn: Any) -> list[Any]:
        found = conn.execute(text(statement), values)
        return [tuple(row) for row in found.all()] if found.returns_rows else []

    return await store._backend.run(Work(do=do))


async def take_for_dead(up: Running) -> None:
    """Let the server's last heartbeat be long ago."""
    owner = services_of(up).engine._runner.owner
    await sql(up, "UPDATE workers SET expires_at = expires_at - 3000 WHERE owner = :owner", owner=owner)

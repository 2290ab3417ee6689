"""A database comes from any version to the newest, however many workers start at once."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, inspect, text

from agent_core.errors import RunError, StoreError
from agent_core.sessions.sql.migrations import MIGRATIONS, Migration, migrate
from agent_core.sessions.sql.postgres import PostgresBackend
from agent_core.sessions.sql.sqlite import SqliteBackend
from agent_core.sessions.sql.store import SqlStore
from agent_core.sessions.sql.tables import DatabaseClock, metadata
from agent_core.sessions.sql.work import Backend, Work
from agent_core.sessions.storage import open_store
from tests.postgres import fresh_database

SECOND = ("ALTER TABLE sessions ADD COLUMN colour TEXT", "CREATE TABLE extras (id {id}, data {bytes}, at {float})")


def third(conn: Connection) -> None:
    conn.execute(text("UPDATE sessions SET colour = 'red'"))


@pytest.fixture(params=["sqlite", "postgres"])
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    made: Backend
    if request.param == "sqlite":
        made = await SqliteBackend.open(tmp_path)
        yield made
        await made.aclose()
        return
    with fresh_database() as url:
        made = await PostgresBackend.open(url, lease_seconds=30)
        yield made
        await made.aclose()


async def bring(backend: Backend, *migrations: Migration) -> None:
    while await backend.run(Work(do=lambda conn: migrate(conn, migrations))):
        pass


async def ask(backend: Backend, statement: str) -> list[Any]:
    return await backend.run(Work(do=lambda conn: [tuple(row) for row in conn.execute(text(statement)).all()]))


async def version(backend: Backend) -> str:
    [(value,)] = await ask(backend, "SELECT value FROM meta WHERE name = 'schema_version'")
    return str(value)


async def test_the_migrations_make_the_tables_that_the_code_knows(backend: Backend) -> None:
    await bring(backend, *MIGRATIONS)

    def compare(conn: Connection) -> None:
        found = inspect(conn)
        assert set(found.get_table_names()) - {"sqlite_sequence"} == set(metadata.tables)
        for name, table in metadata.tables.items():
            columns = {each["name"]: each for each in found.get_columns(name)}
            assert list(columns) == [column.name for column in table.columns]
            for column in table.columns:
                wanted = column.type.compile(conn.dialect)
                assert columns[column.name]["type"].compile(conn.dialect) == wanted, f"{name}.{column.name}"
                assert columns[column.name]["nullable"] == column.nullable, f"{name}.{column.name}"
            keys = [column.name for column in table.primary_key]
            assert found.get_pk_constraint(name)["constrained_columns"] == keys
            indexes = {each["name"]: each["column_names"] for each in found.get_indexes(name)}
            for index in table.indexes:
                assert indexes[index.name] == [column.name for column in index.columns]

    await backend.run(Work(do=compare))


async def test_the_tables_that_never_use_a_number_again_are_those_that_the_code_knows(tmp_path: Path) -> None:
    backend = await SqliteBackend.open(tmp_path)
    await bring(backend, *MIGRATIONS)
    found = await ask(backend, "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'")
    known = [table.name for table in metadata.tables.values() if table.dialect_options["sqlite"]["autoincrement"]]
    assert [name for (name,) in found] == known == ["sessions"]
    await backend.aclose()


async def test_a_database_is_brought_from_version_to_version(backend: Backend) -> None:
    await bring(backend, MIGRATIONS[0])
    assert await version(backend) == "1"
    statement = """INSERT INTO sessions (user_id, session_id, fence, head, tip, title, created_at, updated_at)
                   VALUES ('u', 's', 1, 1, '', '', 1, 1) RETURNING id"""
    assert await ask(backend, statement) == [(1,)]
    await bring(backend, MIGRATIONS[0], SECOND, third)
    assert await version(backend) == "3"
    assert await ask(backend, "SELECT id, colour FROM sessions") == [(1, "red")]
    await bring(backend, MIGRATIONS[0], SECOND, third)
    assert await version(backend) == "3"


async def test_a_migration_that_fails_changes_nothing(backend: Backend) -> None:
    await bring(backend, MIGRATIONS[0])
    with pytest.raises(RunError):
        await bring(backend, MIGRATIONS[0], (*SECOND, "SELECT * FROM nothing"))
    assert await version(backend) == "1"
    await bring(backend, MIGRATIONS[0], SECOND)
    assert await version(backend) == "2"


async def test_a_database_that_is_newer_than_the_code_is_refused(backend: Backend) -> None:
    await bring(backend, MIGRATIONS[0], SECOND)
    with pytest.raises(StoreError, match=r"version 2 of the schema, and this Ostinato knows 1"):
        await bring(backend, MIGRATIONS[0])
    assert await version(backend) == "2"


async def test_workers_that_start_at_once_all_find_the_newest_version(backend: Backend) -> None:
    for wanted in ([MIGRATIONS[0]], [MIGRATIONS[0], SECOND, third]):
        await asyncio.gather(*(bring(backend, *wanted) for _ in range(8)))
        assert await version(backend) == str(len(wanted))


async def test_stores_that_are_opened_at_once_all_work(tmp_path: Path) -> None:
    with fresh_database() as url:
        stores = await asyncio.gather(*(open_store(url, tmp_path, lease_seconds=30) for _ in range(4)))
        for store in stores:
            await store.check()
            await store.aclose()


async def test_the_database_s_clock_counts_the_seconds_of_the_epoch(backend: Backend) -> None:
    def read(conn: Connection) -> tuple[Any, Any]:
        # The year alone: this is about the unit, and the clock is the database's.
        now = conn.execute(DatabaseClock().select()).scalar()
        year = "strftime('%Y', 'now')" if conn.dialect.name == "sqlite" else "extract(year FROM now())::text"
        return now, conn.execute(text(f"SELECT {year}")).scalar()

    now, year = await backend.run(Work(do=read))
    assert isinstance(now, float)
    assert abs(now / (365.2425 * 24 * 3600) - (int(year) - 1970 + 0.5)) < 0.6


async def test_a_store_is_opened_with_the_newest_version(tmp_path: Path) -> None:
    store = await open_store("sqlite", tmp_path, lease_seconds=30)
    assert isinstance(store, SqlStore)
    assert await version(store._backend) == str(len(MIGRATIONS))
    await store.aclose()

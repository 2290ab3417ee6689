"""PostgreSQL as a backend, through asyncpg. Each piece of work is one transaction on a connection of a small pool.

A URL may hold libpq's parameters (`?sslmode=require` and so on); asyncpg reads them. Add `?pgbouncer=true` for a
PgBouncer that gives out a connection for each transaction. Then no statement stays prepared and no setting stays on a
connection. The time limits are set in each transaction, which costs a round trip.

Deleted rows stay in PostgreSQL's files until it has vacuumed them. They also stay in its backups.
"""

import asyncio
import uuid
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from sqlalchemy import Connection, event, func, select, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from agent_core.errors import RunError, StoreError
from agent_core.sessions.sql.failures import error_of_driver, unavailable
from agent_core.sessions.sql.work import Work, look

CONNECT = 5.0
"""Seconds to connect, and to wait for a connection of the pool."""

STATEMENT = 8.0
"""Seconds for one statement."""

PATIENCE = 9.5
"""Seconds for one piece of work in all, also if the network hangs."""

POOL = 5
"""Connections that the pool keeps. It opens as many again when it is busy."""

_OURS = frozenset({"pgbouncer", "channel_binding", "connect_timeout", "prepared_statement_cache_size"})
_GONE = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"})  # the server ended the connection
_CONFLICTS = frozenset({"40001", "40P01"})
_LOCK_TIMEOUT = "55P03"

# A worker may stop between two messages of one statement. It keeps its locks then, and PostgreSQL does not count it as
# idle, so none of the time limits ends its transaction.
_END_SILENT = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    " AND datname = current_database() AND usename = current_user"
    " AND application_name = current_setting('application_name') AND state = 'active' AND wait_event = 'ClientRead'"
    " AND state_change < clock_timestamp() - CAST(current_setting('lock_timeout') AS interval)"
)

T = TypeVar("T")


class PostgresBackend:
    """A database. Make it with `open`."""

    def __init__(self, engine: AsyncEngine, failures: tuple[type[Exception], ...], limits: dict[str, str]) -> None:
        self._engine = engine
        self._failures = failures
        self._limits = limits  # set in each transaction
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False
        event.listen(engine.sync_engine, "handle_error", _see_lost_connections)

    @classmethod
    async def open(cls, url: str, *, lease_seconds: float) -> "PostgresBackend":
        """Connect. Raises StoreError with one sentence. It does not hold the URL, which may have a password."""
        try:
            import asyncpg
        except ImportError:
            raise StoreError('PostgreSQL needs its driver: pip install "ostinato[postgres]".') from None
        dsn, query = read_url(url)
        limits = _limits(lease_seconds)
        pooled = _is_pooled(query)
        settings = {} if pooled else limits
        if "application_name" not in query:
            settings = {**settings, "application_name": "ostinato"}

        async def connect(**options: Any) -> Any:
            return await asyncpg.connect(
                dsn, timeout=CONNECT, command_timeout=STATEMENT, server_settings=settings, **options
            )

        engine = _make_engine(connect, pooled=pooled)
        failures = (SQLAlchemyError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError)
        backend = cls(engine, failures, limits if pooled else {})
        try:
            await backend.run(Work(do=look))
        except BaseException as error:
            await backend.aclose()
            if isinstance(error, RunError):
                raise StoreError(f"The PostgreSQL database cannot be used ({error.detail}).") from None
            if isinstance(error, ValueError):  # asyncpg's, about a port or a host
                raise StoreError("The PostgreSQL URL cannot be read.") from None
            raise
        return backend

    async def run(self, work: Work[T]) -> T:
        if self._closed:
            raise RunError("store_unavailable", detail="the store is closed")
        task = asyncio.get_running_loop().create_task(self._carry_out(work))
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """Wait for the work that has begun, and close the connections. Idempotent."""
        self._closed = True
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._engine.dispose()

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the caller has it, or nobody waits; asyncio must not report it as never retrieved

    async def _carry_out(self, work: Work[T]) -> T:
        try:
            async with asyncio.timeout(PATIENCE):
                try:
                    result = await self._once(work)
                except DBAPIError as error:
                    # Do it again after a conflict, and after a lost connection: if the server was restarted, the pool
                    # has thrown its old connections away by now.
                    state = _sqlstate(error)
                    if not (error.connection_invalidated or state in _CONFLICTS or state == _LOCK_TIMEOUT):
                        raise
                    if state == _LOCK_TIMEOUT:
                        await self._once(Work(do=lambda conn: conn.execute(_END_SILENT)))
                    result = await self._once(work)
        except self._failures as error:
            raise unavailable(error) from None
        work.done(result)
        return result

    async def _once(self, work: Work[T]) -> T:
        async with self._engine.begin() as conn:
            return await conn.run_sync(self._do, work)

    def _do(self, conn: Connection, work: Work[T]) -> T:
        if self._limits:
            conn.execute(select(*(func.set_config(name, value, True) for name, value in self._limits.items())))
        return work.do(conn)


def _make_engine(connect: Any, *, pooled: bool) -> AsyncEngine:
    arguments: dict[str, Any] = {"async_creator_fn": connect}
    if pooled:
        arguments |= {
            "statement_cache_size": 0,
            "prepared_statement_cache_size": 0,
            "prepared_statement_name_func": lambda: f"ostinato_{uuid.uuid4().hex}",
        }
        return create_async_engine(
            "postgresql+asyncpg://", connect_args=arguments, poolclass=NullPool, hide_parameters=True
        )
    return create_async_engine(
        "postgresql+asyncpg://",
        connect_args=arguments,
        pool_size=POOL,
        max_overflow=POOL,
        pool_timeout=CONNECT,
        hide_parameters=True,
    )


def _limits(lease_seconds: float) -> dict[str, str]:
    """Settings of PostgreSQL, in milliseconds. If a worker stops within a transaction, its successor must not wait for
    it once its lease is over."""
    third = max(1000, int(lease_seconds * 1000 / 3))
    return {
        "statement_timeout": str(int(STATEMENT * 1000)),
        "lock_timeout": str(min(third, 5000)),
        "idle_in_transaction_session_timeout": str(min(third, 8000)),
    }


def _is_pooled(query: dict[str, str]) -> bool:
    """Whether a PgBouncer stands before the database that gives out a connection for each transaction."""
    return query.get("pgbouncer", "").lower() in ("true", "1", "yes", "on")


def read_url(url: str) -> tuple[str, dict[str, str]]:
    """The URL as asyncpg takes it, and its parameters. Any scheme will do. Raises StoreError."""
    try:
        parts = urlsplit(f"postgresql://{url.partition('://')[2]}")
    except ValueError:
        raise StoreError("The PostgreSQL URL cannot be read.") from None
    query = dict(parse_qsl(parts.query))
    passed = {"sslmode" if name == "ssl" else name: value for name, value in query.items() if name not in _OURS}
    return urlunsplit(parts._replace(query=urlencode(passed), fragment="")), query


def _sqlstate(error: BaseException) -> str | None:
    return getattr(error_of_driver(error), "sqlstate", None)


def _see_lost_connections(context: Any) -> None:
    """Mark the connection as lost after errors that end it. SQLAlchemy would see that only when the socket closes."""
    state = getattr(context.original_exception, "sqlstate", None) or ""
    if state in _GONE or state.startswith("08"):
        context.is_disconnect = True

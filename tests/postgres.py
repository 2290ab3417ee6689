"""A PostgreSQL server for tests: one for each run of the tests, with a fresh database for each test.

    with fresh_database() as url: ...           or the fixture `postgres_url`

It listens on loopback only and forgets all with the tests. As root it is started as another user, since
PostgreSQL refuses root. Where it is not installed the test is skipped (see `missing.py`).
"""

import atexit
import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.missing import skip_without

_numbers = itertools.count(1)


class PostgresServer:
    """A running server. Its only user is `postgres`, who needs no password."""

    def __init__(self, tools: Path) -> None:
        self._tools = tools
        self._folder = Path(tempfile.mkdtemp(prefix="ostinato-postgres-"))
        self._user = _unprivileged()
        if self._user:
            account = pwd.getpwnam(self._user["user"])
            os.chown(self._folder, account.pw_uid, account.pw_gid)
        self.port = _free_port()
        self._run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D", self._data)
        self.start()

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Carry the statement out; what it answered, one row a line, columns parted by `|`."""
        options = ("-X", "-A", "-t", "-q", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres")
        return self._run("psql", *options, "-d", database, "-c", statement).strip()

    def dump(self, database: str) -> Path:
        """A file with what `pg_dump` says of the database."""
        path = self._folder / f"{database}.sql"
        self._run("pg_dump", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-f", str(path), database)
        return path

    def restore(self, path: Path, database: str) -> None:
        """Carry out a dump, in an empty database."""
        options = ("-X", "-q", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-v", "ON_ERROR_STOP=1")
        self._run("psql", *options, "-d", database, "-f", str(path))

    def start(self) -> None:
        """Returns when it answers."""
        settings = (
            f"-c port={self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''"
            " -c fsync=off -c full_page_writes=off -c max_connections=60"
        )
        log = str(self._folder / "log")
        self._run("pg_ctl", "start", "-w", "-s", "-D", self._data, "-l", log, "-o", settings)

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "stop", "-w", "-s", "-m", mode, "-D", self._data)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, tool: str, *arguments: str) -> str:
        # To a file, and not to a pipe: the server inherits it and would keep a reader waiting.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                [self._tools / tool, *arguments],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                **self._user,
            )
            output.seek(0)
            said = output.read().decode()
        assert done.returncode == 0, f"{tool} failed: {said}"
        return said


@cache
def postgres_server() -> PostgresServer:
    """The server, which lives until the tests end."""
    tools = _find_tools()
    assert tools is not None
    server = PostgresServer(tools)
    atexit.register(server.remove)
    return server


@contextmanager
def fresh_database() -> Iterator[str]:
    """The URL of an empty database. Skips the test where there is no PostgreSQL."""
    skip_without(_find_tools() is not None, "PostgreSQL is not installed")
    server, name = postgres_server(), f"test_{next(_numbers)}"
    server.sql(f"CREATE DATABASE {name}")
    try:
        yield server.url(name)
    finally:
        server.sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """The URL of an empty database."""
    with fresh_database() as url:
        yield url


@cache
def _find_tools() -> Path | None:
    """The folder with PostgreSQL's programs, the newest first; distributions keep them out of the path."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return max(found, key=lambda each: int(each.parent.name), default=None)


def _unprivileged() -> dict[str, Any]:
    """How root starts a program as somebody else; nothing for others."""
    if os.geteuid() != 0:
        return {}
    names = {account.pw_name for account in pwd.getpwall()}
    account = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return {"user": account.pw_name, "group": account.pw_gid, "extra_groups": []}


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port

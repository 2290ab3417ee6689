"""docs/reliability.md, from what was measured."""

import os
import platform
import sqlite3
from collections.abc import Sequence
from datetime import date

import pytest

from bench.accept.checks import Check, Figure
from tests.postgres import fresh_database, postgres_server


def page(results: Sequence[tuple[Check, Figure]]) -> str:
    rows = "\n".join(
        f"| {check.what} | {check.how} | {figure.measured} | {check.limit} | {'yes' if figure.passed else '**no**'} |"
        for check, figure in results
    )
    return f"""\
# Reliability

Written by `make accept` on {date.today().isoformat()}: {machine()}. Do not edit by hand.

Each row is tried against the real server, as a process of its own; several of them where the row says so.

| what | how | measured | limit | passed |
|---|---|---|---|---|
{rows}

What "acknowledged" means: the user's message with RUN_STARTED (a run that waits for its session: with the frame after
it), a call and its result with TOOL_CALL_RESULT, all of a run with its terminal event.

`make test` runs shortened forms of all but the first three rows (`tests/faults/`, `tests/live/`), with the same
drivers; they assert what does not depend on time. `make accept ONLY=kills,cuts` runs some rows without writing this
page.
"""


def machine() -> str:
    """What it ran on, and no more than that."""
    postgres = _postgres_version()
    return (
        f"{os.cpu_count()} cores, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, "
        f"{f'PostgreSQL {postgres}' if postgres else 'no PostgreSQL'}"
    )


def _postgres_version() -> str:
    try:
        with fresh_database():
            return postgres_server().sql("SHOW server_version").split()[0]
    except pytest.skip.Exception:
        return ""

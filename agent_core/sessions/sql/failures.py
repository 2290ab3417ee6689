"""Failures of a database, and the error and the name that each has outside."""

import sqlite3

from agent_core.errors import RunError


def unavailable(error: BaseException) -> RunError:
    """The error of a run whose store failed. Its detail is the error's name and never its text, because that may hold
    what should be stored."""
    return RunError("store_unavailable", detail=name_of(error))


def name_of(error: BaseException) -> str:
    """The error's type, and the database's code if there is one: `OperationalError SQLITE_FULL`."""
    cause = error_of_driver(error)
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorname", "")
    else:
        code = getattr(cause, "sqlstate", None) or ""
    return f"{type(cause).__name__} {code}".rstrip()


def error_of_driver(error: BaseException) -> BaseException:
    """The driver's own error inside one of SQLAlchemy's."""
    inner = getattr(error, "orig", None)
    return inner if isinstance(inner, BaseException) else error

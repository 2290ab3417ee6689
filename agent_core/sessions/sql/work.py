"""Backends, and the work that they do. Each piece of work is done whole or not at all."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")


def _nothing(result: Any) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(Generic[T]):
    """A piece of work in one transaction.

    - do: runs the statements. It may be called again if the transaction fails. A CoreError that it raises is an answer,
      and must come before anything is changed
    - durable: the result is on disk before the caller gets it; else it may reach the disk a little later
    - erases: deleted data must not stay in files
    - done: called in the event loop when the work is finished, also if the caller no longer waits
    - undone: called in any thread, if a result that was not durable is lost after the caller got it
    """

    do: Callable[[Connection], T]
    durable: bool = True
    erases: bool = False
    done: Callable[[T], None] = _nothing
    undone: Callable[[T], None] = _nothing


class Backend(Protocol):
    """A database."""

    async def run(self, work: Work[T]) -> T:
        """Do the work, and raise what it raises. Raises RunError `store_unavailable` for the database's errors.

        Work that has begun is carried to its end, also if the caller is cancelled.
        """
        ...

    async def aclose(self) -> None: ...


def look(conn: Connection) -> None:
    """Ask the database the smallest question, to see that it answers."""
    conn.exec_driver_sql("SELECT 1")

"""What a backend does: one piece of work after another, each all or nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")


def _nothing(result: Any) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(Generic[T]):
    """Something to do in a transaction.

    - do: the statements. It may be called again where the transaction failed. A CoreError that it raises is
      an answer, and must come before anything is changed
    - durable: the result is on disk before it is given out; else it may reach the disk a little later
    - erases: what is deleted must not be left in files
    - done: called in the event loop when the work is finished, also where the caller waits no more
    - undone: called, in any thread, where a result that was not durable is lost after it was given out
    """

    do: Callable[[Connection], T]
    durable: bool = True
    erases: bool = False
    done: Callable[[T], None] = _nothing
    undone: Callable[[T], None] = _nothing


class Backend(Protocol):
    """A database."""

    async def run(self, work: Work[T]) -> T:
        """Do the work. Raises what it raised, and RunError `store_unavailable` for all that the database
        raised. Work that has begun is carried to its end also where the caller is cancelled."""
        ...

    async def aclose(self) -> None: ...


def look(conn: Connection) -> None:
    """The least that a database can be asked."""
    conn.exec_driver_sql("SELECT 1")

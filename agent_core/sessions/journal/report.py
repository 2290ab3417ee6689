"""What an operator is told about a journal: the findings of a check, and what was given up by accepting a database."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_core.names import SessionKey

LISTED = 20
"""Findings that a report holds; the others are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong. `row` is the session's id in the database, None if it is about the whole database;
    `entry` is the number of the session's first bad entry, None if it is about none."""

    what: str
    row: Any = None
    key: SessionKey | None = None
    entry: Any = None

    def __str__(self) -> str:
        where = "" if self.row is None else f"session number {self.row}: "
        if self.key is not None:
            where = f"{self.key.user_id}/{self.key.session_id}: "
        line = f"{where}{self.what}" if self.entry is None else f"{where}entry {self.entry} {self.what}"
        # The database may hold anything by now, and this goes to a terminal.
        return "".join(each if each.isprintable() else "\ufffd" for each in line)


@dataclass(slots=True)
class Report:
    """What was read, and one finding for each bad session, in the order of their ids."""

    sessions: int = 0
    entries: int = 0
    tombstones: int = 0
    wrong: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        return not self.wrong

    def add(self, finding: Finding) -> None:
        self.wrong += 1
        if len(self.findings) < LISTED:
            self.findings.append(finding)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """`database` is the report of the database by itself: unless it is whole, nothing was done. `given_up` is what
    the anchor knew and the database has not; `kept` is the path of the replaced anchor."""

    database: Report
    given_up: Report | None = None
    kept: Path | None = None
    done: bool = False

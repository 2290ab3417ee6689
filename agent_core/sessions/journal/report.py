"""Reports on a journal for its operator: the findings of a check, and the outcome of accepting a database."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_core.names import SessionKey

LISTED = 20
"""Findings that a report holds. The others are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong. `row` is the session's id in the database, None for the whole database. `entry` is the
    number of the session's first bad entry, None if no entry is bad."""

    what: str
    row: Any = None
    key: SessionKey | None = None
    entry: Any = None

    def __str__(self) -> str:
        where = "" if self.row is None else f"session number {self.row}: "
        if self.key is not None:
            where = f"{self.key.user_id}/{self.key.session_id}: "
        line = f"{where}{self.what}" if self.entry is None else f"{where}entry {self.entry} {self.what}"
        # An altered database may hold any characters, and this goes to a terminal.
        return "".join(each if each.isprintable() else "\ufffd" for each in line)


@dataclass(slots=True)
class Report:
    """The numbers of what was read, and a finding for each bad session, in the order of their ids."""

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
    """The outcome of accepting a database.

    - database: the report on the database without its anchor; if it is not whole, nothing was done
    - given_up: what the anchor knows and the database does not have
    - kept: the path of the replaced anchor
    """

    database: Report
    given_up: Report | None = None
    kept: Path | None = None
    done: bool = False

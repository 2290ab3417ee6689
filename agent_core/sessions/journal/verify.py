"""Checks a whole journal: every chain, row and tombstone, and all of them against their anchors.

It reads the tables in the order of the session ids and holds one session at a time, however large the database is. It
takes values as the database has them, without SQLAlchemy's types, because an altered entry may hold another type.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, text

from agent_core.names import SessionKey
from agent_core.sessions.journal.anchor import Anchor
from agent_core.sessions.journal.chain import Journal
from agent_core.sessions.journal.check import UNLIKE, ChainCheck, Slot
from agent_core.sessions.journal.report import Finding, Report
from agent_core.sessions.journal.states import StateCheck

_AT_ONCE = 50  # rows: a body may have megabytes

_META = "SELECT name, value FROM meta WHERE name IN ('journal', 'identity')"
_SESSIONS = "SELECT id, user_id, session_id, head, tip, title FROM sessions ORDER BY id"
_TOMBSTONES = "SELECT id, head, tip, deleted_at, mac FROM tombstones ORDER BY id"
_ENTRIES = "SELECT session, seq, lane, run_id, kind, body, mac FROM entries ORDER BY session, seq"


class OtherKey(ValueError):
    """The journal was sealed with another key, so nothing can be checked. Its text is one sentence."""

    def __init__(self) -> None:
        super().__init__(
            "The journal was sealed with another key, so it could not be checked: see OSTINATO_JOURNAL_KEY."
        )


def verify(conn: Connection, journal: Journal, anchors: Sequence[Anchor] = ()) -> Report:
    """Check everything.

    Servers may write meanwhile. So the connection must be in a transaction that sees one state of the database, and the
    anchors must be copies from before it began. An anchor of another database is one finding.

    Raises OtherKey, and SQLAlchemy's errors.
    """
    report = Report()
    known: dict[Any, Any] = dict(conn.execute(text(_META)).all())
    if known.get("journal") != journal.fingerprint:
        raise OtherKey
    identity = known.get("identity")
    strange = [each for each in anchors if identity is not None and each.identity.hex() not in ("", identity)]
    for _ in strange:
        report.add(Finding(what="this is not the database that the anchor knows: it was deleted or replaced"))
    anchors = [each for each in anchors if each not in strange]
    entries = _Entries(_stream(conn, _ENTRIES), report)
    for record in _records(conn, anchors):
        _check_strays(entries.strays(record.row), report)
        finding = _check(record, entries.of(record.row), journal, report)
        if finding is not None:
            report.add(finding)
    _check_strays(entries.strays(None, rest=True), report)
    return report


@dataclass(slots=True, kw_only=True)
class _Record:
    """All that is known under one session id, without the entries."""

    row: Any
    session: Any = None
    tombstone: Any = None
    slots: list[Slot] = field(default_factory=list)


def _records(conn: Connection, anchors: Sequence[Anchor]) -> Iterator[_Record]:
    """The records in the order of their ids. If only an anchor knows an id, that session was removed."""
    sessions = ((each[0], 0, each) for each in _stream(conn, _SESSIONS))
    tombstones = ((each[0], 1, each) for each in _stream(conn, _TOMBSTONES))
    found = merge(sessions, tombstones, *map(_slots, anchors), key=lambda each: _rank(each[0]))
    for row, pieces in groupby(found, key=lambda each: each[0]):
        record = _Record(row=row)
        for _, kind, piece in pieces:
            if kind == 0:
                record.session = piece
            elif kind == 1:
                record.tombstone = piece
            else:
                record.slots.append(piece)
        yield record


def _slots(anchor: Anchor) -> Iterator[tuple[int, int, Any]]:
    for row in anchor.rows():
        slot = anchor.read(row)
        if slot is not None:
            yield row, 2, slot


class _Entries:
    """The stream of all entries, cut into sessions. Counts the entries that it gives out."""

    def __init__(self, rows: Iterator[Any], report: Report) -> None:
        self._rows = rows
        self._report = report
        self._next = next(rows, None)

    def of(self, row: Any) -> Iterator[Any]:
        while (entry := self._next) is not None and entry[0] == row:
            self._report.entries += 1
            self._next = next(self._rows, None)
            yield entry

    def strays(self, before: Any, *, rest: bool = False) -> Iterator[tuple[Any, Any]]:
        """The session ids below `before`, each with its first entry's number. With `rest`, all that are left."""
        while self._next is not None and (rest or _rank(self._next[0]) < _rank(before)):
            row, first = self._next[0], self._next[1]
            for _ in self.of(row):
                pass
            yield row, first


def _check_strays(strays: Iterable[tuple[Any, Any]], report: Report) -> None:
    """Report the entries of no session: no record has their session's id."""
    for row, first in strays:
        report.add(Finding(row=row, entry=first, what="was added: there is no such session"))


def _check(record: _Record, entries: Iterator[Any], journal: Journal, report: Report) -> Finding | None:
    if record.tombstone is not None:
        report.tombstones += 1
    if record.session is not None:
        return _check_session(record, entries, journal, report)
    left = next(entries, None)
    for _ in entries:
        pass
    if record.tombstone is None:
        if left is not None:
            return Finding(row=record.row, entry=left[1], what="is left of a session that was removed")
        seen = max(seq for seq, _ in record.slots)
        return Finding(row=record.row, what=f"the session was removed: its anchor has seen {seen} entries of it")
    what = _check_tombstone(record, journal)
    if what is None and left is not None:
        return Finding(row=record.row, entry=left[1], what="is still there: the session was deleted")
    return None if what is None else Finding(row=record.row, what=what)


def _check_tombstone(record: _Record, journal: Journal) -> str | None:
    row, head, tip, deleted_at, mac = record.tombstone
    try:
        good = journal.tombstone(row, head, tip, deleted_at) == mac
    except UNLIKE:
        good = False
    if not good:
        return "its tombstone is forged or was altered"
    # The anchor may have noted the deletion too, as the number after the head.
    if any(seq > head + 1 or slot != {head: tip, head + 1: mac}.get(seq, slot) for seq, slot in record.slots):
        return "its tombstone is of another state than the anchor has seen"
    return None


def _check_session(record: _Record, entries: Iterator[Any], journal: Journal, report: Report) -> Finding | None:
    chain, state = ChainCheck(journal, record.session, record.slots), StateCheck()
    for entry in entries:
        chain.take(entry)
        state.take(entry)
    if not chain.empty:
        report.sessions += 1
    fault = chain.end() or state.end()
    if record.tombstone is not None and (fault is None or fault[0] is None):
        fault = None, "it was deleted and is there again"
    if fault is None:
        return None
    key = SessionKey(user_id=str(record.session[1]), session_id=str(record.session[2]))
    return Finding(row=record.row, key=key, entry=fault[0], what=fault[1])


def _stream(conn: Connection, statement: str) -> Iterator[Any]:
    return iter(conn.execute(text(statement), execution_options={"stream_results": True, "yield_per": _AT_ONCE}))


def _rank(value: Any) -> tuple[int, float]:
    """A sort key for values of any type, as databases sort them: null, then numbers, then all others."""
    if value is None:
        return 0, 0
    return (1, value) if isinstance(value, int | float) else (2, 0)

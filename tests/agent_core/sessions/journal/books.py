"""A journal to falsify."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Connection, Engine, NullPool, create_engine, insert

from agent_core.messages import Message
from agent_core.names import SessionKey
from agent_core.sessions.entries import Entry
from agent_core.sessions.journal.anchor import Anchor
from agent_core.sessions.journal.chain import Journal
from agent_core.sessions.journal.report import Report
from agent_core.sessions.journal.verify import verify
from agent_core.sessions.sql.migrations import migrate
from agent_core.sessions.sql.tables import entries, meta, sessions, tombstones
from tests.entries import end_entry, message_entry, run_entry, titled_entry

JOURNAL = Journal(b"k" * 32)
EXTRA = Entry(run_id="r9", kind="message", body=b'{"agent":"a","message":{}}')


def written(name: str) -> list[Entry]:
    """Six entries, no two alike."""
    said = [message_entry("r1", "a", Message(role="user", id=f"{name}-{n}", content=f"{name} {n}")) for n in range(3)]
    return [run_entry("r1", "a"), titled_entry("r1", f"About {name}"), *said, end_entry("r1", "completed")]


@dataclass(slots=True)
class Book:
    """A database in a file, written as a store writes it, with its anchor. Sessions: ann/s1, ann/s2, bob/s1."""

    path: Path
    anchor: Anchor
    engine: Engine

    @classmethod
    def make(cls, folder: Path) -> "Book":
        book = cls.open(folder / "book.db", Anchor(folder / "anchor"))
        with book.engine.begin() as conn:
            while migrate(conn):
                pass
            conn.execute(insert(meta).values(name="journal", value=JOURNAL.fingerprint))
        for user, name in (("ann", "s1"), ("ann", "s2"), ("bob", "s1")):
            book.write(SessionKey(user_id=user, session_id=name), written(f"{user}-{name}"))
        return book

    @classmethod
    def open(cls, path: Path, anchor: Anchor) -> "Book":
        return cls(path, anchor, create_engine(f"sqlite:///{path}", poolclass=NullPool))

    def write(self, key: SessionKey, new: list[Entry]) -> int:
        with self.engine.begin() as conn:
            row, head, tip = write(conn, JOURNAL, key, new)
        self.anchor.note(row, head, tip)
        return row

    def delete(self, row: int, journal: Journal = JOURNAL) -> None:
        with self.engine.begin() as conn:
            head, mac = delete(conn, journal, row)
        self.anchor.note(row, head + 1, mac)

    def sql(self, statement: str, *values: Any) -> None:
        """What somebody does behind the server's back."""
        with sqlite3.connect(self.path) as conn:
            conn.execute(statement, values)
        conn.close()

    def report(self, journal: Journal = JOURNAL, *anchors: Anchor) -> Report:
        with self.engine.connect() as conn:
            return verify(conn, journal, anchors or (self.anchor,))

    def lines(self, *anchors: Anchor) -> list[str]:
        report = self.report(JOURNAL, *anchors)
        assert report.whole == (not report.findings)
        return [str(each) for each in report.findings]


def write(conn: Connection, journal: Journal, key: SessionKey, new: list[Entry]) -> tuple[int, int, bytes]:
    """Write a session in one go."""
    title = "" if len(new) < 2 else f"About {key.user_id}-{key.session_id}"
    names = {"user_id": key.user_id, "session_id": key.session_id, "title": title}
    made = insert(sessions).values(**names, fence=1, head=0, tip=b"", created_at=0, updated_at=0)
    row = conn.execute(made.returning(sessions.c.id)).scalar_one()
    tip, rows = journal.genesis(row, key), []
    for seq, entry in enumerate(new, 1):
        sealed = replace(entry, seq=seq)
        tip = journal.seal(tip, sealed)
        names = {name: getattr(sealed, name) for name in ("seq", "lane", "run_id", "kind", "body")}
        rows.append({"session": row, "mac": tip, **names})
    conn.execute(insert(entries), rows)
    conn.execute(sessions.update().where(sessions.c.id == row).values(head=len(new), tip=tip))
    return row, len(new), tip


def delete(conn: Connection, journal: Journal, row: int) -> tuple[int, bytes]:
    head, tip = conn.execute(
        sessions.select().with_only_columns(sessions.c.head, sessions.c.tip).filter_by(id=row)
    ).one()
    mac = journal.tombstone(row, head, tip, 5)
    conn.execute(entries.delete().where(entries.c.session == row))
    conn.execute(sessions.delete().where(sessions.c.id == row))
    conn.execute(insert(tombstones).values(id=row, head=head, tip=tip, deleted_at=5, mac=mac))
    return head, mac


def forge(book: Book, seq: int) -> None:
    """Put an entry into ann's first session, sealed with a key that is not the journal's."""
    mac = Journal(b"x" * 32).seal(b"t" * 32, replace(EXTRA, seq=1))
    values = (1, seq, EXTRA.lane, EXTRA.run_id, EXTRA.kind, EXTRA.body, mac)
    book.sql("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", *values)


@contextmanager
def new_book(folder: Path) -> Iterator[Book]:
    book = Book.make(folder)
    try:
        yield book
    finally:
        book.anchor.close()

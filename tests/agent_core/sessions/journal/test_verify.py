"""A whole journal passes, and faults beyond one session's chain are found."""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import insert

from agent_core.names import SessionKey
from agent_core.sessions.journal.anchor import Anchor
from agent_core.sessions.journal.chain import Journal
from agent_core.sessions.journal.report import LISTED
from agent_core.sessions.journal.verify import OtherKey
from agent_core.sessions.sql.tables import entries, sessions
from tests.agent_core.sessions.journal.books import JOURNAL, Book, delete, new_book, written
from tests.entries import state_entry


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    with new_book(tmp_path) as book:
        yield book


# Whole


def test_a_journal_as_it_was_written_is_whole(book: Book) -> None:
    report = book.report()
    assert report.whole
    assert (report.sessions, report.entries, report.tombstones, report.findings) == (3, 18, 0, [])


def test_a_deleted_session_leaves_a_whole_journal(book: Book) -> None:
    book.delete(2)
    report = book.report()
    assert report.whole
    assert (report.sessions, report.entries, report.tombstones) == (2, 12, 1)


def test_an_anchor_may_not_know_of_the_last_entries_or_of_the_deletion(book: Book, tmp_path: Path) -> None:
    behind = Anchor(tmp_path / "behind")
    assert book.lines(behind) == []
    with book.engine.connect() as conn:
        (mac,) = conn.execute(entries.select().with_only_columns(entries.c.mac).filter_by(session=1, seq=4)).one()
    behind.note(1, 4, mac)
    slot = book.anchor.read(2)
    assert slot is not None
    behind.note(2, *slot)
    book.delete(2)
    assert book.lines(behind) == []
    assert book.lines(behind, book.anchor) == []
    behind.close()


def test_a_session_that_nobody_wrote_to_is_not_counted(book: Book) -> None:
    with book.engine.begin() as conn:
        names = {"user_id": "ann", "session_id": "new", "title": "", "owner": "w1"}
        conn.execute(insert(sessions).values(**names, fence=1, head=0, tip=b"", created_at=0, updated_at=0))
    report = book.report()
    assert report.whole
    assert report.sessions == 3


def test_an_empty_database_is_whole(book: Book) -> None:
    for table in ("entries", "sessions"):
        book.sql(f"DELETE FROM {table}")
    fresh = Anchor(book.path.with_name("fresh"))
    assert book.lines(fresh) == []
    fresh.close()


# Whole sessions


def test_a_session_removed_behind_the_servers_back_is_named_by_the_anchor(book: Book) -> None:
    book.sql("DELETE FROM entries WHERE session = 2")
    book.sql("DELETE FROM sessions WHERE id = 2")
    assert book.lines() == ["session number 2: the session was removed: its anchor has seen 6 entries of it"]


def test_entries_of_a_session_whose_row_was_removed_are_named(book: Book) -> None:
    book.sql("DELETE FROM sessions WHERE id = 2")
    assert book.lines() == ["session number 2: entry 1 is left of a session that was removed"]


def test_a_removed_session_with_another_of_the_same_name_is_named(book: Book) -> None:
    book.sql("DELETE FROM entries WHERE session = 2")
    book.sql("DELETE FROM sessions WHERE id = 2")
    book.write(SessionKey(user_id="ann", session_id="s2"), written("ann-s2"))
    assert book.lines() == ["session number 2: the session was removed: its anchor has seen 6 entries of it"]


def test_entries_of_a_deleted_session_that_are_still_there_are_named(book: Book) -> None:
    book.sql("CREATE TABLE kept AS SELECT * FROM entries WHERE session = 2 AND seq > 4")
    book.delete(2)
    book.sql("INSERT INTO entries SELECT * FROM kept")
    assert book.lines() == ["session number 2: entry 5 is still there: the session was deleted"]


def test_an_older_copy_of_the_database_is_named_by_the_newer_anchor(book: Book) -> None:
    shutil.copy(book.path, book.path.with_name("old.db"))
    book.write(SessionKey(user_id="bob", session_id="s2"), written("bob-s2"))
    book.delete(1)
    old = Book.open(book.path.with_name("old.db"), book.anchor)
    assert old.lines() == [
        "ann/s1: entry 7 is missing: the anchor has seen 7",  # the deletion
        "session number 4: the session was removed: its anchor has seen 6 entries of it",
    ]


def test_a_database_that_was_put_back_and_went_on_is_named_by_a_copy_of_the_anchor(book: Book, tmp_path: Path) -> None:
    """The chain is correct, long enough and made with the key, but the anchor has seen another one."""
    book.sql("DELETE FROM entries WHERE session = 3")
    book.sql("DELETE FROM sessions WHERE id = 3")
    book.sql("UPDATE sqlite_sequence SET seq = 2 WHERE name = 'sessions'")
    fresh = Anchor(tmp_path / "fresh")
    again = Book.open(book.path, fresh)
    other = [*written("bob-s1")[:4], *written("else")[2:5]]
    assert again.write(SessionKey(user_id="bob", session_id="s1"), other) == 3
    assert again.lines() == []
    assert again.lines(fresh, book.anchor) == ["bob/s1: entry 6 is not the one that the anchor has seen"]
    fresh.close()


def test_entries_of_no_session_are_named_in_the_order_of_the_database(book: Book) -> None:
    """Null comes first, then numbers, then all others."""
    book.sql("UPDATE sessions SET id = -5 WHERE id = 1")
    columns = "seq, lane, run_id, kind, body, mac"
    book.sql("CREATE TABLE loose AS SELECT * FROM entries")  # without the conditions on its columns
    book.sql("DROP TABLE entries")
    book.sql("ALTER TABLE loose RENAME TO entries")
    for session in ("NULL", "-9", "'x'"):
        book.sql(f"INSERT INTO entries (session, {columns}) SELECT {session}, {columns} FROM entries WHERE session = 2")
    book.sql("INSERT INTO tombstones VALUES ('y', 1, x'', 5, x'')")
    report = book.report()
    rows = [None, -9, -5, 1, "y", "x"]
    entries = [1, 1, None, 1, None, 1]
    assert [(each.row, each.entry) for each in report.findings] == list(zip(rows, entries, strict=True))
    assert report.entries == 18 + 3 * 6


# Tombstones


@pytest.mark.parametrize(
    "change",
    ["head = 5", "tip = zeroblob(32)", "deleted_at = 6", "mac = zeroblob(32)", "head = 'x'", "id = 99", "mac = 1"],
)
def test_an_altered_tombstone_is_named(book: Book, change: str) -> None:
    book.delete(2)
    book.sql(f"UPDATE tombstones SET {change}")
    number = 99 if change == "id = 99" else 2
    assert f"session number {number}: its tombstone is forged or was altered" in book.lines()


def test_a_tombstone_forged_without_the_key_is_named(book: Book) -> None:
    with book.engine.begin() as conn:
        delete(conn, Journal(b"x" * 32), 2)
    assert book.lines() == ["session number 2: its tombstone is forged or was altered"]


@pytest.mark.parametrize("head", [1, 3, 4, 5])
def test_a_tombstone_of_an_older_state_is_named_by_the_anchor(book: Book, head: int) -> None:
    with book.engine.begin() as conn:
        conn.execute(entries.delete().where(entries.c.session == 2, entries.c.seq > head))
        tip = conn.execute(entries.select().with_only_columns(entries.c.mac).filter_by(session=2, seq=head)).scalar()
        conn.execute(sessions.update().where(sessions.c.id == 2).values(head=head, tip=tip))
        delete(conn, JOURNAL, 2)
    assert book.lines() == ["session number 2: its tombstone is of another state than the anchor has seen"]


def test_a_deleted_session_that_is_there_again_is_named(book: Book, tmp_path: Path) -> None:
    with sqlite3.connect(book.path) as conn:
        kept = conn.execute("SELECT * FROM sessions WHERE id = 2").fetchone()
        rows = conn.execute("SELECT * FROM entries WHERE session = 2").fetchall()
    conn.close()
    book.delete(2)
    book.sql(f"INSERT INTO sessions VALUES ({', '.join('?' * len(kept))})", *kept)
    for each in rows:
        book.sql("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", *each)
    blind = Anchor(tmp_path / "blind")
    assert book.lines(blind) == ["ann/s2: it was deleted and is there again"]
    book.sql("UPDATE sessions SET title = 'Another' WHERE id = 2")
    assert book.lines(blind) == ["ann/s2: it was deleted and is there again"]
    book.sql("UPDATE sessions SET title = 'About ann-s2' WHERE id = 2")
    book.sql("UPDATE entries SET run_id = 'r2' WHERE session = 2 AND seq = 4")
    assert book.lines(blind) == ["ann/s2: entry 4 was altered"], "an entry says more"
    book.sql("UPDATE entries SET run_id = 'r1' WHERE session = 2 AND seq = 4")
    blind.close()
    book.sql("DELETE FROM tombstones")
    assert book.lines() == ["ann/s2: entry 7 is missing: the anchor has seen 7"]


# The report


def test_with_another_key_nothing_is_said_about_the_sessions(book: Book) -> None:
    with pytest.raises(OtherKey, match="could not be checked"):
        book.report(Journal(b"x" * 32))


def test_the_first_finding_is_of_the_first_session_and_all_are_counted(book: Book) -> None:
    for number in range(30):
        book.write(SessionKey(user_id="cat", session_id=f"s{number}"), written(f"cat-s{number}"))
    book.sql("UPDATE entries SET lane = 'x' WHERE session > 2 AND seq = 4")
    report = book.report()
    assert str(report.findings[0]) == "bob/s1: entry 4 was altered"
    assert (report.findings[0].row, report.findings[0].entry) == (3, 4)
    assert report.findings[0].key == SessionKey(user_id="bob", session_id="s1")
    assert (report.wrong, len(report.findings)) == (31, LISTED)
    assert (report.sessions, report.entries) == (33, 33 * 6)


# The state


STATES = [
    state_entry("r1", value={"n": 1}),
    state_entry("r1", patch=[{"op": "replace", "path": "/n", "value": 2}]),
    state_entry("r1", patch=[{"op": "add", "path": "/gone/deeper", "value": 1}]),
    state_entry("r1", patch=[{"op": "remove", "path": "/gone"}]),
]


def test_a_change_of_the_state_that_does_not_fit_is_found_though_nobody_has_altered_it(book: Book) -> None:
    book.write(SessionKey(user_id="ann", session_id="s3"), written("ann-s3") + STATES)
    assert book.lines() == [
        "ann/s3: entry 9 is a change of the state that does not fit what was before it, and is passed over"
    ]


def test_a_state_that_was_stored_whole_again_is_well(book: Book) -> None:
    whole = state_entry("r2", value={"n": 2})
    fitting = state_entry("r2", patch=[{"op": "remove", "path": "/n"}])
    book.write(SessionKey(user_id="ann", session_id="s3"), [*written("ann-s3"), *STATES, whole, fitting])
    assert book.lines() == []

"""Every way to falsify a session, each noticed and named."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine

from agent_core.names import SessionKey
from agent_core.sessions.journal.anchor import Anchor
from agent_core.sessions.journal.chain import Journal
from agent_core.sessions.journal.verify import verify
from tests.agent_core.sessions.journal.books import JOURNAL, Book, forge, new_book, write, written


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    with new_book(tmp_path) as book:
        yield book


# Entries


@pytest.mark.parametrize(
    "change",
    [
        "body = CAST(replace(CAST(body AS TEXT), 's1', 'sI') AS BLOB)",
        "body = x''",
        "body = CAST(body AS TEXT)",
        "kind = 'state'",
        "run_id = 'r2'",
        "lane = 'x'",
        "lane = CAST(lane AS BLOB)",
        "mac = x'00'",
        "mac = randomblob(32)",
        "body = 7",
    ],
)
@pytest.mark.parametrize("seq", [2, 5])
def test_an_altered_entry_is_named(book: Book, change: str, seq: int) -> None:
    book.sql(f"UPDATE entries SET {change} WHERE session = 1 AND seq = ?", seq)
    assert book.lines() == [f"ann/s1: entry {seq} was altered"]


def test_the_last_entry_altered_is_named(book: Book) -> None:
    book.sql("UPDATE entries SET body = x'' WHERE session = 1 AND seq = 6")
    assert book.lines() == ["ann/s1: entry 6 was altered"]


def test_the_first_entry_is_bound_to_the_name_of_its_session(book: Book) -> None:
    book.sql("UPDATE sessions SET user_id = 'eve' WHERE id = 2")
    assert book.lines() == ["eve/s2: entry 1 was altered or is another session's"]


def test_an_entry_removed_from_the_middle_is_named(book: Book) -> None:
    book.sql("DELETE FROM entries WHERE session = 1 AND seq = 3")
    assert book.lines() == ["ann/s1: entry 3 is missing"]


def test_an_entry_removed_and_the_gap_closed_is_named(book: Book) -> None:
    book.sql("DELETE FROM entries WHERE session = 1 AND seq = 3")
    for seq in (4, 5, 6):
        book.sql("UPDATE entries SET seq = seq - 1 WHERE session = 1 AND seq = ?", seq)
    book.sql("UPDATE sessions SET head = 5 WHERE id = 1")
    assert book.lines() == ["ann/s1: entry 3 was altered"]


def test_the_first_entry_removed_is_named(book: Book) -> None:
    book.sql("DELETE FROM entries WHERE session = 1 AND seq = 1")
    assert book.lines() == ["ann/s1: entry 1 is missing"]


def test_the_last_entry_removed_is_named(book: Book) -> None:
    book.sql("DELETE FROM entries WHERE session = 1 AND seq = 6")
    assert book.lines() == ["ann/s1: entry 6 is missing"]


@pytest.mark.parametrize("left", [5, 1, 0])
def test_an_end_cut_off_with_the_row_put_back_is_named_by_the_anchor(book: Book, left: int, tmp_path: Path) -> None:
    book.sql("DELETE FROM entries WHERE session = 1 AND seq > ?", left)
    tip = "coalesce((SELECT mac FROM entries WHERE session = 1 AND seq = ?1), x'')"
    title = "CASE WHEN ?1 > 1 THEN title ELSE '' END"
    book.sql(f"UPDATE sessions SET head = ?1, tip = {tip}, title = {title} WHERE id = 1", left)
    assert book.lines() == [f"ann/s1: entry {left + 1} is missing: the anchor has seen 6"]
    blind = Anchor(tmp_path / "blind")
    assert book.lines(blind) == []  # the chain alone cannot tell
    blind.close()


def test_two_entries_that_changed_places_are_named(book: Book) -> None:
    for old, new in ((3, 99), (4, 3), (99, 4)):
        book.sql("UPDATE entries SET seq = ? WHERE session = 1 AND seq = ?", new, old)
    assert book.lines() == ["ann/s1: entry 3 is not in its place: it stands as 4"]


@pytest.mark.parametrize("seq", [1, 3, 6])
def test_an_entry_moved_behind_the_end_is_named(book: Book, seq: int) -> None:
    book.sql("UPDATE entries SET seq = 99 WHERE session = 1 AND seq = ?", seq)
    assert book.lines() == [f"ann/s1: entry {seq} is not in its place: it stands as 99"]


def test_bodies_that_two_sessions_exchanged_are_named_in_both(book: Book) -> None:
    with sqlite3.connect(book.path) as conn:
        bodies = conn.execute("SELECT body, session FROM entries WHERE session IN (1, 2) AND seq = 4").fetchall()
    conn.close()
    for body, session in bodies:
        book.sql("UPDATE entries SET body = ? WHERE session = ? AND seq = 4", body, 3 - session)
    assert book.lines() == ["ann/s1: entry 4 was altered", "ann/s2: entry 4 was altered"]


def test_whole_chains_that_two_sessions_exchanged_are_named_in_both(book: Book) -> None:
    for old, new in ((1, 99), (2, 1), (99, 2)):
        book.sql("UPDATE entries SET session = ? WHERE session = ?", new, old)
    assert [each.split(":")[1] for each in book.lines()] == [" entry 1 was altered or is another session's"] * 2


@pytest.mark.parametrize("seq", [7, 8])
def test_a_forged_entry_at_the_end_is_named(book: Book, seq: int) -> None:
    forge(book, seq)
    said = "entry 7 was added" if seq == 7 else "entry 7 is missing"
    assert book.lines() == [f"ann/s1: {said}"]


def test_a_forged_entry_that_the_row_counts_is_named(book: Book) -> None:
    forge(book, 7)
    book.sql("UPDATE sessions SET head = 7, tip = zeroblob(32) WHERE id = 1")
    assert book.lines() == ["ann/s1: entry 7 was altered"]


def test_a_forged_entry_in_the_middle_is_named(book: Book) -> None:
    for seq in (6, 5, 4):
        book.sql("UPDATE entries SET seq = seq + 1 WHERE session = 1 AND seq = ?", seq)
    forge(book, 4)
    book.sql("UPDATE sessions SET head = 7 WHERE id = 1")
    assert book.lines() == ["ann/s1: entry 4 is not in its place: it stands as 5"]


@pytest.mark.parametrize("seq", [0, -1])
def test_an_entry_before_the_first_is_named(book: Book, seq: int) -> None:
    forge(book, seq)
    assert book.lines() == [f"ann/s1: entry {seq} was added"]


@pytest.mark.parametrize("seq", ["'x'", "x'00'", "3.5"])
def test_an_entry_without_a_real_number_is_named(book: Book, seq: str) -> None:
    book.sql(f"UPDATE entries SET seq = {seq} WHERE session = 1 AND seq = 6")
    (line,) = book.lines()
    assert line.startswith("ann/s1: entry ")


@pytest.mark.parametrize(("session", "name"), [("0", "0"), ("-5", "-5"), ("99", "99"), ("'x'", "x"), ("2.5", "2.5")])
def test_entries_of_no_session_are_named(book: Book, session: str, name: str) -> None:
    columns = "seq, lane, run_id, kind, body, mac"
    book.sql(f"INSERT INTO entries (session, {columns}) SELECT {session}, {columns} FROM entries WHERE session = 1")
    assert book.lines() == [f"session number {name}: entry 1 was added: there is no such session"]
    assert book.report().entries == 24


def test_a_session_forged_with_another_key_is_named(book: Book) -> None:
    with book.engine.begin() as conn:
        write(conn, Journal(b"x" * 32), SessionKey(user_id="ann", session_id="s9"), written("ann-s9"))
    assert book.lines() == ["ann/s9: entry 1 was altered or is another session's"]


# Rows


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("head = 5", "its row counts 5 entries, and there are 6"),
        ("head = 7", "entry 7 is missing"),
        ("head = 'x'", "its row was altered"),
        ("tip = randomblob(32)", "its row has another seal than its last entry"),
        ("tip = 'x'", "its row has another seal than its last entry"),
        ("title = 'Nothing'", "its title is not the one of its entries"),
        ("title = ''", "its title is not the one of its entries"),
    ],
)
def test_a_row_that_differs_from_its_entries_is_named(book: Book, change: str, said: str) -> None:
    book.sql(f"UPDATE sessions SET {change} WHERE id = 1")
    assert book.lines() == [f"ann/s1: {said}"]


def test_a_row_whose_names_are_no_text_is_named(book: Book) -> None:
    book.sql("UPDATE sessions SET user_id = CAST(user_id AS BLOB) WHERE id = 1")
    assert book.lines() == ["b'ann'/s1: its row was altered"]


def test_an_empty_session_that_claims_a_seal_is_named(book: Book) -> None:
    columns = "user_id, session_id, fence, head, tip, title, created_at, updated_at"
    book.sql(f"INSERT INTO sessions ({columns}) VALUES ('ann', 'new', 1, 0, x'00', '', 0, 0)")
    assert book.lines() == ["ann/new: its row has another seal than its last entry"]


def test_names_that_would_write_on_the_terminal_do_not(book: Book) -> None:
    book.sql("UPDATE sessions SET user_id = ? WHERE id = 1", "a\x1b[2Jb\nc")
    assert book.lines() == ["a\ufffd[2Jb\ufffdc/s1: entry 1 was altered or is another session's"]


def test_a_session_counts_where_entries_or_its_row_say_that_it_was_written_to(book: Book) -> None:
    book.sql("DELETE FROM entries WHERE session = 1")
    book.sql("UPDATE sessions SET head = 0, tip = x'' WHERE id = 2")
    report = book.report()
    assert (report.sessions, report.wrong) == (3, 2)


# Any change at all

values = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(st.characters(codec="utf-8")), st.binary()
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Book]:
    with new_book(tmp_path_factory.mktemp("book")) as book:
        yield book


@settings(max_examples=300, deadline=None)
@given(
    session=st.integers(1, 3),
    seq=st.integers(1, 6),
    column=st.sampled_from(["session", "seq", "lane", "run_id", "kind", "body", "mac"]),
    value=values,
)
def test_any_change_of_any_column_of_any_entry_is_noticed(
    original: Book, session: int, seq: int, column: str, value: Any
) -> None:
    raw = sqlite3.connect(":memory:", isolation_level=None)
    raw.deserialize(original.path.read_bytes())
    before = list(raw.execute("SELECT * FROM entries ORDER BY session, seq"))
    try:
        raw.execute(f"UPDATE entries SET {column} = ? WHERE session = ? AND seq = ?", (value, session, seq))
    except sqlite3.IntegrityError:  # not null, unique: the database has refused it
        changed = False
    else:
        changed = list(raw.execute("SELECT * FROM entries ORDER BY session, seq")) != before
    engine = create_engine("sqlite://", creator=lambda: raw)
    with engine.connect() as conn:
        report = verify(conn, JOURNAL, (original.anchor,))
    engine.dispose()
    raw.close()
    assert report.whole == (not changed)
    if changed and column not in ("session", "seq"):
        assert (report.findings[0].row, report.findings[0].entry, report.wrong) == (session, seq, 1)

"""The anchor that is written for a database as it stands."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_core.sessions.journal.accept import write_anchor
from agent_core.sessions.journal.anchor import Anchor
from tests.agent_core.sessions.journal.books import Book, new_book


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    with new_book(tmp_path) as book:
        yield book


def anchor_of(book: Book, tmp_path: Path) -> Anchor:
    with book.engine.connect() as conn:
        write_anchor(conn, tmp_path / "new")
    return Anchor(tmp_path / "new", write=False)


def test_it_has_the_sessions_the_deletions_and_the_database_s_identity(book: Book, tmp_path: Path) -> None:
    book.sql("UPDATE meta SET value = ? WHERE name = 'identity'", "0123456789abcdef" * 2)
    book.delete(2)
    columns = "user_id, session_id, fence, head, tip, title, created_at, updated_at"
    book.sql(f"INSERT INTO sessions ({columns}) VALUES ('ann', 'empty', 1, 0, x'', '', 0, 0)")
    new = anchor_of(book, tmp_path)
    slots = {row: new.read(row) for row in new.rows()}
    assert slots == {row: book.anchor.read(row) for row in (1, 2, 3)}
    assert new.identity.hex() == "0123456789abcdef" * 2
    assert book.lines(new) == []
    new.close()


@pytest.mark.parametrize("change", ["DELETE FROM meta WHERE name = 'identity'", "UPDATE meta SET value = 'x'"])
def test_of_a_database_without_an_identity_it_has_none(book: Book, change: str, tmp_path: Path) -> None:
    book.sql(change)
    new = anchor_of(book, tmp_path)
    assert (new.identity, list(new.rows())) == (b"", [1, 2, 3])
    new.close()

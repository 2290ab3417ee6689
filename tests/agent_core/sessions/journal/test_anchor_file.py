"""The header of an anchor's file, and what an identity looks like."""

import os
from pathlib import Path

import pytest

from agent_core.sessions.journal.anchor import Anchor
from agent_core.sessions.journal.anchor_file import identity_in, is_at, is_identity, open_file, write_identity

HEX = "0123456789abcdef"


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (HEX * 2, True),
        ("0" * 32, True),
        ("0" * 31, False),
        ("0" * 33, False),
        ("0" * 16, False),
        ("0" * 48, False),
        (f"g{'0' * 31}", False),
        ("A" * 32, False),
        ("", False),
        (b"0" * 32, False),
        (None, False),
        (7, False),
    ],
)
def test_an_identity_is_a_text_of_thirty_two_hexadecimal_digits(text: object, is_one: bool) -> None:
    assert is_identity(text) is is_one


def test_an_empty_file_is_an_anchor_that_knows_nothing_and_is_not_written_to_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "anchor"
    path.write_bytes(b"")
    read = Anchor(path, write=False)
    assert (read.identity, read.last_row, list(read.rows())) == (b"", 0, [])
    read.close()
    assert path.read_bytes() == b""
    Anchor(path).close()
    assert path.read_bytes() == b"ostinato journal anchor 1\n".ljust(64, b"\0")


def test_a_header_with_an_identity_takes_the_first_place_alone(tmp_path: Path) -> None:
    path = tmp_path / "anchor"
    file = open_file(path, write=True)
    os.pwrite(file, b"slot", 64)
    write_identity(file, bytes.fromhex(HEX * 2))
    assert path.read_bytes() == (b"ostinato journal anchor 2\n" + bytes.fromhex(HEX * 2)).ljust(64, b"\0") + b"slot"
    assert identity_in(file) == bytes.fromhex(HEX * 2)
    os.close(file)
    again = open_file(path, write=True)
    assert identity_in(again) == bytes.fromhex(HEX * 2), "what is there is not written over"
    os.close(again)


def test_a_file_is_at_its_path_until_another_is_or_none(tmp_path: Path) -> None:
    path = tmp_path / "anchor"
    file = open_file(path, write=True)
    assert is_at(file, path)
    path.rename(tmp_path / "away")
    assert not is_at(file, path)
    path.write_bytes(b"")
    assert not is_at(file, path)
    os.close(file)


def test_a_file_that_is_refused_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    make = os.open

    def note(path: Path, flags: int, mode: int) -> int:
        opened.append(make(path, flags, mode))
        return opened[-1]

    (tmp_path / "other").write_bytes(b"SQLite format 3\0" * 8)
    monkeypatch.setattr(os, "open", note)
    with pytest.raises(ValueError, match=r"^other is not a journal's anchor\.$"):
        open_file(tmp_path / "other", write=True)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])

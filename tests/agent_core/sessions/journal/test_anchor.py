import errno
import logging
import os
import stat
from pathlib import Path

import pytest

from agent_core.sessions.journal.anchor import Anchor

TIP = b"t" * 32


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def test_an_anchor_remembers_the_last_entry_of_each_session(tmp_path: Path) -> None:
    anchor = Anchor(tmp_path / "anchor")
    anchor.note(1, 1, b"a" * 32)
    anchor.note(3, 7, b"b" * 32)
    anchor.note(1, 2, b"c" * 32)
    anchor.close()
    again = Anchor(tmp_path / "anchor", write=False)
    assert [(row, again.read(row)) for row in again.rows()] == [(1, (2, b"c" * 32)), (3, (7, b"b" * 32))]
    assert again.read(2) is None
    assert again.read(1000) is None
    again.close()
    again.close()


def test_an_anchor_is_its_owners_alone(tmp_path: Path) -> None:
    Anchor(tmp_path / "anchor").close()
    assert stat.S_IMODE((tmp_path / "anchor").stat().st_mode) == 0o600


def test_an_anchor_never_goes_backwards_not_even_in_another_process(tmp_path: Path) -> None:
    first = Anchor(tmp_path / "anchor")
    first.note(1, 5, b"a" * 32)
    first.note(1, 4, b"b" * 32)
    first.note(1, 5, b"b" * 32)
    second = Anchor(tmp_path / "anchor")
    second.note(1, 3, b"c" * 32)
    assert second.read(1) == (5, b"a" * 32)
    first.close()
    second.close()


def test_an_anchor_keeps_what_proves_that_the_database_was_put_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    anchor = Anchor(tmp_path / "anchor")
    anchor.note(1, 5, b"a" * 32, since=0)
    anchor.note(1, 7, b"b" * 32, since=5)
    for seq in (8, 9):  # the database has only 3 entries left, and a server goes on writing
        anchor.note(1, seq, b"c" * 32, since=3)
    assert anchor.read(1) == (7, b"b" * 32)
    assert len(caplog.records) == 1
    anchor.close()


def test_a_late_note_of_another_worker_is_no_proof_of_anything(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    anchor = Anchor(tmp_path / "anchor")
    anchor.note(1, 7, b"b" * 32, since=5)
    anchor.note(1, 5, b"a" * 32, since=3)
    anchor.note(1, 7, b"b" * 32, since=5)  # the same once more
    assert anchor.read(1) == (7, b"b" * 32)
    assert caplog.records == []
    anchor.close()


def test_an_anchor_of_far_apart_sessions_takes_no_room_between_them(tmp_path: Path) -> None:
    anchor = Anchor(tmp_path / "anchor")
    rows = [1, 1023, 1024, 1025, 5_000_000, 50_000_000]
    for row in rows:
        anchor.note(row, row, bytes(31) + b"x")
    assert list(anchor.rows()) == rows
    assert (tmp_path / "anchor").stat().st_blocks * 512 < 100_000
    anchor.close()


def test_sessions_are_found_where_a_system_does_not_know_holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    anchor = Anchor(tmp_path / "anchor")
    for row in (1, 5000):
        anchor.note(row, 1, TIP)
    monkeypatch.delattr(os, "SEEK_DATA", raising=False)
    assert list(anchor.rows()) == [1, 5000]
    anchor.close()


def test_sessions_are_found_where_a_system_does_not_say_where_the_holes_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    anchor = Anchor(tmp_path / "anchor")
    for row in (1, 5000):
        anchor.note(row, 1, TIP)
    monkeypatch.setattr(os, "lseek", refuse)
    assert list(anchor.rows()) == [1, 5000]
    anchor.close()


def test_sessions_are_found_where_a_system_counts_holes_by_the_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data begins in the middle of a slot there: a small number begins with bytes that are zero."""
    anchor = Anchor(tmp_path / "anchor")
    for row in (1, 2, 5000):
        anchor.note(row, 1, TIP)
    os.pwrite(anchor._file, TIP, 3 * 64 + 8)  # a mac without a number
    content = (tmp_path / "anchor").read_bytes()

    def seek(_file: int, offset: int, _how: int) -> int:
        rest = content[offset:].lstrip(b"\0")
        if not rest:
            raise OSError(errno.ENXIO, "No such device or address")
        return len(content) - len(rest)

    monkeypatch.setattr(os, "lseek", seek)
    assert [list(anchor.rows(first)) for first in (1, 2, 3, 5001)] == [[1, 2, 5000], [2, 5000], [5000], []]
    anchor.close()


def test_only_a_number_makes_a_slot(tmp_path: Path) -> None:
    anchor = Anchor(tmp_path / "anchor")
    for row in (1, 3):
        anchor.note(row, 2**40 + row, TIP)
    with (tmp_path / "anchor").open("r+b") as file:
        file.seek(2 * 64 + 8)
        file.write(TIP)
    assert (list(anchor.rows()), anchor.read(2)) == ([1, 3], None)
    anchor.close()


def test_a_closed_anchor_closes_nothing_of_others(tmp_path: Path) -> None:
    anchor = Anchor(tmp_path / "anchor")
    number = anchor._file
    anchor.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, number)  # somebody else has the number now
    anchor.close()
    os.fstat(number)
    os.close(number)
    if null != number:
        os.close(null)


def test_an_anchor_that_cannot_be_written_is_bound_for_this_process_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Anchor(tmp_path / "anchor").close()
    before = (tmp_path / "anchor").read_bytes()
    anchor = Anchor(tmp_path / "anchor", write=False)
    anchor.adopt(b"i" * 16)
    assert (anchor.identity, (tmp_path / "anchor").read_bytes()) == (b"i" * 16, before)
    assert [each.getMessage() for each in caplog.records] == ["the journal's anchor cannot be written (EBADF)"]
    anchor.close()


def test_an_anchor_that_is_only_read_stays_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "anchor"
    new = Anchor(tmp_path / "new")
    Anchor(path).close()
    read = Anchor(path, write=False)
    new.note(1, 1, TIP)
    new.close()
    (tmp_path / "new").rename(path)
    assert not read.refresh()
    assert read.read(1) is None
    read.close()


def test_an_append_stands_where_the_anchor_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    anchor = Anchor(tmp_path / "anchor")
    anchor.close()
    broken = Anchor(tmp_path / "anchor", write=False)
    with caplog.at_level(logging.ERROR):
        broken.note(1, 1, TIP)
        broken.note(1, 2, TIP)
    assert [each.getMessage() for each in caplog.records] == ["the journal's anchor cannot be written (EBADF)"]
    broken.close()


def test_a_file_that_is_no_anchor_is_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"SQLite format 3\0" * 8)
    for write in (True, False):
        with pytest.raises(ValueError, match=r"^other is not a journal's anchor\.$"):
            Anchor(tmp_path / "other", write=write)
    with pytest.raises(OSError, match="No such file"):
        Anchor(tmp_path / "missing", write=False)
    assert (tmp_path / "other").read_bytes() == b"SQLite format 3\0" * 8


def test_an_anchor_that_was_removed_is_made_anew_and_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "anchor"
    anchor = Anchor(path)
    anchor.note(1, 1, TIP, since=0)
    for seq in (2, 3):
        path.unlink()
        anchor.note(1, seq, TIP, since=seq - 1)
        anchor.note(2, seq, TIP, since=seq - 1)
        there = Anchor(path, write=False)
        assert [(row, there.read(row)) for row in there.rows()] == [(1, (seq, TIP)), (2, (seq, TIP))]
        there.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.getMessage() for each in caplog.records] == [
        "the journal's anchor was removed or replaced; what it knew of the sessions is gone"
    ]
    anchor.close()
    path.unlink()
    anchor.note(1, 9, TIP)
    assert not path.exists(), "closed is closed"


def test_workers_whose_anchor_was_removed_go_on_in_one_new_file(tmp_path: Path) -> None:
    path = tmp_path / "anchor"
    workers = [Anchor(path) for _ in range(3)]
    path.unlink()
    for row, each in enumerate(workers, 1):
        each.note(row, 1, TIP)
    there = Anchor(path, write=False)
    assert list(there.rows()) == [1, 2, 3]
    for each in (*workers, there):
        each.close()


def test_an_anchor_that_was_replaced_by_an_older_one_is_gone_on_with(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, old = tmp_path / "anchor", tmp_path / "old"
    anchor = Anchor(path)
    anchor.note(1, 1, TIP, since=0)
    old.write_bytes(path.read_bytes())
    anchor.note(1, 2, TIP, since=1)
    old.rename(path)
    anchor.note(1, 3, b"u" * 32, since=2)
    there = Anchor(path, write=False)
    assert there.read(1) == (3, b"u" * 32)
    assert len(caplog.records) == 1
    anchor.close()
    there.close()


@pytest.mark.parametrize("kind", ["file", "folder", "nothing"])
def test_what_cannot_take_the_anchors_place_is_left_alone(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "anchor"
    anchor = Anchor(path)
    path.unlink()
    if kind == "file":
        path.write_bytes(b"SQLite format 3\0" * 8)
    elif kind == "folder":
        path.mkdir()
    else:
        folder.rmdir()
    file = anchor._file
    for _ in range(2):
        assert not anchor.refresh()
    assert len(caplog.records) == 2, "both are told once, also to who only looks"
    for seq in (1, 2):
        anchor.note(1, seq, TIP)
    assert anchor._file == file
    assert len(caplog.records) == 2, "that it is gone, and that there can be no new one"
    assert kind != "file" or path.read_bytes() == b"SQLite format 3\0" * 8
    anchor.close()


def test_an_anchor_knows_its_database_and_keeps_it_through_notes(tmp_path: Path) -> None:
    anchor = Anchor(tmp_path / "anchor")
    assert anchor.identity == b""
    anchor.note(1, 1, TIP)
    anchor.adopt(b"i" * 15 + b"\0")
    anchor.note(2, 1, TIP)
    anchor.close()
    again = Anchor(tmp_path / "anchor", write=False)
    assert again.identity == b"i" * 15 + b"\0"
    assert list(again.rows()) == [1, 2]
    again.close()


def test_an_anchor_of_an_earlier_version_is_read_and_says_of_no_database(tmp_path: Path) -> None:
    path = tmp_path / "anchor"
    path.write_bytes(b"ostinato journal anchor 1\n".ljust(64, b"\0") + (7).to_bytes(8, "big") + TIP)
    anchor = Anchor(path)
    assert (anchor.identity, anchor.read(1)) == (b"", (7, TIP))
    anchor.adopt(b"i" * 16)
    anchor.close()
    again = Anchor(path, write=False)
    assert (again.identity, again.read(1)) == (b"i" * 16, (7, TIP))
    again.close()


def test_an_anchor_says_how_far_it_reaches(tmp_path: Path) -> None:
    anchor = Anchor(tmp_path / "anchor")
    assert anchor.last_row == 0
    for row in (1, 40, 3000, 7):
        anchor.note(row, 1, TIP)
    assert anchor.last_row == 3000
    assert [list(anchor.rows(first)) for first in (0, 7, 8, 3000, 3001)] == [
        [1, 7, 40, 3000],
        [7, 40, 3000],
        [40, 3000],
        [3000],
        [],
    ]
    anchor.close()


def test_an_anchor_in_the_place_of_another_is_read_once_it_is_looked_for(tmp_path: Path) -> None:
    path = tmp_path / "anchor"
    anchor, new = Anchor(path), Anchor(tmp_path / "new")
    anchor.adopt(b"i" * 16)
    anchor.note(1, 9, TIP)
    new.adopt(b"j" * 16)
    new.note(1, 3, TIP)
    assert not anchor.refresh()
    (tmp_path / "new").rename(path)
    assert anchor.read(1) == (9, TIP)
    before = os.fstat(anchor._file).st_ino
    assert anchor.refresh()
    open_now = {os.fstat(int(each)).st_ino for each in os.listdir("/dev/fd") if is_open(int(each))}
    assert before not in open_now, "the file of before is closed"
    assert (anchor.read(1), anchor.identity) == ((3, TIP), b"j" * 16)
    path.unlink()
    assert anchor.refresh()
    assert (anchor.read(1), anchor.identity) == (None, b""), "a new file knows nothing yet"
    anchor.close()
    new.close()
    assert not anchor.refresh()

import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent_core.sessions.entries import Entry, SessionKey
from agent_core.sessions.journal.chain import Anchor, Journal, read_key

JOURNAL = Journal(b"k" * 32)
TIP = b"t" * 32
ENTRY = Entry(seq=3, lane="root", run_id="r1", kind="message", body=b'{"a":1}')
KEY = SessionKey(user_id="ann", session_id="s1")


# The chain


def test_a_seal_is_of_every_part_of_the_entry() -> None:
    others = [
        replace(ENTRY, seq=4),
        replace(ENTRY, lane="root2"),
        replace(ENTRY, run_id="r2"),
        replace(ENTRY, kind="state"),
        replace(ENTRY, body=b'{"a":2}'),
    ]
    seals = {JOURNAL.seal(TIP, each) for each in (ENTRY, *others)} | {JOURNAL.seal(b"u" * 32, ENTRY)}
    assert len(seals) == 7
    assert all(len(each) == 32 for each in seals)


def test_a_seal_never_changes_between_versions() -> None:
    """Journals that were written are checked by later code."""
    assert JOURNAL.genesis(7, KEY).hex() == GENESIS
    assert JOURNAL.seal(TIP, ENTRY).hex() == SEAL
    assert JOURNAL.tombstone(7, 3, TIP, 1_700_000_000_000).hex() == TOMBSTONE
    assert JOURNAL.fingerprint == FINGERPRINT


GENESIS = "49491dd7402fc3d0f4b353f795784f55e2db1c296ca5c968be71e155d979d15f"
SEAL = "8846974d063b5187f97e95248d55f58e2b5188226e60a0ba43b0bde14f987d8b"
TOMBSTONE = "ad16658722c1fa8495a3f2666a22a408167f6a1fb246c49e573a2d8bdd5d2cfe"
FINGERPRINT = "260fd96644ea909f"

words = st.text(st.characters(codec="utf-8"), max_size=3)
entries = st.builds(Entry, seq=st.integers(0, 300), lane=words, run_id=words, kind=words, body=st.binary(max_size=3))


@given(entries, entries)
def test_two_entries_have_the_same_seal_only_where_they_are_the_same(one: Entry, other: Entry) -> None:
    assert (JOURNAL.seal(TIP, one) == JOURNAL.seal(TIP, other)) == (one == other)


@given(st.tuples(st.integers(0, 9), words, words), st.tuples(st.integers(0, 9), words, words))
def test_two_sessions_begin_alike_only_where_they_are_the_same(
    one: tuple[int, str, str], other: tuple[int, str, str]
) -> None:
    first, second = (
        JOURNAL.genesis(row, SessionKey(user_id=user, session_id=name)) for row, user, name in (one, other)
    )
    assert (first == second) == (one == other)


def test_another_key_makes_other_seals_and_another_fingerprint() -> None:
    other = Journal(b"l" * 32)
    assert other.fingerprint != JOURNAL.fingerprint
    assert other.genesis(1, KEY) != JOURNAL.genesis(1, KEY)
    assert other.seal(TIP, ENTRY) != JOURNAL.seal(TIP, ENTRY)
    assert other.tombstone(1, 2, TIP, 3) != JOURNAL.tombstone(1, 2, TIP, 3)


def test_a_tombstone_is_of_every_part_of_the_deletion() -> None:
    made = {
        JOURNAL.tombstone(*each)
        for each in [(1, 2, TIP, 3), (2, 2, TIP, 3), (1, 3, TIP, 3), (1, 2, b"u" * 32, 3), (1, 2, TIP, 4)]
    }
    assert len(made) == 5


# The anchor


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
    for seq in (8, 9):  # the database has only 3 entries any more, and a server goes on writing
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


# The key


def test_a_key_given_as_text_makes_no_file(tmp_path: Path) -> None:
    key = read_key(tmp_path, "a text of some length")
    assert len(key) == 32
    assert read_key(tmp_path, " a text of some length\n") == key
    assert read_key(tmp_path, "a text of some length!") != key
    assert list(tmp_path.iterdir()) == []


def test_a_short_key_is_refused_without_being_shown(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 16 characters") as caught:
        read_key(tmp_path, "tooshort")
    assert "tooshort" not in str(caught.value)


@pytest.mark.parametrize("given", [None, "", "  "])
def test_without_a_given_key_one_is_made_and_kept(tmp_path: Path, given: str | None) -> None:
    folder = tmp_path / "new" / "data"
    key = read_key(folder, given)
    assert len(key) == 32
    assert read_key(folder, given) == key
    assert (folder / "journal.key").read_bytes() == key
    assert stat.S_IMODE((folder / "journal.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [each.name for each in folder.iterdir()] == ["journal.key"]


def test_a_check_makes_no_key(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no such file"):
        read_key(tmp_path, None, create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    read_key(tmp_path, None)
    (tmp_path / "journal.key").chmod(mode)
    with pytest.raises(ValueError, match="others can read"):
        read_key(tmp_path, None)


@pytest.mark.parametrize("size", [0, 31, 33, 1000])
def test_a_key_file_of_another_size_is_refused_and_kept(tmp_path: Path, size: int) -> None:
    (tmp_path / "journal.key").write_bytes(b"x" * size)
    (tmp_path / "journal.key").chmod(0o600)
    with pytest.raises(ValueError, match="32 bytes"):
        read_key(tmp_path, None)
    assert (tmp_path / "journal.key").stat().st_size == size


def test_a_key_that_is_a_folder_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "journal.key").mkdir()
    with pytest.raises(ValueError, match=r"journal\.key"):
        read_key(tmp_path, None)


def test_a_data_directory_that_is_a_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(ValueError, match="cannot be read or written"):
        read_key(tmp_path / "data", None)


def test_workers_that_start_at_once_get_one_key(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from agent_core.sessions.journal.chain import read_key;"
        "sys.stdin.readline(); print(read_key(Path(sys.argv[1]), None).hex())"
    )
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "data")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for each in workers:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    keys = {each.communicate(timeout=60)[0] for each in workers}
    assert len(keys) == 1
    assert len(keys.pop().strip()) == 64

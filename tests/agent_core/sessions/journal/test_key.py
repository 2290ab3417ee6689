import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agent_core.sessions.journal.key import read_key


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
    with pytest.raises(ValueError, match="at least 16 characters"):
        read_key(tmp_path, "x" * 15)
    assert len(read_key(tmp_path, "x" * 16)) == 32


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


def test_a_key_is_on_disk_with_its_folders_before_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[int, int]] = []
    files: list[int] = []
    sync = os.fsync

    def note(file: int) -> None:
        status = os.fstat(file)
        synced.append((status.st_ino, status.st_size if stat.S_ISREG(status.st_mode) else 0))
        files.append(file)
        sync(file)

    monkeypatch.setattr(os, "fsync", note)
    folder = tmp_path / "data"
    key = read_key(folder, None)
    made = (folder / "journal.key").stat()
    assert synced == [(made.st_ino, len(key)), (folder.stat().st_ino, 0), (tmp_path.stat().st_ino, 0)]
    for each in set(files):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(each)
    synced.clear()
    assert (read_key(folder, None), synced) == (key, [])


def test_a_folder_above_that_is_closed_to_us_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync, above = os.fsync, tmp_path.stat().st_ino

    def refuse(file: int) -> None:
        if os.fstat(file).st_ino == above:
            raise PermissionError
        sync(file)

    monkeypatch.setattr(os, "fsync", refuse)
    assert len(read_key(tmp_path / "data", None)) == 32


def test_a_check_makes_no_key(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no such file"):
        read_key(tmp_path, None, create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644, 0o610, 0o601])
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
        "import sys; from pathlib import Path; from agent_core.sessions.journal.key import read_key;"
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

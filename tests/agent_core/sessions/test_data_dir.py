"""A data directory that others can open, and files in it that they can."""

import logging
import os
import stat
from pathlib import Path

import pytest

from agent_core.errors import StoreError
from agent_core.sessions.data_dir import FILES
from agent_core.sessions.storage import open_store
from agent_core.sessions.store import Store


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def set_mode(path: Path, mode: int) -> None:
    path.chmod(mode)


def names_in(path: Path) -> set[str]:
    return {each.name for each in path.iterdir()}


async def opened(path: Path) -> Store:
    return await open_store("sqlite", path, lease_seconds=30)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o711, 0o701, 0o777, 0o2770])
async def test_an_open_directory_of_ours_is_closed_and_that_is_said(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(mode)
    await (await opened(data)).aclose()
    assert mode_of(data) & 0o777 == 0o700
    assert warnings(caplog) == [
        f"{data} was open to others (mode {mode:o}); it is its owner's alone now (mode 700)",
    ]


async def test_open_files_of_ours_are_closed_too_and_others_left_as_they_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = await opened(tmp_path)
    (tmp_path / "notes").write_text("mine")
    for name in names_in(tmp_path):
        set_mode(tmp_path / name, 0o644)
    assert names_in(tmp_path) <= {*FILES, "notes"}
    await store.aclose()
    kept = names_in(tmp_path) - {"notes"}
    store = await opened(tmp_path)
    assert {name: mode_of(tmp_path / name) for name in kept} == dict.fromkeys(kept, 0o600)
    assert mode_of(tmp_path / "notes") == 0o644
    said = warnings(caplog)
    assert len(said) == len(kept)
    assert [text for text in said if "could forge the journal" in text] == [
        text for text in said if "journal.key" in text
    ]
    await store.aclose()


async def test_what_is_closed_already_is_no_news(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        await (await opened(tmp_path / "new")).aclose()
    assert warnings(caplog) == []


async def test_an_open_directory_of_somebody_else_is_refused_and_nothing_is_made_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_mode(tmp_path, 0o755)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(StoreError, match=r"is open to others \(mode 755\) and belongs to another user") as refused:
        await opened(tmp_path)
    assert "\n" not in str(refused.value)
    assert names_in(tmp_path) == set()
    assert mode_of(tmp_path) == 0o755


@pytest.mark.parametrize("name", ["sessions.db", "journal.key", "journal.anchor", "lock"])
async def test_an_open_file_of_somebody_else_is_refused(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await opened(tmp_path)).aclose()
    (tmp_path / name).chmod(0o604)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(StoreError, match=f"{name} is open to others"):
        await opened(tmp_path)


async def test_a_closed_directory_is_used_whoever_it_belongs_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    await (await opened(tmp_path)).aclose()


async def test_a_file_system_without_modes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_mode(tmp_path, 0o777)
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    with pytest.raises(StoreError, match="its file system does not let it be closed"):
        await opened(tmp_path)


async def test_the_directory_beside_postgresql_is_looked_at_before_the_database_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_mode(tmp_path, 0o755)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(StoreError, match="is open to others"):
        await open_store("postgresql://localhost:1/x", tmp_path, lease_seconds=30)

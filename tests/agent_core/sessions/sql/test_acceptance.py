"""The anchor's replacement after a restore, and the names under which the one of before is kept."""

import errno
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent_core.errors import StoreError
from agent_core.sessions.journal.anchor import ANCHOR_FILE, Anchor
from agent_core.sessions.sql import acceptance
from agent_core.sessions.sql.acceptance import accept_database
from tests.agent_core.sessions.sql.sqlite_stores import opened
from tests.agent_core.sessions.stores import KEY, entry, fill

STEM = f"{ANCHOR_FILE}.20261201T050607Z"


class Clock(datetime):
    """It stands still."""

    @classmethod
    def now(cls, tz: Any = None) -> "Clock":
        return cls(2026, 12, 1, 5, 6, 7, tzinfo=tz or UTC)


@pytest.fixture
async def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database, and an anchor that knows of an entry that it has lost."""
    monkeypatch.setattr(acceptance, "datetime", Clock)
    store = await opened(tmp_path)
    await fill(store, KEY, entry(1))
    await store.aclose()
    spoil(tmp_path)
    return tmp_path


def spoil(data: Path) -> bytes:
    anchor = Anchor(data / ANCHOR_FILE)
    anchor.note(1, 2, b"t" * 32)
    anchor.close()
    return (data / ANCHOR_FILE).read_bytes()


def kept_in(data: Path) -> list[str]:
    return names_in(data, f"{ANCHOR_FILE}.")


def names_in(data: Path, beginning: str) -> list[str]:
    return sorted(each.name for each in data.iterdir() if each.name.startswith(beginning))


async def test_each_anchor_is_kept_under_a_name_of_its_own_though_the_second_is_the_same(data: Path) -> None:
    for names in ([STEM], [STEM, f"{STEM}-2"], [STEM, f"{STEM}-2", f"{STEM}-3"]):
        before = spoil(data)
        accepted = accept_database("sqlite", data)
        assert accepted.done
        assert accepted.kept == data / names[-1]
        assert (kept_in(data), accepted.kept.read_bytes()) == (names, before)
        assert not accept_database("sqlite", data).done, "they agree now"


@pytest.mark.parametrize(("code", "goes"), [(errno.EPERM, True), (errno.EXDEV, True), (errno.ENOSPC, False)])
async def test_an_anchor_is_moved_only_where_a_second_name_is_impossible(
    data: Path, code: int, goes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, "no link")

    before = (data / ANCHOR_FILE).read_bytes()
    monkeypatch.setattr(os, "link", refuse)
    if goes:
        assert accept_database("sqlite", data).kept == data / STEM
        assert (data / STEM).read_bytes() == before
    else:
        with pytest.raises(StoreError, match=r"the anchor cannot be replaced \(no link\)"):
            accept_database("sqlite", data)
        assert (kept_in(data), (data / ANCHOR_FILE).read_bytes()) == ([], before)
    assert names_in(data, ".") == [], "no draft is left"

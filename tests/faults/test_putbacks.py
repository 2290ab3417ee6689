"""See putbacks.py."""

from pathlib import Path

from tests.faults.putbacks import put_back_and_accept


async def test_an_older_database_under_a_newer_anchor_is_refused_until_it_is_accepted(tmp_path: Path) -> None:
    await put_back_and_accept(tmp_path / "server")

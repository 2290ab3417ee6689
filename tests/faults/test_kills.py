"""See kills.py."""

from pathlib import Path

from tests.faults.kills import kill_again_and_again


async def test_a_killed_server_has_kept_whatever_it_acknowledged(tmp_path: Path) -> None:
    killed = await kill_again_and_again(tmp_path / "server", 4)
    assert killed.acknowledged > 50

"""See restarts.py."""

from pathlib import Path

from tests.faults.restarts import restart_again_and_again
from tests.postgres import postgres_server, postgres_url

__all__ = ["postgres_url"]


async def test_a_database_that_restarts_in_mid_run_loses_nothing(tmp_path: Path, postgres_url: str) -> None:
    restarted = await restart_again_and_again(tmp_path / "server", postgres_server(), postgres_url, 2)
    assert restarted.ends["completed"]

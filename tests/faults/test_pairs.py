"""See pairs.py."""

from pathlib import Path

from tests.faults.pairs import run_through_both
from tests.postgres import postgres_url

__all__ = ["postgres_url"]


async def test_two_servers_take_turns_in_a_session_and_stop_each_others_runs(tmp_path: Path, postgres_url: str) -> None:
    await run_through_both(tmp_path, postgres_url, 1)

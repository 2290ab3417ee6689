"""See endings.py."""

from pathlib import Path

from tests.faults.endings import end_with_runs


async def test_sigterm_ends_every_run_properly_and_the_next_server_goes_on(tmp_path: Path) -> None:
    ended = await end_with_runs(tmp_path / "server", 30)
    assert ended.ends["draining"] == 24

"""See endings.py."""

from pathlib import Path

from tests.faults.endings import drain_beside_another, end_with_runs


async def test_sigterm_ends_every_run_properly_and_the_next_server_goes_on(tmp_path: Path) -> None:
    ended = await end_with_runs(tmp_path / "server", 30)
    assert ended.ends["draining"] == 24


async def test_while_a_server_drains_another_on_the_same_data_is_refused(tmp_path: Path) -> None:
    await drain_beside_another(tmp_path / "server")

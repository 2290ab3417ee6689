"""See crashes.py."""

from pathlib import Path

from tests.faults.crashes import crash_again_and_again


async def test_a_call_that_a_kill_cut_short_runs_once_whatever_is_asked_for_next(tmp_path: Path) -> None:
    crashed = await crash_again_and_again(tmp_path / "server", 3)
    assert crashed.calls == 36
    assert crashed.again > 0

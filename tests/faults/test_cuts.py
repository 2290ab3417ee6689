"""See cuts.py."""

from pathlib import Path

from tests.faults.cuts import cut_at_each


async def test_a_stream_that_was_cut_anywhere_goes_on_without_a_gap(tmp_path: Path) -> None:
    cut = await cut_at_each(tmp_path / "server", 40)
    assert cut.frames >= 200

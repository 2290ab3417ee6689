"""See pauses.py."""

import sys
from pathlib import Path

from tests.faults.pauses import pause_again_and_again
from tests.missing import skip_without
from tests.postgres import postgres_url

__all__ = ["postgres_url"]


async def test_a_server_that_was_paused_past_its_lease_writes_nothing_any_more(
    tmp_path: Path, postgres_url: str
) -> None:
    skip_without(sys.platform == "linux", "what is stopped is waited for as Linux does it")
    paused = await pause_again_and_again(tmp_path, postgres_url, 3)
    assert paused.overtaken >= 3

"""See outages.py."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

from tests.faults.outages import FAULTS, break_the_store
from tests.missing import skip_without


async def test_a_store_that_is_away_for_a_while_costs_no_more_than_the_runs_of_that_time(tmp_path: Path) -> None:
    skip_without(sys.platform == "linux", "the limit of a running process is set as Linux does it")
    skip_without(
        os.geteuid() != 0 or shutil.which("setpriv") is not None,
        "setpriv is not installed, and root may write anything",
    )
    # At once, each with a server of its own: a database that is locked is waited for.
    async with asyncio.TaskGroup() as group:
        for name in FAULTS:
            group.create_task(break_the_store(tmp_path / name, name), name=name)

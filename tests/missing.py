"""What a test needs and a machine may lack: skipped with the reason, or failed where all must run."""

import os

import pytest


def skip_without(there: bool, reason: str) -> None:
    """Skip the test; with OSTINATO_TEST_ALL set, where everything is to be installed, fail it instead."""
    if there:
        return
    if os.environ.get("OSTINATO_TEST_ALL"):
        pytest.fail(f"{reason}, and OSTINATO_TEST_ALL is set")
    pytest.skip(reason)

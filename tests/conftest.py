"""What every test starts from."""

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """No test writes to the data directory of the folder that it happens to run in."""
    os.environ["OSTINATO_STORE"] = "memory"

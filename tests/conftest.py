"""What every test starts from."""

import os
import signal
import ssl
from functools import cache

import pytest
from hypothesis import settings


def pytest_configure(config: pytest.Config) -> None:
    """No test writes to the data directory of the folder that it happens to run in. Ctrl-C means the same to the
    processes that tests start, whoever started the tests: a shell ignores it in what it runs in the background,
    and children inherit that. Thousands of HTTP clients are made, and all share what they know of certificates, the
    reading of which takes 20 ms."""
    os.environ["OSTINATO_STORE"] = "memory"
    settings.register_profile("untimed", deadline=None)  # a busy machine is no fault of the code's
    settings.load_profile("untimed")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    ssl.create_default_context = cache(ssl.create_default_context)  # type: ignore[assignment]

"""What conftest.py sees to."""

import signal
import subprocess
import sys

CHILD = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
CODE = f"""
import subprocess, sys
from tests.conftest import pytest_configure
print(subprocess.run([sys.executable, "-c", {CHILD!r}], capture_output=True, text=True).stdout.strip())
pytest_configure(None)
print(subprocess.run([sys.executable, "-c", {CHILD!r}], capture_output=True, text=True).stdout.strip())
"""


def test_what_tests_start_obeys_ctrl_c_also_where_the_tests_were_started_with_it_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.stdout.split() == ["False", "True"]

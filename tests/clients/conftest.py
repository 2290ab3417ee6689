"""The one browser of the tests in this folder."""

from collections.abc import Iterator

import pytest

from tests.clients.browser import Browser, started


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with started() as found:
        yield found

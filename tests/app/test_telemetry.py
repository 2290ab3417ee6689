"""The log: what it shows, and what it never does."""

import logging
from collections.abc import Iterator

import pytest

from app.telemetry import TALKATIVE, configure_logging, hold_back_libraries

CONFIGURED = ("", "uvicorn", *TALKATIVE)


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in CONFIGURED]
    levels = [each.level for each in loggers]
    handlers = list(loggers[0].handlers)
    for each in loggers:
        each.setLevel(logging.NOTSET)
    yield
    loggers[0].handlers[:] = handlers
    for each, level in zip(loggers, levels, strict=True):
        each.setLevel(level)


@pytest.mark.parametrize("name", TALKATIVE)
@pytest.mark.parametrize("root", [logging.DEBUG, logging.INFO, logging.WARNING])
def test_a_talkative_library_is_raised_to_info_and_never_lowered(name: str, root: int) -> None:
    logging.getLogger().setLevel(root)
    hold_back_libraries()
    assert logging.getLogger(name).level == max(root, logging.INFO)
    logging.getLogger(name).setLevel(logging.ERROR)
    hold_back_libraries()
    assert logging.getLogger(name).level == logging.ERROR


def test_a_root_that_is_turned_to_debug_later_changes_nothing() -> None:
    logging.getLogger().setLevel(logging.WARNING)
    hold_back_libraries()
    logging.getLogger().setLevel(logging.DEBUG)
    assert not any(logging.getLogger(name).isEnabledFor(logging.DEBUG) for name in TALKATIVE)


@pytest.mark.parametrize(("level", "httpx"), [("debug", logging.INFO), ("info", logging.WARNING)])
def test_the_servers_own_level_counts_once_it_is_known(level: str, httpx: int) -> None:
    logging.getLogger().setLevel(logging.ERROR)
    hold_back_libraries()
    logging.getLogger().handlers.clear()  # basicConfig sets no level if there is a handler already
    configure_logging(level)
    assert logging.getLogger().level == logging.getLevelName(level.upper())
    assert logging.getLogger("sse_starlette").level == logging.INFO
    assert logging.getLogger("httpx").level == httpx

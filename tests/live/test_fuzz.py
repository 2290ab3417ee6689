"""Fuzzed bodies on both endpoints, over real sockets and kept connections: whatever comes, an answer goes out.

Each body is made from its number, so a failure names what makes it again. `make test` sends 1 000 to each
endpoint; OSTINATO_FUZZ=10000 (`make fuzz`) sends more and prints the figures.
"""

import asyncio
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from tests.live.fuzz_clients import CLIENTS, Check, check_agui, check_chat, fuzz
from tests.live.fuzzing import Case, agui_case, chat_case
from tests.turns import TIMES, collected_as_served

NUMBER = int(os.environ.get("OSTINATO_FUZZ", "1000"))


@pytest.mark.parametrize(
    ("path", "make", "check"),
    [("/agui", agui_case, check_agui), ("/v1/chat/completions", chat_case, check_chat)],
    ids=["agui", "chat"],
)
def test_no_body_breaks_the_server_or_leaves_a_stream_without_its_end(
    path: str,
    make: Callable[[int], Case],
    check: Check,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # The server's own loop and not pytest's, because its turns are measured.
    uvloop = pytest.importorskip("uvloop")
    for _ in range(TIMES):
        with collected_as_served(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            clients, turns = runner.run(fuzz(path, make, check, NUMBER))
        if not turns.too_long:
            break
    outcomes = sum((client.outcomes for client in clients), Counter[str]())
    connects = sum(client.connects for client in clients)
    if "OSTINATO_FUZZ" in os.environ:
        told = f"{path}: {dict(outcomes.most_common())}, {connects} connections, "
        told += f"the loop's worst turn {turns.worst * 1000:.0f} ms of CPU ({turns.looks} looks)"
        with capsys.disabled():
            sys.stdout.write(f"\n{told}\n")
    assert outcomes.total() == NUMBER
    assert sum(count for outcome, count in outcomes.items() if not outcome.isdecimal()) > NUMBER / 20, outcomes
    assert outcomes["400"] > NUMBER / 20, "bodies must be bad enough to be refused, too"
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert connects == CLIENTS, "a refusal must not cost the connection"
    assert turns.looks > NUMBER / 10
    assert turns.too_long == []

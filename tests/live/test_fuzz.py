"""Fuzzed bodies on both endpoints, over real sockets and kept connections: whatever comes, an answer goes out.

Each body is made from its number, so a failure names what makes it again. `make test` sends 1 000 to each
endpoint; OSTINATO_FUZZ=10000 (`make fuzz`) sends more and prints the figures.
"""

import asyncio
import http.client
import json
import logging
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from agent_core import Agent
from tests.agent_core.react.agents import add
from tests.app.doubles import until
from tests.live.fuzzing import Case, agui_case, chat_case
from tests.live.test_disconnects import quiet
from tests.serving import serving

NUMBER = int(os.environ.get("OSTINATO_FUZZ", "1000"))

CLIENTS = 4
"""Connections at the same time, each with a thread of its own."""

ANSWER = 64 * 1024
"""Bytes of a refusal at most."""

BLOCKED = 0.25
"""Seconds of its thread's CPU time that the event loop may spend between two turns of another task."""

Check = Callable[[bytes, bool], str]


@dataclass(slots=True)
class Watchdog:
    """Wakes all the time in the server's loop, and notes what the loop's thread has worked in between.

    CPU time and not the clock's, because other processes, and the clients in this one, make a thread wait
    that blocks nobody. What it notes is more than any one callback took: the work of a whole turn of the
    loop. Waiting for something in the loop's thread would not be seen; only work is.
    """

    worst: float = 0.0
    looks: int = 0

    async def watch(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0.002)
            now = time.thread_time()
            self.worst = max(self.worst, now - last)
            last = now
            self.looks += 1


@dataclass(slots=True)
class Client:
    """One connection that is kept, for as long as the server keeps it."""

    port: int
    path: str
    check: Check
    outcomes: Counter[str] = field(default_factory=Counter)
    connects: int = 0

    def send_all(self, cases: Sequence[Callable[[], Case]]) -> None:
        """Send one after another. Raises AssertionError with the case that got no good answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            for make in cases:
                case = make()
                try:
                    self._send(connection, case)
                except (AssertionError, OSError, ValueError, KeyError, http.client.HTTPException) as failure:
                    raise AssertionError(f"{case.told()}\n{type(failure).__name__}: {failure}") from failure
        finally:
            connection.close()

    def _send(self, connection: http.client.HTTPConnection, case: Case) -> None:
        if connection.sock is None:
            self.connects += 1
        connection.request("POST", self.path, body=case.body, headers=case.headers)
        response = connection.getresponse()
        answer = response.read()  # raises IncompleteRead where a stream is cut
        streamed = response.headers.get_content_type() == "text/event-stream"
        if response.status == 200:
            outcome = self.check(answer, streamed)
        else:
            assert 400 <= response.status < 500, (response.status, answer[:500])
            assert not streamed
            assert len(answer) < ANSWER
            error = json.loads(answer)["error"]
            assert set(error) == {"message", "type", "param", "code", "request_id"}
            outcome = str(response.status)
        self.outcomes[outcome] += 1


def check_agui(answer: bytes, streamed: bool) -> str:
    """How the stream ended. Raises AssertionError where it did not, or with the server's own failure."""
    assert streamed
    frames = [json.loads(frame) for frame in frames_in(answer.decode())]
    kinds = [frame["type"] for frame in frames]
    assert kinds[0] == "RUN_STARTED"
    assert [kind for kind in kinds if kind in ("RUN_FINISHED", "RUN_ERROR")] == kinds[-1:]
    assert frames[-1].get("code") != "internal", frames[-1]
    return str(kinds[-1])


def check_chat(answer: bytes, streamed: bool) -> str:
    """Likewise for a chat completion, streamed or whole."""
    if not streamed:
        [choice] = json.loads(answer)["choices"]
        return f"whole {choice['finish_reason']}"
    *frames, done = frames_in(answer.decode())
    assert done == "[DONE]"
    chunks: list[dict[str, Any]] = [json.loads(frame) for frame in frames]
    assert "error" not in chunks[-1], chunks[-1]  # the model never fails here
    reasons = [c["choices"][0]["finish_reason"] for c in chunks if c["choices"]]
    [reason] = [each for each in reasons if each is not None]
    return f"stream {reason}"


def frames_in(text: str) -> list[str]:
    """What the stream's events hold; comments are left out."""
    blocks = text.split("\n\n")
    assert blocks.pop() == "", "the last event has no end"
    blocks = [block for block in blocks if not block.startswith(":")]
    found = [re.fullmatch(r"(?:id: [0-9]+\.[0-9]+\n)?data: (.*)", block) for block in blocks]
    assert None not in found
    return [each[1] for each in found if each is not None]


async def fuzz(path: str, make: Callable[[int], Case], check: Check) -> tuple[list[Client], Watchdog]:
    """Send all cases to a server in this loop, from threads."""
    watchdog = Watchdog()
    async with serving(Agent("a", "fake:fake", tools=[add])) as up:
        watching = asyncio.create_task(watchdog.watch())
        clients = [Client(up.port, path, check) for _ in range(CLIENTS)]
        async with asyncio.TaskGroup() as group:
            for first, client in enumerate(clients):
                cases = [partial(make, number) for number in range(first, NUMBER, CLIENTS)]
                group.create_task(asyncio.to_thread(client.send_all, cases))
        await until(lambda: quiet(up))
        watching.cancel()
    return clients, watchdog


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
    # Not pytest's own loop but the server's, whose turns are what is measured.
    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        clients, watchdog = runner.run(fuzz(path, make, check))
    outcomes = sum((client.outcomes for client in clients), Counter[str]())
    connects = sum(client.connects for client in clients)
    if "OSTINATO_FUZZ" in os.environ:
        told = f"{path}: {dict(outcomes.most_common())}, {connects} connections, "
        told += f"the loop's worst turn {watchdog.worst * 1000:.0f} ms of CPU ({watchdog.looks} looks)"
        with capsys.disabled():
            sys.stdout.write(f"\n{told}\n")
    assert outcomes.total() == NUMBER
    assert sum(count for outcome, count in outcomes.items() if not outcome.isdecimal()) > NUMBER / 20, outcomes
    assert outcomes["400"] > NUMBER / 20, "bodies must be bad enough to be refused, too"
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert connects == CLIENTS, "a refusal must not cost the connection"
    assert 0 < watchdog.worst < BLOCKED

"""Sending fuzzed bodies over real sockets and kept connections, and judging the answers."""

import asyncio
import http.client
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from agent_core import Agent
from tests.agent_core.react.agents import add
from tests.app.doubles import until
from tests.live.fuzzing import Case
from tests.live.test_disconnects import quiet
from tests.serving import serving
from tests.turns import Turns, watched

CLIENTS = 4
"""Connections at the same time, each with a thread of its own."""

ANSWER = 64 * 1024
"""Bytes of a refusal at most."""

Check = Callable[[bytes, bool], str]


@dataclass(slots=True)
class Client:
    """One connection that is kept, for as long as the server keeps it."""

    port: int
    path: str
    check: Check
    outcomes: Counter[str] = field(default_factory=Counter)
    connects: int = 0
    sending: Case | None = None

    def send_all(self, cases: Sequence[Callable[[], Case]]) -> None:
        """Send one after another. Raises AssertionError with the case that got no good answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            for make in cases:
                case = self.sending = make()
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


async def fuzz(path: str, make: Callable[[int], Case], check: Check, number: int) -> tuple[list[Client], Turns]:
    """Send so many cases to a server in this loop, from threads. A turn of the loop that is too long is told with the
    cases that were being sent."""
    clients: list[Client] = []

    def beside() -> str:
        return "\n".join(client.sending.told() for client in clients if client.sending is not None)

    async with serving(Agent("a", "fake:fake", tools=[add])) as up, watched(beside) as turns:
        clients += [Client(up.port, path, check) for _ in range(CLIENTS)]
        async with asyncio.TaskGroup() as group:
            for first, client in enumerate(clients):
                cases = [partial(make, number) for number in range(first, number, CLIENTS)]
                group.create_task(asyncio.to_thread(client.send_all, cases))
        await until(lambda: quiet(up))
    return clients, turns

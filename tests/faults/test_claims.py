"""A request without a session and with a key: its server is killed, and it comes again to the other on the database."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.client import calling
from tests.faults.pauses import Pair, make_pair
from tests.postgres import postgres_url

__all__ = ["postgres_url"]

LEASE = 2.0
"""Seconds; the requests wait longer than that for a server that is alive."""


async def ask(http: httpx.AsyncClient, program: str) -> tuple[int, Any]:
    """The status and the answer to this program under this key."""
    body = {"model": "worker", "messages": [{"role": "user", "content": program}]}
    response = await http.post("/v1/chat/completions", json=body, headers={"idempotency-key": program})
    return response.status_code, response.json()


async def kill_in(pair: Pair, one: httpx.AsyncClient, two: httpx.AsyncClient, program: str, gate: str) -> Any:
    """Kill the first server while it waits at the gate, and ask the second; what that answers."""
    first = asyncio.create_task(ask(one, program))
    await pair.gate.arrived(gate)
    second = asyncio.create_task(ask(two, program))
    # Longer than the lease: the first server is alive, and so the second one waits.
    await asyncio.wait({second}, timeout=2 * LEASE)
    assert not second.done()
    await pair.one.kill()
    with pytest.raises(httpx.TransportError):
        await first
    pair.gate.let_go(gate)
    return await second


@pytest.mark.parametrize("acted", [True, False])
async def test_a_request_is_answered_anew_only_where_no_call_of_the_killed_server_had_begun(
    acted: bool, tmp_path: Path, postgres_url: str
) -> None:
    async with AsyncExitStack() as stack:
        pair = await make_pair(stack, tmp_path, postgres_url, LEASE)
        one = await stack.enter_async_context(calling(pair.one.url))
        two = await stack.enter_async_context(calling(pair.two.url))
        program = "hold:g say:2" if acted else "say:3:g"
        status, answer = await kill_in(pair, one, two, program, "g")
        if acted:
            assert (status, answer["error"]["code"]) == (502, "worker_lost")
            assert len(_lines(pair.effects)) == 1, "the tool has run once"
        else:
            assert (status, answer["choices"][0]["message"]["content"]) == (200, "0 1 2 ")
        later, same = await ask(two, program)
        assert (later, same.get("choices")) == (status, answer.get("choices"))


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()

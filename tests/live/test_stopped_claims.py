"""Requests without a session whose run was stopped behind a call: whoever comes with the same request gets an answer,
and the call does not run again."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_core.errors import ModelError, RunError
from tests.app.doubles import Running, until
from tests.doubles import ScriptedModel, calls, says
from tests.live.test_claims import KEY, Register
from tests.live.test_disconnects import quiet
from tests.live.test_openai import ask, post, stream, text_of
from tests.live.test_openai_again import FIRST, SECOND, content_of, on_disk
from tests.live.two_servers import pair, services_of, take_for_dead
from tests.serving import serving

TOLD = {"x-stainless-timeout": "600"}
"""Whoever leaves much earlier has stopped its run, or lost its connection."""

CHARGE = calls(("charge", "{}"))


def results(model: ScriptedModel) -> list[str]:
    """Of the last request to the model."""
    return [message.text for message in model.requests[-1].messages if message.role == "tool"]


async def leave(up: Running, register: Register, **headers: str) -> None:
    """Send the request, and leave while its tool runs."""
    register.go_on.clear()
    left = asyncio.create_task(post(up.url, ask("pay"), **headers))
    await register.begun.wait()
    left.cancel()
    await until(lambda: quiet(up))
    register.go_on.set()


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(("first", "again"), [(KEY, KEY), (FIRST, SECOND)])
async def test_a_call_that_had_begun_when_its_client_left_is_not_run_again(
    first: dict[str, str], again: dict[str, str], streamed: bool
) -> None:
    register = Register()
    agent, model = register.agent(CHARGE, says("done"))
    async with serving(agent) as up:
        body = ask("pay", stream=streamed)
        register.go_on.clear()
        left = asyncio.create_task(post(up.url, body, **first, **TOLD))
        await register.begun.wait()
        left.cancel()
        await until(lambda: quiet(up))
        for _ in range(2):
            if streamed:
                assert text_of(await stream(up.url, body, **again, **TOLD)) == "done"
            else:
                assert content_of(await post(up.url, body, **again, **TOLD)) == "done"
    assert (register.charged, len(model.requests)) == (1, 2)
    assert "whether the call had an effect is not known" in results(model)[0]


async def test_what_was_done_is_kept_through_further_attempts_that_fail_or_are_left(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    register = Register()
    agent, model = register.agent(
        CHARGE, [ModelError("model_unreachable")], [*says("half"), go_on, *says(" an answer")], says("done")
    )
    async with pair(tmp_path, agent) as (one, two):
        await leave(one, register, **KEY, **TOLD)
        assert (await post(two.url, ask("pay"), **KEY)).status_code == 502
        model.streaming.clear()
        second = asyncio.create_task(post(one.url, ask("pay"), **KEY, **TOLD))
        await until(lambda: len(model.requests) == 3)
        second.cancel()
        await until(lambda: quiet(one))
        assert content_of(await post(two.url, ask("pay"), **KEY)) == "done"
        assert content_of(await post(one.url, ask("pay"), **KEY)) == "done"
    assert (register.charged, len(model.requests)) == (1, 4)
    assert [message.role for message in model.requests[-1].messages] == ["user", "assistant", "tool"]


@pytest.mark.parametrize(("first", "again"), [(KEY, KEY), (FIRST, SECOND)])
async def test_a_request_whose_server_ended_goes_on_at_the_next(
    first: dict[str, str], again: dict[str, str], tmp_path: Path
) -> None:
    register = Register()
    agent, model = register.agent(CHARGE, [*says("half"), asyncio.Event()], says("done"))
    async with on_disk(tmp_path, agent, drain_seconds=0.1) as up:
        asked = asyncio.create_task(post(up.url, ask("pay"), **first))
        await until(lambda: len(model.requests) == 2)
    assert (await asked).json()["error"]["code"] == "draining"
    async with on_disk(tmp_path, agent) as up:
        assert content_of(await post(up.url, ask("pay"), **again)) == "done"
    assert (register.charged, results(model)) == (1, ["charged"])


async def test_a_retry_without_a_key_runs_no_call_again_that_had_begun_when_its_server_was_lost(
    tmp_path: Path,
) -> None:
    register = Register()
    register.go_on.clear()
    agent, model = register.agent(CHARGE, says("done"))
    async with pair(tmp_path, agent) as (one, two):
        first = asyncio.create_task(post(one.url, ask("pay"), **FIRST))
        await register.begun.wait()
        await take_for_dead(one)
        for _ in range(2):
            lost = await post(two.url, ask("pay"), **SECOND)
            assert (lost.status_code, lost.json()["error"]["code"]) == (502, "worker_lost")
        register.go_on.set()
        assert content_of(await first) == "done"
        assert content_of(await post(two.url, ask("pay"), **SECOND)) == "done", "its answer may have been lost"
    assert (register.charged, len(model.requests)) == (1, 2)


async def test_equal_requests_without_a_key_do_not_disturb_one_another(tmp_path: Path) -> None:
    register = Register()
    agent, _ = register.agent(*[lambda request: CHARGE if request.messages[-1].role == "user" else says("done")] * 16)
    async with pair(tmp_path, agent) as servers:
        answers = await asyncio.gather(*(post(servers[n % 2].url, ask("pay"), **FIRST) for n in range(8)))
        assert [content_of(answer) for answer in answers] == ["done"] * 8
    assert register.charged == 8


async def test_a_store_that_fails_does_not_keep_a_request_without_a_key_from_its_tools(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise RunError("store_unavailable")

    register = Register()
    agent, _ = register.agent(CHARGE, says("done"))
    async with serving(agent) as up:
        monkeypatch.setattr(services_of(up).engine.store.records, "keep", fail)
        assert content_of(await post(up.url, ask("pay"), **FIRST)) == "done"
    assert register.charged == 1


@pytest.mark.parametrize("session", [{}, {"x-session-id": "s1"}])
async def test_a_retry_that_comes_while_its_run_is_being_stopped_gets_an_answer(session: dict[str, str]) -> None:
    register = Register()
    agent, model = register.agent(CHARGE, says("done"))
    headers = KEY | TOLD | session
    async with serving(agent) as up:
        register.go_on.clear()
        left = asyncio.create_task(post(up.url, ask("pay"), **headers))
        await register.begun.wait()
        left.cancel()
        answers = await asyncio.gather(*(post(up.url, ask("pay"), **headers) for _ in range(4)))
        assert [content_of(each) for each in answers] == ["done"] * 4
    assert (register.charged, len(model.requests)) == (1, 2)

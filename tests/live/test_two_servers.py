"""What one server keeps of a session's runs is not given out after the session was deleted through another."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_core import Agent, Engine
from agent_core.errors import RunError
from app.runs.run import ServedRun
from tests.doubles import ScriptedModel, says
from tests.live.test_openai import ask, post
from tests.live.test_openai_again import content_of
from tests.live.two_servers import pair, services_of
from tests.serving import run, run_input, serving, text_of

SECRET = "ann's secret"


def answering(*texts: str) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel([says(text) for text in texts])
    return Agent("a", model), model


async def again(url: str, body: dict[str, Any], way: str) -> httpx.Response:
    """Ask for the run once more, in one of the two ways."""
    async with httpx.AsyncClient(timeout=20) as http:
        if way == "get":
            return await http.get(f"{url}/sessions/{body['threadId']}/runs/{body['runId']}/events")
        return await http.post(f"{url}/agui", json=body, headers={"last-event-id": "1.0"})


@pytest.mark.parametrize("way", ["get", "post"])
@pytest.mark.parametrize("anew", [False, True])
async def test_a_run_of_a_deleted_session_is_not_read_from_the_log_of_the_other_server(
    anew: bool, way: str, tmp_path: Path
) -> None:
    agent, model = answering(SECRET, "new")
    async with pair(tmp_path, agent) as (one, two):
        body = run_input("hello", thread="t1")
        assert text_of(await run(one.url, body)) == SECRET
        assert SECRET in (await again(one.url, body, "get")).text
        async with httpx.AsyncClient() as http:
            assert (await http.delete(f"{two.url}/sessions/t1")).status_code == 204
        if anew:
            await run(two.url, run_input("hello", thread="t1"))
        response = await again(one.url, body, way)
        assert SECRET not in response.text
        assert response.status_code == (404 if way == "get" else 200)
        assert services_of(one).runs.find("local", "t1", body["runId"]) is None or way == "post"
        assert services_of(one).runs.retention.weight < 10_000
    assert len(model.requests) == 1 + anew + (way == "post")


@pytest.mark.parametrize("anew", [False, True])
async def test_a_request_of_a_deleted_session_that_comes_again_is_a_new_one(anew: bool, tmp_path: Path) -> None:
    agent, model = answering(SECRET, "new", "newer")
    headers = {"x-session-id": "s1", "idempotency-key": "k1"}
    async with pair(tmp_path, agent) as (one, two):
        assert content_of(await post(one.url, ask("hello"), **headers)) == SECRET
        assert content_of(await post(one.url, ask("hello"), **headers)) == SECRET
        async with httpx.AsyncClient() as http:
            assert (await http.delete(f"{two.url}/sessions/s1")).status_code == 204
        if anew:
            await post(two.url, ask("something"), **{"x-session-id": "s1"})
        assert content_of(await post(one.url, ask("hello"), **headers)) == ("newer" if anew else "new")
    assert len(model.requests) == 2 + anew


async def test_a_run_of_the_openai_endpoint_is_not_read_after_its_session_was_deleted(tmp_path: Path) -> None:
    agent, _ = answering(SECRET)
    async with pair(tmp_path, agent) as (one, two):
        first = await post(one.url, ask("hello"), **{"x-session-id": "s1", "x-on-disconnect": "continue"})
        run_id = first.json()["x_agent"]["run_id"]
        body = {"threadId": "s1", "runId": run_id}
        assert SECRET in (await again(one.url, body, "get")).text
        async with httpx.AsyncClient() as http:
            await http.delete(f"{two.url}/sessions/s1")
        assert (await again(one.url, body, "get")).status_code == 404


async def test_a_kept_log_is_not_given_out_where_the_store_cannot_say(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any) -> None:
        raise RunError("store_unavailable")

    agent, _ = answering(SECRET)
    async with serving(agent) as up:
        body = run_input("hello", thread="t1")
        await run(up.url, body)
        with monkeypatch.context() as patch:
            patch.setattr(services_of(up).engine.store, "find", fail)
            assert (await again(up.url, body, "get")).status_code == 503
        assert SECRET in (await again(up.url, body, "get")).text


async def test_a_run_that_stored_nothing_needs_no_session() -> None:
    agent, _ = answering(SECRET)
    async with Engine() as engine:
        served = ServedRun(engine, engine.admit(agent, "go", user_id="u", session_id="s", ephemeral=True), 60)
        await served.task
        assert served.row is None
        other = ServedRun(engine, engine.admit(agent, "go", user_id="u", session_id="s"), 60)
        assert other.row is None
        await other.task
        info = await engine.store.find(engine.session("u", "s").key)
        assert info is not None
        assert other.row == info.row

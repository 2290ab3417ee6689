"""What an upstream can do to a run: one terminal event each time, and the session goes on."""

from typing import Any

import pytest

from agent_core import Agent, tool
from agent_core.messages import Message
from agent_core.models.openai_chat import OpenAIChat
from agent_core.names import SessionKey
from agent_core.sessions.history import history_of
from app.settings import Settings
from tests.app.doubles import Running
from tests.scripted import Reply, ScriptedUpstream, Step, answer, calls, error, refuse_port, says, sse, text
from tests.serving import results_of, run, run_input, serving, text_of, types_of

HTML = Reply(headers={"content-type": "text/html"}, steps=(b"<html>gateway page</html>",))


@tool
def get_time() -> str:
    """Get the time."""
    return "noon"


@tool
def boom() -> str:
    """Always fails."""
    raise ValueError("secret-detail")


def agent_on(base_url: str, **limits: Any) -> Agent:
    model = OpenAIChat("gpt-test", api_key="sk-test-key", base_url=base_url)
    return Agent("a", model, tools=[get_time, boom], **{"max_retries": 0, **limits})


async def history(up: Running, session_id: str = "t1") -> list[Message]:
    store = up.server.app.state.services.engine.store
    return history_of(await store.load(SessionKey(user_id="local", session_id=session_id)), "a").messages


def assert_paired(messages: list[Message]) -> None:
    asked = [call.id for message in messages for call in message.tool_calls]
    answered = [message.tool_call_id for message in messages if message.role == "tool"]
    assert sorted(asked) == sorted(answered)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (error(401, "secret-detail"), "model_auth"),
        (error(403, "secret-detail"), "model_auth"),
        (error(404, "secret-detail"), "model_refused"),
        (error(429, "secret-detail"), "model_quota"),
        (error(500, "secret-detail"), "model_unreachable"),
        (HTML, "model_bad_answer"),
        (answer(text("so"), sse(b"{not json")), "model_bad_answer"),
        (answer(text("so"), sse({"error": {"message": "secret-detail", "code": 503}})), "model_unreachable"),
        (answer(text("so"), Step.DROP), "model_unreachable"),
        (answer(text("so"), Step.CLOSE), "model_unreachable"),
        (answer(text("so"), Step.HANG), "model_timeout"),
        (answer(text("so")), "model_bad_answer"),
        (answer(Step.HANG), "model_timeout"),
        (Reply(raw=b"", steps=(Step.DROP,)), "model_unreachable"),
        (Reply(raw=b"not http at all\r\n\r\n"), "model_bad_answer"),
        (error(400, "secret-detail", code="context_length_exceeded"), "context_overflow"),
    ],
)
async def test_a_failing_upstream_is_one_run_error_and_the_session_goes_on(reply: Reply, code: str) -> None:
    async with ScriptedUpstream([reply, says("back again")]) as upstream:
        async with serving(agent_on(upstream.base_url), settings=Settings(model_idle_seconds=0.2)) as up:
            frames = await run(up.url, run_input("go"))
            assert types_of(frames)[-1] == "RUN_ERROR"
            assert frames[-1]["code"] == code
            assert "secret" not in str(frames)
            assert "sk-test-key" not in str(frames)
            if "TEXT_MESSAGE_START" in types_of(frames):
                assert types_of(frames)[-2] == "TEXT_MESSAGE_END"
            again = await run(up.url, run_input("once more"))
            assert text_of(again) == "back again"
            assert_paired(await history(up))
        await upstream.closed()


async def test_an_upstream_that_refuses_is_unreachable() -> None:
    base_url = f"http://127.0.0.1:{refuse_port()}/v1"
    async with serving(agent_on(base_url)) as up:
        frames = await run(up.url, run_input("go"))
        assert frames[-1]["code"] == "model_unreachable"
        assert "network" in frames[-1]["message"]


async def test_a_rate_limit_is_waited_out_and_the_run_succeeds() -> None:
    script = [error(429, "slow down", retry_after="0"), says("there")]
    async with ScriptedUpstream(script) as upstream, serving(agent_on(upstream.base_url, max_retries=2)) as up:
        frames = await run(up.url, run_input("go"))
    assert text_of(frames) == "there"
    [retry] = [frame["value"] for frame in frames if frame["type"] == "CUSTOM"]
    assert (retry["code"], retry["attempt"]) == ("model_quota", 1)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (calls("no_such_tool"), "boom, get_time"),
        (calls("get_time", "{not json"), "not a JSON object"),
        (calls("get_time", '{"zone": 1}'), "zone"),
        (calls("boom"), "ValueError"),
    ],
    ids=["unknown tool", "broken arguments", "unwanted argument", "tool that raises"],
)
async def test_a_call_that_goes_wrong_is_a_result_for_the_model(call: Reply, told: str) -> None:
    script = [call, says("so it goes"), says("back again")]
    async with ScriptedUpstream(script) as upstream, serving(agent_on(upstream.base_url)) as up:
        frames = await run(up.url, run_input("go"))
        assert text_of(await run(up.url, run_input("once more"))) == "back again"
        assert_paired(await history(up))
    [result] = results_of(frames)
    assert told in result
    assert "secret" not in result
    assert frames[-1]["result"] == {"status": "completed"}


async def test_the_hard_deadline_ends_the_run_with_its_own_code() -> None:
    async with ScriptedUpstream([answer(text("so"), Step.HANG), says("back")]) as upstream:
        async with serving(agent_on(upstream.base_url), settings=Settings(run_seconds=0.3)) as up:
            frames = await run(up.url, run_input("go"))
            assert frames[-1]["code"] == "run_deadline"
            await upstream.closed()
            assert text_of(await run(up.url, run_input("again"))) == "back"

"""What a transcript means, at the doors: AG-UI and the OpenAI endpoint with a session, over real sockets."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_core import Agent, tool
from agent_core.names import SessionKey
from app.settings import Settings
from tests.app.doubles import until
from tests.doubles import ScriptedModel, calls, says
from tests.live.test_disconnects import quiet
from tests.live.test_openai import PICK, ask, post, stream
from tests.live.test_openai import text_of as said_in
from tests.live.two_servers import pair
from tests.serving import frames_of, opened, run, run_input, serving, text_of, types_of

S1 = {"x-session-id": "s1"}


class Work:
    """An agent whose tool counts, and whose model says how often it was asked."""

    def __init__(self, *steps: Any) -> None:
        self.done = 0

        @tool
        async def work() -> str:
            """Works."""
            self.done += 1
            return "worked"

        self.model = ScriptedModel(steps or [calls(("work", "{}")), says("one"), says("two"), says("three")])
        self.agent = Agent("a", self.model, tools=[work], max_retries=0)

    def seen(self, at: int = -1) -> list[str]:
        return [each.text for each in self.model.requests[at].messages]


def said(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]["content"]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


@pytest.mark.parametrize("same", [True, False])
async def test_the_same_request_twice_at_once_runs_its_tool_once_and_both_are_told(same: bool) -> None:
    go_on = asyncio.Event()
    work = Work(calls(("work", "{}")), [go_on, *says("one")], says("never"))
    async with serving(work.agent) as up:
        body = run_input("go", runId="r1")
        first = asyncio.create_task(run(up.url, body))
        await work.model.streaming.wait()
        second = asyncio.create_task(run(up.url, body if same else body | {"runId": "r2"}))
        runs = up.server.app.state.services.runs
        await until(lambda: next(iter(runs._runs))._readers == 2 if same else len(runs) == 2)
        go_on.set()
        one, two = await first, await second
        assert quiet(up)
    assert (work.done, len(work.model.requests), text_of(one)) == (1, 2, "one")
    assert types_of(two) == (types_of(one) if same else ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"])
    assert one[-1] == two[-1] or not same


async def test_where_a_busy_session_refuses_the_same_run_id_joins_and_another_is_a_409() -> None:
    go_on = asyncio.Event()
    work = Work([go_on, *says("one")], says("never"))
    async with serving(work.agent, settings=Settings(store="memory", when_busy="reject")) as up:
        body = run_input("go", runId="r1")
        first = asyncio.create_task(run(up.url, body))
        await work.model.streaming.wait()
        second = asyncio.create_task(run(up.url, body))
        async with opened(up.url, body | {"runId": "r2"}) as response:
            assert (response.status_code, b"session_busy" in await response.aread()) == (409, True)
        runs = up.server.app.state.services.runs
        await until(lambda: next(iter(runs._runs))._readers == 2)
        go_on.set()
        assert [text_of(await each) for each in (first, second)] == ["one", "one"]
    assert len(work.model.requests) == 1


@pytest.mark.parametrize("same", [True, False])
async def test_two_requests_at_once_through_two_servers_mean_what_they_mean_through_one(
    same: bool, tmp_path: Path
) -> None:
    go_on = asyncio.Event()
    work = Work(says("zero"), calls(("work", "{}")), [go_on, *says("one")], says("two"))
    async with pair(tmp_path, work.agent) as (one, two):
        start = run_input("start", runId="r0")
        [end] = [each for each in await run(one.url, start) if each["type"] == "TEXT_MESSAGE_START"]
        front = [*start["messages"], {"id": end["messageId"], "role": "assistant", "content": "zero"}]
        go, other = run_input("go"), run_input("something else")
        go["messages"] = [*front, *go["messages"]]
        other["messages"] = [*front, *other["messages"]]
        first = asyncio.create_task(run(one.url, go))
        await work.model.streaming.wait()
        second = asyncio.create_task(run(two.url, go | {"runId": "again"} if same else other))
        await until(lambda: len(two.server.app.state.services.runs) == 1)
        go_on.set()
        assert text_of(await first) == "one"
        told = await second
    assert work.done == 1
    if same:
        assert types_of(told) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    else:
        assert work.seen() == ["start", "zero", "go", "", "worked", "one", "something else"]


async def test_an_approval_under_the_interrupted_run_s_id_is_no_repetition() -> None:
    done: list[str] = []

    @tool(approval=True)
    async def mail() -> str:
        """Sends mail."""
        done.append("sent")
        return "sent"

    agent = Agent("a", ScriptedModel([calls(("mail", "{}")), says("ok")]), tools=[mail])
    async with serving(agent) as up:
        body = run_input("go", runId="r1")
        [interrupt] = (await run(up.url, body))[-1]["outcome"]["interrupts"]
        again = body | {
            "resume": [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
        }
        assert text_of(await run(up.url, again)) == "ok"
        assert types_of(await run(up.url, again)) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
        async with httpx.AsyncClient(base_url=up.url) as http:
            told = (await http.get("/sessions/t1/runs/r1/events")).text
        assert "MESSAGES_SNAPSHOT" not in told, "the events of the run itself are still there"
    assert done == ["sent"]


async def test_an_edit_beside_an_answer_is_a_400_that_names_the_message_as_the_client_counts() -> None:
    @tool(approval=True)
    async def mail() -> str:
        """Sends mail."""
        raise AssertionError

    agent = Agent("a", ScriptedModel([calls(("mail", "{}"))]), tools=[mail])
    async with serving(agent) as up:
        body = run_input("go")
        [interrupt] = (await run(up.url, body))[-1]["outcome"]["interrupts"]
        body["messages"] = [
            {"id": "t", "role": "reasoning", "content": "hm"},
            {**body["messages"][0], "content": "something else"},
        ]
        body["resume"] = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
        async with opened(up.url, body) as response:
            error = (await response.aread()).decode()
        assert (response.status_code, '"param":"messages[1]"' in error) == (400, True), error


async def test_what_is_passed_over_is_told_and_keeps_its_text() -> None:
    work = Work(says("one"), says("two"))
    async with serving(work.agent) as up:
        first = run_input("a long question")
        await run(up.url, first)
        second = run_input("more")
        second["messages"] = [{**first["messages"][0], "content": "a long"}, *second["messages"]]
        frames = await run(up.url, second)
    told = [frame["value"] for frame in frames if frame["type"] == "CUSTOM" and frame["name"] == "message_ignored"]
    assert told == [{"messageId": first["messages"][0]["id"]}]
    assert work.seen() == ["a long question", "one", "more"]


async def test_an_unread_end_is_told_also_after_a_restart_and_a_read_one_is_made_anew(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    work = Work([go_on, *says("one")], says("two"))
    settings = Settings(store="sqlite", data_dir=tmp_path)
    asked = run_input("go", runId="r1")
    async with serving(work.agent, settings=settings) as up:
        async with opened(up.url, asked, **{"x-on-disconnect": "continue"}) as response:
            await anext(frames_of(response))
        await until(lambda: not up.server.app.state.services.runs.find("local", "t1", "r1").log.attended)
        go_on.set()
        await until(lambda: quiet(up))
    async with serving(work.agent, settings=settings) as up:
        told = await run(up.url, asked | {"runId": "r2"})
        assert types_of(told) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
        assert len(work.model.requests) == 1
        assert text_of(await run(up.url, asked | {"runId": "r3"})) == "two", "it was told, and so it was read"


async def test_a_lost_connection_in_the_answer_is_gone_on_with_and_no_tool_runs_again() -> None:
    work = Work(calls(("work", "{}")), [*says("ha"), asyncio.Event()], says("whole"))
    async with serving(work.agent) as up:
        body = run_input("go")
        async with opened(up.url, body) as response:
            async for frame in frames_of(response):
                if frame["type"] == "TEXT_MESSAGE_CONTENT":
                    break
        await until(lambda: quiet(up))
        assert text_of(await run(up.url, body | {"runId": "again"})) == "whole"
    assert (work.done, work.seen()) == (1, ["go", "", "worked"])


# The OpenAI endpoint with a session


async def test_only_the_new_message_is_appended_also_where_it_equals_an_old_one() -> None:
    work = Work(says("one"), says("two"))
    async with serving(work.agent) as up:
        for _ in range(2):
            await post(up.url, ask("yes"), **S1)
    assert work.seen() == ["yes", "one", "yes"]


async def test_the_full_transcript_is_appended_to_once_and_earlier_turns_keep_their_texts() -> None:
    work = Work(says("one"), says("two"), says("three"))
    async with serving(work.agent) as up:
        await post(up.url, ask("q1"), **S1)
        await post(up.url, ask(user("q1"), assistant("one"), "q2"), **S1)
        body = ask(
            user("q1, rewritten"), assistant("one"), user("q2"), assistant("two"), "q3", x_agent={"events": True}
        )
        answer = await post(up.url, body, **S1)
    assert work.seen() == ["q1", "one", "q2", "two", "q3"]
    events = answer.json()["x_agent"]["events"]
    assert [each["value"] for each in events if each.get("name") == "message_ignored"] == [{"index": 0}]


async def test_another_last_question_behind_known_ones_is_a_branch_and_behind_unknown_ones_is_not() -> None:
    work = Work(*[says(f"a{number}") for number in range(1, 7)])
    async with serving(work.agent) as up:
        for question in ("q1", "q2"):
            await post(up.url, ask(question), **S1)
        await post(up.url, ask(user("q1"), assistant("a1"), "q2, in other words"), **S1)
        assert work.seen() == ["q1", "a1", "q2, in other words"]
        await post(up.url, ask(user("q1"), assistant("a1"), user("never said"), assistant("?"), "q4"), **S1)
        assert work.seen() == ["q1", "a1", "q2, in other words", "a3", "q4"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_very_body_twice_at_once_is_answered_once(streamed: bool) -> None:
    go_on = asyncio.Event()
    work = Work(calls(("work", "{}")), [go_on, *says("one")], says("never"))

    async def one(url: str) -> Any:
        return said_in(await stream(url, ask("go"), **S1)) if streamed else said(await post(url, ask("go"), **S1))

    async with serving(work.agent) as up:
        both = asyncio.gather(one(up.url), one(up.url))
        await work.model.streaming.wait()
        await until(lambda: len(up.server.app.state.services.runs) == 2)
        go_on.set()
        assert list(await both) == ["one", "one"]
        async with httpx.AsyncClient(base_url=up.url) as http:
            messages = (await http.get("/sessions/s1/messages")).json()["messages"]
    assert [each["role"] for each in messages] == ["user", "assistant", "tool", "assistant"]
    assert (work.done, len(work.model.requests)) == (1, 2)


async def test_the_very_body_again_after_its_client_has_left_is_gone_on_with_and_then_a_new_question() -> None:
    work = Work(calls(("work", "{}")), [*says("half"), asyncio.Event()], says("one"), says("two"))
    async with serving(work.agent) as up:
        left = asyncio.create_task(post(up.url, ask("go"), **S1))
        await work.model.streaming.wait()
        left.cancel()
        await asyncio.wait({left})
        await until(lambda: quiet(up))
        assert said(await post(up.url, ask("go"), **S1)) == "one"
        assert (work.done, work.seen()) == (1, ["go", "", "worked"])
        assert said(await post(up.url, ask("go"), **S1)) == "two"
    assert work.seen() == ["go", "", "worked", "one", "go"]


async def test_the_very_body_again_after_a_crash_is_gone_on_with(tmp_path: Path) -> None:
    work = Work(calls(("work", "{}")), says("one"), says("two"))
    settings = Settings(store="sqlite", data_dir=tmp_path)
    async with serving(work.agent, settings=settings) as up:
        await post(up.url, ask("go"), **S1)
        store, key = up.server.app.state.services.engine.store, SessionKey(user_id="local", session_id="s1")
        entries = [each for each in await store.load(key) if each.kind != "end"][:-1]
        crashed = SessionKey(user_id="local", session_id="s2")
        lease = await store.acquire(crashed, "lost")
        await store.append(lease, entries, release=True)
        assert said(await post(up.url, ask("go"), **{"x-session-id": "s2"})) == "two"
    assert (work.done, work.seen()) == (1, ["go", "", "worked"])


async def test_the_very_body_again_is_told_calls_that_nobody_has_read() -> None:
    go_on = asyncio.Event()
    work = Work([go_on, *calls(("pick_colour", '{"x":1}'))], says("blue it is"))
    async with serving(work.agent) as up:
        body = ask("go", tools=[PICK])
        left = asyncio.create_task(post(up.url, body, **S1, **{"x-on-disconnect": "continue"}))
        await work.model.streaming.wait()
        left.cancel()
        await asyncio.wait({left})
        await until(lambda: next(iter(up.server.app.state.services.runs._runs))._readers == 0)
        go_on.set()
        await until(lambda: quiet(up))
        choice = (await post(up.url, body, **S1)).json()["choices"][0]
        [call] = choice["message"]["tool_calls"]
        assert (choice["finish_reason"], call["function"]) == (
            "tool_calls",
            {"name": "pick_colour", "arguments": '{"x":1}'},
        )
        result = {"role": "tool", "tool_call_id": call["id"], "content": "blue"}
        assert said(await post(up.url, ask("go", choice["message"], result, tools=[PICK]), **S1)) == "blue it is"
    assert len(work.model.requests) == 2


async def test_the_same_question_after_it_was_read_is_a_new_one_and_a_retry_of_it_is_not() -> None:
    work = Work(says("one"), says("two"))
    async with serving(work.agent) as up:
        first = await post(up.url, ask("go"), **S1, **{"x-stainless-retry-count": "0"})
        again = await post(up.url, ask("go"), **S1, **{"x-stainless-retry-count": "1"})
        new = await post(up.url, ask("go"), **S1, **{"x-stainless-retry-count": "0"})
    assert [said(each) for each in (first, again, new)] == ["one", "one", "two"]
    assert work.seen() == ["go", "one", "go"]


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_conversation_of_ten_thousand_messages_goes_on_at_both_doors(store: str, tmp_path: Path) -> None:
    model = ScriptedModel([says("one"), says("two")])
    agent = Agent("a", model)
    texts = [f"text {number}" for number in range(9_997)]
    roles = ("user", "assistant")
    given = [{"id": f"m{at}", "role": roles[at % 2], "content": each} for at, each in enumerate(texts)]
    chat = [{"role": roles[at % 2], "content": each} for at, each in enumerate(texts)]
    async with serving(agent, settings=Settings(store=store, data_dir=tmp_path)) as up:
        await run(up.url, run_input(messages=given))
        await run(up.url, run_input(messages=[*given, {"id": "new", "role": "user", "content": "more"}]))
        assert [len(request.messages) for request in model.requests] == [9_997, 9_999]
        assert [each.text for each in model.requests[1].messages] == [*texts, "one", "more"]
        for more, length in (((), 9_997), ((assistant("two"), user("more")), 9_999)):
            assert said(await post(up.url, ask(*chat, *more), **S1)) == "two"
            assert len(model.requests[-1].messages) == length

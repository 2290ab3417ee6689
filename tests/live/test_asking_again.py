"""The same request again: told what there is, asked anew, or refused; over real sockets."""

import asyncio

import httpx

from agent_core import Agent, tool
from app.settings import Settings
from tests.app.doubles import Running, until
from tests.doubles import ScriptedModel, calls, says
from tests.live.test_disconnects import quiet
from tests.serving import frames_of, opened, run, run_input, serving, text_of, types_of

CONTINUE = {"x-on-disconnect": "continue"}


def again(body: dict[str, object], run_id: str) -> dict[str, object]:
    return body | {"runId": run_id}


async def leave_at_once(up: Running, body: dict[str, object], go_on: asyncio.Event) -> None:
    """Start a run that goes on without its client, and wait for its end."""
    async with opened(up.url, body, **CONTINUE) as response:
        await anext(frames_of(response))
    services = up.server.app.state.services
    await until(lambda: not services.runs.find("local", "t1", str(body["runId"])).log.attended)
    go_on.set()
    await until(lambda: quiet(up))


async def test_a_retry_under_the_same_run_id_is_told_the_answer_and_asks_no_model() -> None:
    model = ScriptedModel([says("one"), says("two"), says("never")])
    async with serving(Agent("a", model)) as up:
        await run(up.url, run_input("first"))
        second = run_input("second")
        await run(up.url, second)
        frames = await run(up.url, second)
        assert types_of(frames) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
        assert [each["content"] for each in frames[1]["messages"]] == ["first", "one", "second", "two"]
        assert len(model.requests) == 2


async def test_a_retry_that_comes_while_its_run_is_being_stopped_gets_an_answer() -> None:
    begun, charged = asyncio.Event(), []

    @tool
    async def charge() -> str:
        """Charge the card."""
        charged.append(1)
        begun.set()
        await asyncio.Event().wait()
        return "never"

    model = ScriptedModel([calls(("charge", "{}")), says("done")])
    async with serving(Agent("a", model, tools=[charge])) as up:
        asked = run_input("go", runId="r1")
        async with opened(up.url, asked) as response:
            await anext(frames_of(response))
            await begun.wait()
        frames = await run(up.url, asked)
        assert (text_of(frames), frames[-1]["result"]) == ("done", {"status": "completed"})
        assert types_of(await run(up.url, asked)) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert (len(charged), len(model.requests)) == (1, 2)


async def test_a_retry_after_a_failure_asks_again_and_leaves_no_half_answer_behind() -> None:
    model = ScriptedModel([[*says("half"), RuntimeError("broken")], says("whole")])
    async with serving(Agent("a", model)) as up:
        asked = run_input("go")
        assert (await run(up.url, asked))[-1]["type"] == "RUN_ERROR"
        assert text_of(await run(up.url, again(asked, "retry"))) == "whole"
        async with httpx.AsyncClient(base_url=up.url) as http:
            shown = (await http.get("/sessions/t1/messages")).json()["messages"]
        assert [each["content"] for each in shown] == ["go", "whole"]


async def test_an_answer_that_nobody_saw_is_told_and_once_it_was_read_it_can_be_asked_for_anew() -> None:
    go_on = asyncio.Event()
    model = ScriptedModel([[go_on, *says("one")], says("two")])
    async with serving(Agent("a", model)) as up:
        asked = run_input("go", runId="r1")
        await leave_at_once(up, asked, go_on)
        frames = await run(up.url, again(asked, "r2"))
        assert "MESSAGES_SNAPSHOT" in types_of(frames)
        assert len(model.requests) == 1
        assert text_of(await run(up.url, again(asked, "r3"))) == "two"


async def test_regenerate_works_at_once_for_a_client_that_read_the_run_after_a_refresh() -> None:
    go_on = asyncio.Event()
    model = ScriptedModel([[go_on, *says("one")], says("two")])
    async with serving(Agent("a", model)) as up:
        asked = run_input("go", runId="r1")
        await leave_at_once(up, asked, go_on)
        async with httpx.AsyncClient(base_url=up.url) as http:
            assert "RUN_FINISHED" in (await http.get("/sessions/t1/runs/r1/events")).text
        assert text_of(await run(up.url, again(asked, "r2"))) == "two"


async def test_a_state_that_is_too_large_is_refused_before_the_run_and_names_the_field() -> None:
    async with serving(Agent("a", ScriptedModel([says("hi")])), settings=Settings()) as up:
        for state in ({"x": "y" * 300_000}, {"x": "y" * 1_000_000}):
            async with opened(up.url, run_input("go", state=state)) as response:
                error = (await response.aread()).decode()
                assert (response.status_code, '"param":"state"' in error) == (400, True), error
        async with httpx.AsyncClient(base_url=up.url) as http:
            assert (await http.get("/sessions")).json()["sessions"] == []


async def test_a_bad_last_event_id_on_a_post_is_refused_also_where_the_run_is_unknown() -> None:
    async with serving(Agent("a", ScriptedModel([says("hi")]))) as up:
        for value in ("bogus", "1", "-1.0", "1.x"):
            async with opened(up.url, run_input("go"), **{"last-event-id": value}) as response:
                assert response.status_code == 400
                assert "Last-Event-ID" in (await response.aread()).decode()


async def test_many_observers_leave_a_run_its_place_in_the_queue() -> None:
    async with serving(Agent("a", ScriptedModel([says("hi")])), settings=Settings(queue_size=0)) as up:
        ticket = up.server.app.state.services.engine.gate.enter(
            up.server.app.state.services.engine.session("local", "t1").key, "holder"
        )
        async with httpx.AsyncClient(base_url=up.url) as http:
            message = {"id": "o", "role": "user", "content": "x"}
            answer = await http.post("/sessions/t1/observe", json={"messages": [message]})
            assert answer.status_code == 429
        ticket.leave()


async def test_interrupting_a_run_that_is_not_under_way_stops_no_other() -> None:
    async with serving(Agent("a", ScriptedModel([says("hi")]))) as up:
        await run(up.url, run_input("go", runId="r1"))
        async with httpx.AsyncClient(base_url=up.url) as http:
            for body in ({"runId": "r1"}, {"runId": "nobody"}, {}):
                answer = await http.post("/sessions/t1/interrupt", json=body)
                assert answer.json() == {"interrupted": False}

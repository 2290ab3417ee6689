"""Runs outlive connections: whoever comes back goes on where it was, whenever that is."""

import asyncio
from typing import Any

import pytest

from agent_core import Agent, tool
from agent_core.errors import RunError
from app.settings import Settings
from tests.app.doubles import until
from tests.doubles import ScriptedModel, calls, says
from tests.live.reattaching import (
    CONTINUE,
    Client,
    Numbered,
    Talker,
    check_joined,
    client,
    frames,
    input_of,
    last_id,
    look,
    some,
    talking,
)
from tests.live.test_disconnects import quiet
from tests.serving import numbered_frames_of, serving, text_of


def plain(seen: list[Numbered]) -> list[tuple[str, Any]]:
    """What two runs of the same script have in common."""
    return [(frame["type"], frame.get("delta")) for _, frame in seen]


async def whole_run(to: Client, model: Talker, old: bool) -> list[Numbered]:
    model.gate.set()
    async with to.post(input_of("whole", old)) as response:
        seen = [each async for each in numbered_frames_of(response)]
    check_joined(seen)
    return seen


@pytest.mark.parametrize(("old", "every"), [(False, 1), (True, 7)], ids=["1.0", "before 1.0"])
async def test_leaving_at_each_event_and_coming_back_loses_and_repeats_nothing(old: bool, every: int) -> None:
    model = Talker()
    async with serving(talking(model)) as up, client(up.url) as to:
        whole = await whole_run(to, model, old)
        assert len(whole) > 200
        before_gate = len([1 for _, frame in whole if not str(frame.get("delta", "")).startswith("a")]) - 20
        for index in range(0, len(whole), every):
            model.gate, model.reached = asyncio.Event(), asyncio.Event()
            under_way = index < before_gate and index % 2 == 0
            if not under_way:
                model.gate.set()
            body = input_of(f"leave-{index}", old)
            async with to.post(body, **CONTINUE) as response:
                seen = await some(response, index + 1)
            if under_way:
                await model.reached.wait()
                async with to.get(body, last_id(seen)) as response:
                    assert response.status_code == 200
                    assert len(up.server.app.state.services.runs) == 1
                    model.gate.set()
                    seen += [each async for each in numbered_frames_of(response)]
            else:
                await until(lambda: quiet(up))
                seen += await to.rest(body, last_id(seen))
            check_joined(seen)
            assert plain(seen) == plain(whole)
            assert seen == await to.rest(body), "the whole run, read again"
        await until(lambda: quiet(up))


async def test_coming_back_again_and_again_ends_with_204() -> None:
    model = Talker(size=8)
    model.gate.set()
    async with serving(talking(model)) as up, client(up.url) as to:
        body = input_of("t")
        async with to.post(body, **CONTINUE) as response:
            seen = await some(response, 1)
        pieces = 0
        while True:
            async with to.get(body, last_id(seen)) as response:
                if response.status_code == 204:
                    assert await response.aread() == b""
                    break
                seen += await some(response, 3)
                pieces += 1
        check_joined(seen)
        assert pieces > 10
        assert seen == await to.rest(body)


async def test_two_readers_of_one_run_both_see_all_of_it() -> None:
    model = Talker()
    async with serving(talking(model)) as up, client(up.url) as to:
        body = input_of("t")
        async with to.post(body) as first:
            seen = await some(first, 30)
            async with to.get(body) as second, to.get(body, seen[9][0]) as third:
                model.gate.set()
                whole = [each async for each in numbered_frames_of(second)]
                rest = [each async for each in numbered_frames_of(third)]
        check_joined(whole)
        assert whole[:30] == seen
        assert whole[10:] == rest


async def test_where_leaving_cancels_a_second_reader_keeps_the_run_alive() -> None:
    model = Talker(size=10)
    async with serving(talking(model)) as up, client(up.url) as to:
        body = input_of("t")
        async with to.post(body) as first:
            seen = await some(first, 5)
            second = to.get(body, seen[-1][0])
            response = await second.__aenter__()
        await model.reached.wait()
        model.gate.set()
        seen += [each async for each in numbered_frames_of(response)]
        await second.__aexit__(None, None, None)
        check_joined(seen)
        assert seen[-1][1]["result"] == {"status": "completed"}


async def test_where_leaving_cancels_the_last_reader_of_all_ends_the_run() -> None:
    model = Talker(size=10)
    async with serving(talking(model)) as up, client(up.url) as to:
        body = input_of("t")
        async with to.post(body) as first:
            async with to.get(body) as second:
                await some(second, 5)
            await model.reached.wait()
            assert not quiet(up)
            await some(first, 5)
        await until(lambda: quiet(up))
        seen = await to.rest(body)
        check_joined(seen)
        assert seen[-1][1]["outcome"] == {"type": "cancelled"}


@pytest.mark.parametrize(
    ("server", "agent", "header", "goes_on"),
    [
        ("cancel", None, None, False),
        ("continue", None, None, True),
        ("continue", "cancel", None, False),
        ("cancel", "continue", None, True),
        ("cancel", "continue", "cancel", False),
        ("continue", "cancel", "continue", True),
    ],
)
async def test_the_request_decides_over_the_agent_and_the_agent_over_the_server(
    server: Any, agent: Any, header: str | None, goes_on: bool
) -> None:
    model = Talker(size=4)
    served = Agent("a", model, tools=[look], on_disconnect=agent)
    async with serving(served, settings=Settings(on_disconnect=server)) as up, client(up.url) as to:
        body = input_of("t")
        async with to.post(body, **({} if header is None else {"x-on-disconnect": header})) as response:
            await some(response, 2)
            await model.reached.wait()
        services = up.server.app.state.services
        served_run = services.runs.find("local", "t", body["runId"])
        await until(lambda: not served_run.log.attended)
        if goes_on:
            model.gate.set()
        await until(lambda: quiet(up))
        assert served_run.end.status == ("completed" if goes_on else "cancelled")


async def test_a_post_that_says_where_it_was_goes_on_there_and_starts_nothing() -> None:
    model = Talker(size=10)
    async with serving(talking(model)) as up, client(up.url) as to:
        body = input_of("t")
        async with to.post(body, **CONTINUE) as response:
            seen = await some(response, 7)
        await model.reached.wait()
        async with to.post(body, **{"last-event-id": "{}.{}".format(*seen[-1][0])}) as response:  # type: ignore[misc]
            model.gate.set()
            seen += [each async for each in numbered_frames_of(response)]
        check_joined(seen)
        async with to.post(body, **{"last-event-id": "{}.{}".format(*seen[-1][0])}) as response:  # type: ignore[misc]
            assert response.status_code == 204
        async with to.post(input_of("t"), **{"last-event-id": "3.0"}) as response:
            assert (await some(response, 1))[0][0] == (1, 0), "a run that nobody knows is a new one"


@pytest.mark.parametrize("bad", ["x", "1", "1.", "0.0", "-1.0", "1.0.0", "1,0", "9" * 30 + ".0", "1.0x"])
async def test_a_position_that_is_none_is_refused_by_name(bad: str) -> None:
    async with serving(Agent("a", ScriptedModel([says("hi")]))) as up, client(up.url) as to:
        body = input_of("t")
        async with to.post(body) as response:
            await response.aread()
        for request, name in (
            (to.http.get(to.path(body), headers={"Last-Event-ID": bad}), "Last-Event-ID"),
            (to.http.get(to.path(body), params={"after": bad}), "after"),
            (to.http.get(to.path(body), headers={"Last-Event-ID": bad}, params={"after": "1.0"}), "Last-Event-ID"),
            (to.http.post(f"{up.url}/agui", json=body, headers={"Last-Event-ID": bad}), "Last-Event-ID"),
        ):
            error = (await request).json()["error"]
            assert (error["code"], error["param"]) == ("invalid_request", name)


@pytest.mark.parametrize("never", ["99.0", "1.1", "2.0", "1.999999", "1000000000.0"])
async def test_a_position_that_the_run_never_had_is_refused(never: str) -> None:
    async with serving(Agent("a", ScriptedModel([says("hi")]))) as up, client(up.url) as to:
        body = input_of("t")
        async with to.post(body) as response:
            await response.aread()
        refused = await to.http.get(to.path(body), params={"after": never})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "after")


async def test_the_header_counts_over_the_parameter() -> None:
    async with serving(Agent("a", ScriptedModel([says("hi")]))) as up, client(up.url) as to:
        body = input_of("t")
        async with to.post(body) as response:
            await response.aread()
        whole = await to.rest(body)
        answer = await to.http.get(
            to.path(body),
            params={"after": "nonsense"},
            headers={"Last-Event-ID": "{}.{}".format(*whole[-1][0])},  # type: ignore[misc]
        )
        assert answer.status_code == 204
        answer = await to.http.get(to.path(body), params={"after": "{}.{}".format(*whole[1][0])})  # type: ignore[misc]
        assert answer.text.count("data: ") == len(whole) - 2
        assert answer.headers["content-type"].startswith("text/event-stream")


KEYS = {"alice": "alice-0123456789abcdef", "bob": "bob-0123456789abcdef"}


async def test_a_foreign_an_unknown_and_an_impossible_run_are_answered_alike() -> None:
    model = Talker(size=4)
    settings = Settings(api_keys=",".join(f"{user}:{key}" for user, key in KEYS.items()))  # type: ignore[arg-type]
    async with (
        serving(talking(model), settings=settings) as up,
        client(up.url, authorization=f"Bearer {KEYS['alice']}") as alice,
        client(up.url, authorization=f"Bearer {KEYS['bob']}") as bob,
    ):
        body = input_of("t")
        run_id = body["runId"]
        async with alice.post(body) as response:
            await some(response, 3)
            await model.reached.wait()
            told = set()
            for path in (
                f"t/runs/{run_id}",
                f"t/runs/{run_id}x",
                f"u/runs/{run_id}",
                f"t/runs/{'x' * 65}",
                f"{'x' * 129}/runs/{run_id}",
                "a%00b/runs/r",
                "t/runs/a%20b",
                "%F0%9F%8E%B5/runs/r",
            ):
                for headers in ({}, {"Last-Event-ID": "1.0"}, {"Last-Event-ID": "99999.0"}):
                    answer = await bob.http.get(f"{up.url}/sessions/{path}/events", headers=headers)
                    error = answer.json()["error"]
                    assert error.pop("request_id").startswith("req_")
                    told.add((answer.status_code, str(error), answer.headers["content-type"]))
            assert len(told) == 1
            assert told.pop()[0] == 404
            keyless = await bob.http.get(alice.path(body), headers={"authorization": "Bearer nobody"})
            assert keyless.status_code == 401
            async with bob.post(body, **{"last-event-id": "1.0"}) as own:
                assert (await some(own, 1))[0][0] == (1, 0), "bob's own session, and a run of his own"
            model.gate.set()
        await until(lambda: quiet(up))


async def test_a_long_run_that_is_read_again_holds_up_nobody_and_shows_everything() -> None:
    model = ScriptedModel([says(*(f"w{n} " for n in range(20_000)))])
    async with serving(Agent("a", model)) as up, client(up.url) as to:
        body = input_of("t")
        async with to.post(body) as response:
            seen = [each async for each in numbered_frames_of(response)]
        async with to.get(body) as response:
            await some(response, 1)  # it leaves in the middle of the replay
        assert await to.rest(body) == seen
        assert await to.rest(body, seen[-3][0]) == seen[-2:]
    await until(lambda: quiet(up))


async def test_a_store_that_fails_before_the_run_began_is_a_status_and_no_stream() -> None:
    async with serving(Agent("a", ScriptedModel([says("hi")]))) as up, client(up.url) as to:
        store = up.server.app.state.services.engine.store

        async def fails(*_: object, **__: object) -> None:
            raise RunError("store_unavailable")

        whole = store.open, store.find
        store.open = store.find = fails
        body = input_of("t")
        answer = await to.http.post(f"{up.url}/agui", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_unavailable")
        gone = await to.http.get(to.path(input_of("t")))
        assert gone.status_code == 503
        store.open, store.find = whole
        async with to.post(input_of("t")) as response:
            assert text_of(frames([each async for each in numbered_frames_of(response)])) == "hi"
    await until(lambda: quiet(up))


async def test_a_client_that_leaves_before_the_first_byte_is_noticed() -> None:
    asked, never = asyncio.Event(), asyncio.Event()
    async with serving(Agent("a", ScriptedModel([says("hi")]))) as up, client(up.url) as to:
        store = up.server.app.state.services.engine.store
        whole = store.open

        async def waits(*asked_for: object) -> object:
            asked.set()
            await never.wait()
            return await whole(*asked_for)

        store.open = waits
        asking = asyncio.create_task(to.http.post(f"{up.url}/agui", json=input_of("t")))
        await asked.wait()
        asking.cancel()
        await asyncio.wait({asking})
        await until(lambda: quiet(up))
        store.open = whole


async def test_tools_that_act_once_act_once_however_often_somebody_comes_back() -> None:
    acted: list[str] = []

    @tool
    async def act(what: str) -> str:
        """Act."""
        acted.append(what)
        return "done"

    model = ScriptedModel([calls(("act", '{"what":"it"}')), says("fine")])
    async with serving(Agent("a", model, tools=[act])) as up, client(up.url) as to:
        body = input_of("t")
        async with to.post(body, **CONTINUE) as response:
            seen = await some(response, 2)
        for _ in range(5):
            await to.rest(body, last_id(seen))
        assert acted == ["it"]
    await until(lambda: quiet(up))

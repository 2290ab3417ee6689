"""A page that is left in the middle of a run and comes back: judged by AG-UI's own client."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_core import Agent
from agent_core.models.base import ArgumentsPiece, Piece, TextPiece, ThinkingPiece
from app.demo.agents import demo
from app.runs.log import Log
from app.settings import Settings
from tests.app.doubles import until
from tests.clients.panel import Panel, panel, rewinds, said, shape, unblamed
from tests.clients.processes import NODE, command_of, finish, start
from tests.clients.test_agui_node import add
from tests.doubles import ScriptedModel, calls, says
from tests.live.test_disconnects import quiet
from tests.serving import frames_of, opened, serving

STAY = {"x-on-disconnect": "continue"}
ASKS: list[Piece] = [
    ThinkingPiece("let "),
    ThinkingPiece("me"),
    TextPiece("I "),
    TextPiece("add"),
    ThinkingPiece("hm"),
    TextPiece(" it "),
    TextPiece("up"),
    *calls(("add", '{"a":1,'), ("add", '{"a":3,"b":4}')),
    ArgumentsPiece(0, '"b":2}'),
]
ANSWER = says("3 ", "and ", "7")
NUMBERS = " ".join(str(number) for number in range(1, 41))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(store="sqlite", data_dir=tmp_path / "data")


def asked(text: str, thread: str = "t", run: str = "r1") -> dict[str, Any]:
    message = {"id": f"u-{run}", "role": "user", "content": text}
    return {"threadId": thread, "runId": run, "messages": [message], "protocolVersion": "1.0"}


def text_of(frames: list[dict[str, Any]]) -> str:
    return "".join(
        frame["data"].get("delta", "") for frame in frames if frame["data"]["type"] == "TEXT_MESSAGE_CONTENT"
    )


def by_id(messages: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The messages without their order: the client shows thinking in the middle of an answer behind it, the
    server all of it in front. Neither knows the other's empty content."""
    return {each["id"]: {name: value for name, value in each.items() if value != ""} for each in messages}


async def judged(client: Panel, frames: list[dict[str, Any]], messages: Any = ()) -> Any:
    """What the client makes of these frames, about which it has nothing to complain."""
    return unblamed(await client.tell("judge", frames=[each["data"] for each in frames], messages=list(messages)))


async def test_a_refresh_in_the_middle_of_slow_resumes_without_a_gap_and_without_a_repetition(
    settings: Settings,
) -> None:
    async with serving(demo, settings=settings) as up, panel(up.url) as client:
        before = await client.tell("post", body=asked("slow"), headers=STAY, cut=7)
        last = before["frames"][-1]["id"]
        after = await client.tell("follow", thread="t", runId="r1", after=last, cuts=[5, 1, 9])
        assert after["statuses"] == [200, 200, 200, 200, 204], "204 tells an EventSource to stop"
        joined = before["frames"] + after["frames"]
        assert text_of(joined) == NUMBERS
        ids = [tuple(map(int, each["id"].split("."))) for each in joined]
        assert ids == sorted(set(ids)), "each frame once, in order"
        whole = await client.tell("follow", thread="t", runId="r1")
        assert whole["frames"] == joined
        assert whole["statuses"] == [200, 204]
        page = await judged(client, joined, asked("slow")["messages"])
        assert said(page["messages"]) == [("user", "slow"), ("assistant", NUMBERS)]
        assert shape(page["messages"]) == shape(await client.messages("t"))


async def test_a_second_page_sees_the_whole_run_while_it_is_under_way(settings: Settings) -> None:
    async with serving(demo, settings=settings) as up, panel(up.url) as client, panel(up.url) as other:
        before = await client.tell("post", body=asked("slow"), headers=STAY, cut=7)
        session = await client.tell("get", path="/sessions/t")
        assert session["body"]["run"] == {"runId": "r1", "agent": "demo"}
        await other.ask("follow", thread="t", runId="r1")
        after = await client.tell("follow", thread="t", runId="r1", after=before["frames"][-1]["id"])
        whole = await other.answer()
        assert whole["frames"] == before["frames"] + after["frames"]


async def test_a_page_that_is_opened_again_connects_to_the_run(settings: Settings) -> None:
    async with serving(demo, settings=settings) as up, panel(up.url) as client:
        await client.tell("open", name="page", thread="t", headers=STAY)
        left = await client.tell(
            "run", name="page", say="slow", runId="r1", abortAt={"type": "TEXT_MESSAGE_CONTENT", "count": 5}
        )
        assert left["runError"] == "abort"
        session = await client.tell("get", path="/sessions/t")
        assert session["body"]["run"]["runId"] == "r1", "it goes on without the page"
        await client.tell("open", name="again", thread="t", messages=await client.messages("t"))
        again = unblamed(await client.tell("connect", name="again", runId="r1"))
        assert said(again["messages"]) == [("user", "slow"), ("assistant", NUMBERS)]
        assert again["events"][-1] == "RUN_FINISHED"
        assert shape(again["messages"]) == shape(await client.messages("t"))
        went_on = await client.run("again", say="hello")
        assert [each["role"] for each in went_on["messages"]] == ["user", "assistant", "user", "reasoning", "assistant"]
        assert shape(went_on["messages"]) == shape(await client.messages("t"))


async def test_a_client_that_asks_again_for_an_answer_that_nobody_saw_is_given_it(settings: Settings) -> None:
    async with serving(demo, settings=settings) as up, panel(up.url) as client:
        await client.tell("open", name="page", thread="t", headers=STAY)
        await client.tell("run", name="page", say="slow", abortAt={"type": "RUN_STARTED"}, **{"as": "u1"})
        await until(lambda: quiet(up))
        again = await client.run("page", upTo="u1")
        assert said(again["messages"]) == [("user", "slow"), ("assistant", NUMBERS)]
        assert rewinds(again) == []
        assert shape(again["messages"]) == shape(await client.messages("t"))


async def test_a_run_that_is_cut_behind_any_frame_is_one_stream_to_the_client(settings: Settings) -> None:
    pieces: list[Piece] = [
        ThinkingPiece("let "),
        ThinkingPiece("me"),
        TextPiece("I "),
        TextPiece("add"),
        ThinkingPiece("m"),
    ]
    asks = [*pieces, *calls(("add", '{"a":1,'), ("add", '{"a":3,"b":4}')), ArgumentsPiece(0, '"b":2}')]
    model = ScriptedModel([asks, says("3 ", "and ", "7")])
    async with serving(Agent("a", model, tools=[add]), settings=settings) as up, panel(up.url) as client:

        async def run(number: int, cuts: list[int]) -> Any:
            model.requests.clear()
            await client.tell("open", name="page", thread=f"t{number}", headers=STAY, cuts=cuts)
            return await client.run("page", say="go", **{"as": "u1"})

        whole = await run(0, [])
        assert len(whole["events"]) > 25
        roles = [each["role"] for each in whole["messages"]]
        assert roles == ["user", "reasoning", "assistant", "tool", "tool", "reasoning", "assistant"]
        for cut in range(1, len(whole["events"])):
            found = await run(cut, [cut, 1])
            assert found["events"] == whole["events"], cut
            assert said(found["messages"]) == said(whole["messages"]), cut
            assert len(found["resumed"]) == min(2, len(whole["events"]) - cut + 1)
            # The client shows thinking in the middle of an answer behind it, the server all of it in front.
            assert sorted(shape(found["messages"])) == sorted(shape(await client.messages(f"t{cut}")))


async def test_a_fetch_that_asks_again_with_its_last_id_goes_on_in_the_same_run(settings: Settings) -> None:
    async with serving(demo, settings=settings) as up, panel(up.url) as client:
        before = await client.tell("post", body=asked("slow"), headers=STAY, cut=9)
        again = {"last-event-id": before["frames"][-1]["id"]}
        after = await client.tell("post", body=asked("slow"), headers=again)
        assert text_of(before["frames"] + after["frames"]) == NUMBERS
        assert len(await client.messages("t")) == 2, "there was one run"


async def test_a_page_that_comes_late_to_a_run_that_became_long_gets_its_messages_and_what_is_open(
    settings: Settings,
) -> None:
    async with serving(demo, settings=settings) as up, panel(up.url) as client:
        up.server.app.state.services.runs.most = 1500
        before = await client.tell("post", body=asked("slow"), headers=STAY, cut=25)
        late = await client.tell("follow", thread="t", runId="r1")
        kinds = [each["data"]["type"] for each in late["frames"]]
        assert kinds[:4] == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"]
        assert [each["id"] for each in late["frames"][:3]] == [None] * 3, "a cut within it begins it again"
        assert late["frames"][3]["id"] is not None
        page = await judged(client, late["frames"])
        assert said(page["messages"]) == [("user", "slow"), ("assistant", NUMBERS)]
        assert shape(page["messages"]) == shape(await client.messages("t"))
        assert text_of(before["frames"]) in NUMBERS


async def test_a_run_that_ended_long_ago_is_told_by_its_messages(settings: Settings) -> None:
    settings = settings.model_copy(update={"log_seconds": 0.0})
    async with serving(demo, settings=settings) as up, panel(up.url) as client:
        await client.tell("open", name="page", thread="t")
        first = await client.run("page", say="weather in Paris", runId="r1")
        services = up.server.app.state.services
        await until(lambda: services.runs.find("local", "t", "r1") is None)
        past = await client.tell("follow", thread="t", runId="r1")
        assert past["statuses"] == [200, 204]
        kinds = [each["data"]["type"] for each in past["frames"]]
        assert kinds == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
        page = await judged(client, past["frames"])
        assert page["messages"] == first["messages"]


async def test_a_page_that_comes_late_at_any_point_of_a_trimmed_run_ends_with_all_of_its_messages(
    settings: Settings,
) -> None:
    held = [held_at(point) for point in range(1, len(ASKS) + len(ANSWER) + 1)]
    agents = [Agent(f"a{number}", model, tools=[add]) for number, (model, _) in enumerate(held)]
    async with serving(*agents, settings=settings) as up, panel(up.url) as client:
        for agent, (model, gate) in zip(agents, held, strict=True):
            await client.ask("post", agent=agent.name, body=asked("go", thread=agent.name), headers=STAY, cut=1)
            await model.streaming.wait()
            await client.answer()
            log = up.server.app.state.services.runs.find("local", agent.name, "r1").log
            await left(log)
            log.trim()
            await client.ask("follow", thread=agent.name, runId="r1")
            await joined(log)
            gate.set()
            page = await judged(client, (await client.answer())["frames"])
            assert by_id(page["messages"]) == by_id(await client.messages(agent.name, agent=agent.name)), agent.name


def held_at(point: int) -> tuple[ScriptedModel, asyncio.Event]:
    """A model that asks for two sums and then tells them, and that waits at this point until the event is set."""
    gate = asyncio.Event()
    steps: list[list[Piece | asyncio.Event]] = [list(ASKS), list(ANSWER)]
    if point <= len(ASKS):
        steps[0].insert(point, gate)
    else:
        steps[1].insert(point - len(ASKS), gate)
    return ScriptedModel(steps), gate


async def left(log: Log) -> None:
    await until(lambda: not log.attended)


async def joined(log: Log) -> None:
    await until(lambda: log.attended)


async def test_a_page_that_was_overtaken_by_its_run_ends_with_all_of_its_messages(settings: Settings) -> None:
    many = [TextPiece(f"{n:06} " * 1000) for n in range(2000)]
    model = ScriptedModel([[*ASKS[:5], *many, *calls(("add", '{"a":1,"b":2}'))], says("3")])
    async with serving(Agent("a", model, tools=[add]), settings=settings) as up, panel(up.url) as client:
        up.server.app.state.services.runs.most = 100_000
        async with opened(up.url, asked("go"), **STAY) as response:
            reading = frames_of(response)
            first = await anext(reading)
            await until(lambda: quiet(up))
            frames = [first, *[frame async for frame in reading]]
        assert len(frames) < len(many), "it was overtaken"
        assert [each["type"] for each in frames].count("MESSAGES_SNAPSHOT") >= 1
        page = await judged(client, [{"data": each} for each in frames], asked("go")["messages"])
        assert by_id(page["messages"]) == by_id(await client.messages("t"))


async def test_the_example_closes_a_page_and_opens_it_again(settings: Settings, tmp_path: Path) -> None:
    example = tmp_path / "resume.mjs"
    example.write_text((NODE.parents[2] / "examples" / "resume.mjs").read_text())
    async with serving(demo, settings=settings) as up:
        (tmp_path / "node_modules").symlink_to(NODE / "node_modules")
        process = await start(*command_of(str(example)), OSTINATO_URL=f"{up.url}/agui")
        status, out, err = await finish(process)
    assert (status, err) == (0, "")
    before, _, after = out.partition("\n-- the page is closed, and opened again --\n")
    assert before == " ".join(str(number) for number in range(1, 11)) + " "
    assert after == f"{NUMBERS}\n-- 2 messages, nothing is missing --\n"

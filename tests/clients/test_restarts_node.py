"""A server that is killed and started again on the same data, and a page that stays open: AG-UI's own client."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from app.server import bind
from tests.app.command.test_cli import serving
from tests.clients.panel import Panel, panel, rewinds, said, shape, unblamed
from tests.clients.test_agui_node import PICK

AGENTS = Path(__file__).with_name("session_agents.py")
STAY = {"x-on-disconnect": "continue"}


class Place:
    """Where one server after another serves the same data."""

    def __init__(self, folder: Path, agents: Path = AGENTS) -> None:
        (free,) = bind("127.0.0.1", 0)
        with free:
            self._port = free.getsockname()[1]
        self._folder = folder
        self._agents = agents
        self.url = f"http://127.0.0.1:{self._port}"

    @contextmanager
    def served(self) -> Iterator[None]:
        """A server; leaving the block kills it, without a chance to save."""
        arguments = ("--port", str(self._port), "--store", "sqlite", "--data-dir", str(self._folder / "data"))
        with serving(str(self._agents), *arguments, cwd=self._folder):
            yield


@asynccontextmanager
async def page_at(folder: Path, agents: Path = AGENTS) -> AsyncIterator[tuple[Place, Panel]]:
    place = Place(folder, agents)
    async with panel(place.url) as client:
        yield place, client


def input_of(text: str, thread: str, run: str) -> dict[str, Any]:
    message = {"id": f"u-{run}", "role": "user", "content": text}
    return {"threadId": thread, "runId": run, "messages": [message], "protocolVersion": "1.0"}


async def under_way(place: Place, thread: str, agent: str, role: str) -> None:
    """Wait until the session's last message has this role."""
    async with panel(place.url) as other, asyncio.timeout(20):
        while True:
            answer = await other.tell("get", path=f"/sessions/{thread}/messages?agent={agent}")
            if answer["status"] == 200 and answer["body"]["messages"][-1]["role"] == role:
                return


async def test_a_page_goes_on_with_its_history_and_its_state(tmp_path: Path) -> None:
    async with page_at(tmp_path) as (place, client):
        with place.served():
            await client.tell("open", name="page", thread="t", agent="echo")
            await client.tell("open", name="work", thread="w", agent="worker")
            await client.run("page", say="one")
            await client.run("page", say="two", **{"as": "u2"})
            noted = await client.run("work", say="note a b")
        with place.served():
            third = await client.run("page", say="three")
            assert third["messages"][-1]["content"] == "5 messages: u a u a u; three"
            again = await client.run("page", upTo="u2")
            assert again["messages"][-1]["content"] == "3 messages: u a u; two"
            assert len(rewinds(again)) == 1
            assert shape(again["messages"]) == shape(await client.messages("t", agent="echo"))
            assert (await client.run("work", say="nothing"))["state"] == noted["state"]
            await client.tell("open", name="fresh", thread="w", agent="worker")
            more = await client.run("fresh", say="note c")
            assert more["state"] == {"words": ["a", "b", "c"], "count": 3}


async def test_a_call_that_was_under_way_is_told_as_interrupted_and_the_page_goes_on(tmp_path: Path) -> None:
    async with page_at(tmp_path) as (place, client):
        with place.served():
            await client.tell("open", name="page", thread="t", agent="worker")
            await client.run("page", say="note a")
            await client.ask("run", name="page", say="dig gold", runId="r2")
            await under_way(place, "t", "worker", "assistant")
        cut = await client.answer()
        assert cut["messages"][-1]["toolCalls"], "the client knows the call"
        with place.served():
            await client.tell("open", name="again", thread="t", agent="worker")
            told = unblamed(await client.tell("connect", name="again", runId="r2"))
            assert (told["events"][-1], told["runError"]) == ("RUN_ERROR", "worker_lost")
            assert shape(told["messages"]) == shape(cut["messages"])
            assert told["state"] == {"words": ["a"], "count": 1}
            went_on = await client.run("page", say="nothing")
            assert shape(went_on["messages"]) == shape(await client.messages("t", agent="worker"))
            (call,) = cut["messages"][-1]["toolCalls"]
            (result,) = [each for each in went_on["messages"] if each.get("toolCallId") == call["id"]]
            assert result["content"].startswith("Interrupted: ")


async def test_an_answer_that_was_cut_short_can_be_asked_for_again(tmp_path: Path) -> None:
    async with page_at(tmp_path) as (place, client):
        with place.served():
            await client.tell("open", name="page", thread="t", agent="demo", headers=STAY)
            left = await client.tell(
                "run", name="page", say="slow", abortAt={"type": "TEXT_MESSAGE_CONTENT", "count": 5}, **{"as": "u1"}
            )
            assert left["runError"] == "abort"
        with place.served():
            again = await client.run("page", upTo="u1")
            numbers = " ".join(str(number) for number in range(1, 41))
            assert said(again["messages"]) == [("user", "slow"), ("assistant", numbers)]
            assert rewinds(again) == [], "nothing was there to be taken back"
            assert shape(again["messages"]) == shape(await client.messages("t", agent="demo"))


async def test_a_call_that_waits_for_the_client_is_answered_after_a_restart(tmp_path: Path) -> None:
    async with page_at(tmp_path) as (place, client):
        with place.served():
            await client.tell("open", name="page", thread="t", agent="demo")
            await client.run("page", say="use frontend tool pick_colour", tools=[PICK])
        with place.served():
            answered = await client.run("page", answer="teal", tools=[PICK])
            assert "teal" in answered["messages"][-1]["content"]
            assert shape(answered["messages"]) == shape(await client.messages("t", agent="demo"))


async def test_an_event_source_that_connects_again_is_told_how_the_run_ended(tmp_path: Path) -> None:
    async with page_at(tmp_path) as (place, client):
        with place.served():
            done = await client.tell("post", agent="echo", body=input_of("hello", "t", "r1"))
            await client.ask("post", agent="endless", body=input_of("go", "s", "r2"), headers=STAY, cut=5)
            begun = await client.answer()
            await client.ask("follow", thread="s", runId="r2", after=begun["frames"][-1]["id"])
            await under_way(place, "s", "endless", "user")
        cut = await client.answer()
        assert cut["refused"]
        with place.served():
            ids = [each["id"] for each in done["frames"]]
            nothing = await client.tell("follow", thread="t", runId="r1", after=ids[-1])
            assert nothing["statuses"] == [204]
            past = await client.tell("follow", thread="t", runId="r1", after=ids[2])
            assert past["statuses"] == [200, 204]
            assert kinds(past) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
            assert past["frames"][-1]["id"] == ids[-1]
            last = (cut["frames"] or begun["frames"])[-1]["id"]
            lost = await client.tell("follow", thread="s", runId="r2", after=last)
            assert lost["statuses"] == [200, 204]
            assert kinds(lost) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_ERROR"]
            assert lost["frames"][-1]["data"]["code"] == "worker_lost"


def kinds(found: dict[str, Any]) -> list[str]:
    return [each["data"]["type"] for each in found["frames"]]

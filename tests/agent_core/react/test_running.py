"""How the calls of one answer are run: one by one or side by side, in threads, and what a tool can say and return."""

import asyncio
import contextvars
import threading
from typing import Any

from agent_core import Agent, Engine, ToolContext, tool
from agent_core.events import Event, Progress, ToolResultEnd
from agent_core.messages import MediaPart, TextPart
from tests.agent_core.react.agents import results, stored
from tests.doubles import ScriptedModel, calls, events_of, says

DONE = says("done")
word: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="")


async def test_one_by_one_is_the_default_and_side_by_side_goes_up_to_the_limit() -> None:
    for members, most in (({}, 1), ({"parallel_tool_calls": True}, 4), (PAIRS, 2)):
        side = Side(members)
        await side.play(8)
        assert side.most == most


PAIRS: dict[str, Any] = {"parallel_tool_calls": True, "max_parallel_tool_calls": 2}


class Side:
    """An agent whose tools wait until no other one begins, and count how many they are."""

    def __init__(self, members: dict[str, Any]) -> None:
        self.now = self.most = 0
        self.alone: list[int] = []
        self.members = members

    async def play(self, count: int, *exclusive: int) -> list[Event]:
        @tool
        async def work(n: int) -> str:
            """Works."""
            return await self.count(n)

        @tool(exclusive=True)
        async def clean(n: int) -> str:
            """Must be alone."""
            self.alone.append(self.now)
            return await self.count(n)

        asked = [("clean" if n in exclusive else "work", f'{{"n":{n}}}') for n in range(count)]
        agent = Agent("a", ScriptedModel([calls(*asked), DONE]), tools=[work, clean], **self.members)
        self.engine = Engine()
        return await events_of(self.engine, agent, "go")

    async def count(self, n: int) -> str:
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(20 - 2 * n):  # those that begin first end last
            await asyncio.sleep(0)
        self.now -= 1
        return str(n)


async def test_a_tool_that_is_exclusive_stands_alone() -> None:
    side = Side({"parallel_tool_calls": True})
    await side.play(5, 2)
    assert side.alone == [0]
    assert side.most == 2


async def test_results_are_told_as_they_come_and_kept_in_the_order_of_the_calls() -> None:
    side = Side({"parallel_tool_calls": True})
    events = await side.play(4)
    assert [each.content for each in events if isinstance(each, ToolResultEnd)] == ["3", "2", "1", "0"]
    assert [each.text for each in await stored(side.engine) if each.role == "tool"] == ["0", "1", "2", "3"]


async def test_a_sync_tool_has_the_caller_s_context_and_is_told_when_its_time_is_up() -> None:
    seen: list[str] = []
    told = threading.Event()

    @tool(timeout=0.01)
    def wait(context: ToolContext) -> str:
        """Waits until it is told to stop."""
        seen.append(word.get())
        if context.cancelled.wait(20):
            told.set()
        return ""

    word.set("mine")
    async with Engine() as engine:
        events = await events_of(engine, Agent("a", ScriptedModel([calls(("wait", "")), DONE]), tools=[wait]), "go")
        assert [status for status, _ in results(events)] == ["timed_out"]
        assert await asyncio.to_thread(told.wait, 20)
    assert seen == ["mine"]


async def test_a_tool_tells_how_far_it_has_come() -> None:
    @tool
    async def copy(context: ToolContext) -> str:
        """Copies."""
        context.progress("half", 0.5)
        context.progress("nearly", 7.0)
        await asyncio.sleep(0)
        return "copied"

    events = await events_of(Engine(), Agent("a", ScriptedModel([calls(("copy", "")), DONE]), tools=[copy]), "go")
    told = [(each.message, each.fraction, each.name) for each in events if isinstance(each, Progress)]
    assert told == [("half", 0.5, "copy"), ("nearly", 1.0, "copy")]


async def test_media_in_a_result_reach_the_model_and_the_history() -> None:
    image = MediaPart(kind="image", source="data", value="aGk=", mime_type="image/png")

    @tool
    def photo() -> list[Any]:
        """Takes a picture."""
        return ["a cat", image]

    model = ScriptedModel([calls(("photo", "")), DONE])
    engine = Engine()
    events = await events_of(engine, Agent("a", model, tools=[photo]), "go")
    parts = (TextPart(text="a cat"), image)
    assert model.requests[-1].messages[-1].content == parts
    assert [each.parts for each in events if isinstance(each, ToolResultEnd)] == [parts]
    assert (await stored(engine))[2].content == parts

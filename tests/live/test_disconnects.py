"""A client that leaves: run, tools and upstream are cancelled, and the session stays valid."""

import asyncio

from agent_core import Agent, tool
from agent_core.models.openai_chat import OpenAIChat
from tests.app.doubles import Running, until
from tests.live.test_upstream_faults import assert_paired, history
from tests.scripted import ScriptedUpstream, answer, done, finish, says, text, tool_call
from tests.serving import frames_of, opened, run, run_input, serving, text_of


@tool
async def look(what: str) -> str:
    """Look at something."""
    await asyncio.sleep(0.002)
    return f"a {what}"


def quiet(up: Running) -> bool:
    services = up.server.app.state.services
    return len(services.runs) == 0 and len(services.engine.gate) == 0


async def test_leaving_at_every_event_of_a_run_leaves_nothing_behind() -> None:
    def script(body: dict[str, object]) -> object:
        messages = body["messages"]
        assert isinstance(messages, list)
        if "again" in str(messages[-1]):
            return says("fine")
        if messages[-1]["role"] == "user":
            return answer(text("I ", "look. "), tool_call("look", '{"what":"cat"}'), finish("tool_calls"), done())
        return answer(*(text(f"w{n} ") for n in range(12)), finish(), done())

    async with ScriptedUpstream(script) as upstream:  # type: ignore[arg-type]
        model = OpenAIChat("gpt-test", api_key="sk-test", base_url=upstream.base_url)
        async with serving(Agent("a", model, tools=[look])) as up:
            whole = await run(up.url, run_input("go", thread="whole"))
            assert len(whole) > 20
            before = len(asyncio.all_tasks())
            for index in range(len(whole)):
                thread = f"leave-{index}"
                async with opened(up.url, run_input("go", thread=thread)) as response:
                    seen = 0
                    async for _ in frames_of(response):
                        seen += 1
                        if seen > index:
                            break
                await until(lambda: quiet(up))
                assert_paired(await history(up, thread))
                assert text_of(await run(up.url, run_input("again", thread=thread))) == "fine"
            await until(lambda: len(asyncio.all_tasks()) <= before)
        await upstream.closed()


async def test_leaving_while_the_model_is_silent_closes_the_upstream_connection() -> None:
    never = asyncio.Event()
    async with ScriptedUpstream([answer(text("so"), never), says("back")]) as upstream:
        model = OpenAIChat("gpt-test", api_key="sk-test", base_url=upstream.base_url)
        async with serving(Agent("a", model)) as up:
            async with opened(up.url, run_input("go")) as response:
                async for frame in frames_of(response):
                    if frame["type"] == "TEXT_MESSAGE_CONTENT":
                        break
            await upstream.closed()
            await until(lambda: quiet(up))
            assert [message.text for message in await history(up)] == ["go", "so"]
            assert text_of(await run(up.url, run_input("again"))) == "back"


async def test_leaving_while_a_tool_runs_cancels_it_and_pairs_the_call() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    @tool
    async def hang() -> str:
        """Hangs."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    script = [answer(tool_call("hang", ""), finish("tool_calls"), done()), says("back")]
    async with ScriptedUpstream(script) as upstream:
        model = OpenAIChat("gpt-test", api_key="sk-test", base_url=upstream.base_url)
        async with serving(Agent("a", model, tools=[hang])) as up:
            async with opened(up.url, run_input("go")):
                await started.wait()
            await cancelled.wait()
            await until(lambda: quiet(up))
            assert [m.status for m in await history(up) if m.role == "tool"] == ["interrupted"]
            assert text_of(await run(up.url, run_input("again"))) == "back"


async def test_leaving_while_waiting_for_the_session_gives_the_place_free() -> None:
    never = asyncio.Event()
    async with ScriptedUpstream([answer(text("so"), never)]) as upstream:
        model = OpenAIChat("gpt-test", api_key="sk-test", base_url=upstream.base_url)
        async with serving(Agent("a", model)) as up:
            async with opened(up.url, run_input("one")) as first:
                frames = frames_of(first)
                await anext(frames)
                async with opened(up.url, run_input("two")) as second:
                    waiting = frames_of(second)
                    assert (await anext(waiting))["type"] == "RUN_STARTED", "it starts before it waits"
                await until(lambda: len(up.server.app.state.services.runs) == 1)
                await frames.aclose()  # type: ignore[attr-defined]
            await until(lambda: quiet(up))
            assert [message.text for message in await history(up) if message.role == "user"] == ["one"]

"""Runs whose first events are gone: a snapshot tells them, and the later events follow."""

import asyncio

from agent_core import Agent
from agent_core.errors import ModelError
from agent_core.messages import Message
from agent_core.names import SessionKey
from app.settings import Settings
from tests.app.doubles import Running, until
from tests.doubles import ScriptedModel, says
from tests.entries import message_entry, run_entry
from tests.live.reattaching import CONTINUE, Numbered, Talker, client, frames, input_of, last_id, some, talking
from tests.live.test_disconnects import quiet
from tests.live.test_reattach import whole_run
from tests.serving import check_whole, numbered_frames_of, serving, text_of, types_of


def trimmed_form(seen: list[Numbered], *rest: str) -> None:
    """The frames begin with a snapshot; only its last frame has an id."""
    assert types_of(frames(seen))[: 2 + len(rest)] == ["RUN_STARTED", "MESSAGES_SNAPSHOT", *rest]


async def test_after_its_time_a_run_is_told_in_its_trimmed_form() -> None:
    model = Talker(size=6)
    model.gate.set()
    async with serving(talking(model), settings=Settings(log_seconds=0)) as up, client(up.url) as to:
        body = input_of("t")
        async with to.post(body) as response:
            seen = [each async for each in numbered_frames_of(response)]
        await until(lambda: up.server.app.state.services.runs.find("local", "t", body["runId"]) is None)
        for after in (None, seen[0][0], seen[40][0]):
            again = await to.rest(body, after)
            assert [number for number, _ in again] == [None, None, seen[-1][0]]
            assert types_of(frames(again)) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
            check_whole(frames(again))
            assert again[-1][1]["result"] == {"status": "completed"}
            assert streamed_ids(seen) <= {each["id"] for each in again[1][1]["messages"]}
        assert await to.rest(body, seen[-1][0]) == []
        refused = await to.http.get(to.path(body), params={"after": "9999.0"})
        assert refused.status_code == 400


def streamed_ids(seen: list[Numbered]) -> set[str]:
    return {frame["messageId"] for _, frame in seen if "messageId" in frame}


async def test_a_run_that_failed_long_ago_fails_again_with_its_code() -> None:
    model = ScriptedModel([[*says("so"), ModelError("model_quota")]])
    async with serving(Agent("a", model, max_retries=0), settings=Settings(log_seconds=0)) as up, client(up.url) as to:
        body = input_of("t")
        async with to.post(body) as response:
            seen = [each async for each in numbered_frames_of(response)]
        await until(lambda: up.server.app.state.services.runs.find("local", "t", body["runId"]) is None)
        again = await to.rest(body)
        assert again[-1][0] == seen[-1][0]
        assert (again[-1][1]["type"], again[-1][1]["code"]) == ("RUN_ERROR", "model_quota")
        assert await to.rest(body, seen[-1][0]) == []


def kept(up: Running, most: int) -> None:
    """Keep so many bytes of each run from now on."""
    up.server.app.state.services.runs.most = most


async def test_a_live_run_that_was_trimmed_goes_on_where_it_can_and_else_begins_with_a_snapshot() -> None:
    model = Talker(size=60)
    async with serving(talking(model)) as up, client(up.url) as to:
        kept(up, 10_000)
        body = input_of("t")
        async with to.post(body, **CONTINUE) as response:
            seen = await some(response, 3)
        await model.reached.wait()
        log = up.server.app.state.services.runs.find("local", "t", body["runId"]).log
        assert not log.whole
        readers: list[asyncio.Task[list[Numbered]]] = []
        for after in (None, seen[-1][0]):
            readers.append(asyncio.create_task(to.rest(body, after)))
        await until(lambda: len(log._readers) == 2)
        model.gate.set()
        both = [await each for each in readers]
        assert both[0] == both[1]
        begun = both[0]
        check_whole(frames(begun))
        trimmed_form(begun)
        marked = [number for number, _ in begun if number is not None]
        assert marked[0][1] == 1_000_000
        # The snapshot and the later events together tell the whole text.
        whole_text = "".join(f"a{n} " for n in range(60))
        assert said(begun).endswith(whole_text)
        for place, (number, _) in enumerate(begun, start=1):
            if number is None:
                continue
            rest = await to.rest(body, number)
            if number >= (log._kept.number, 1_000_000):
                assert rest == begun[place:], "from there on the events are there, without a second start"
            else:
                trimmed_form(rest)
                assert said(rest) == said(begun)


def said(seen: list[Numbered]) -> str:
    """The text of the last answer, from snapshots and pieces alike."""
    messages: dict[str, str] = {}
    for _, frame in seen:
        if frame["type"] == "MESSAGES_SNAPSHOT":
            messages = {
                each["id"]: each.get("content", "") for each in frame["messages"] if each["role"] == "assistant"
            }
        elif frame["type"] == "TEXT_MESSAGE_START":
            messages.setdefault(frame["messageId"], "")
        elif frame["type"] == "TEXT_MESSAGE_CONTENT":
            messages[frame["messageId"]] += frame["delta"]
    return list(messages.values())[-1]


async def test_coming_back_anywhere_to_a_log_that_is_trimmed_all_the_time_shows_everything() -> None:
    model = Talker(size=40)
    model.gate.set()
    async with serving(talking(model)) as up, client(up.url) as to:
        whole = await whole_run(to, model, old=False)
        kept(up, 3_000)
        for index in range(0, len(whole), 11):
            model.gate = asyncio.Event()
            body = input_of(f"trim-{index}")
            async with to.post(body, **CONTINUE) as response:
                if index > 150:
                    model.gate.set()
                seen = await some(response, min(index + 1, 150))
            async with to.get(body, last_id(seen)) as response:
                assert response.status_code == 200
                model.gate.set()
                rest = [each async for each in numbered_frames_of(response)]
            if rest[0][1]["type"] == "RUN_STARTED":
                check_whole(frames(rest))
                trimmed_form(rest)
                assert said(rest) == said(whole)
            else:
                check_whole(frames(seen + rest))
                assert said(seen + rest) == said(whole)
        await until(lambda: quiet(up))


async def test_a_reader_that_stops_reading_is_overtaken_and_catches_up_in_its_stream() -> None:
    """It lags by more than is kept: all of a burst was said while it did not read."""
    begun, over = asyncio.Event(), asyncio.Event()
    burst = [f"{number:05}" * 2_000 for number in range(1_500)]
    model = ScriptedModel([[*says("So: "), begun, *says(*burst), over, *says("the end")]])
    async with serving(Agent("a", model)) as up, client(up.url) as to:
        async with to.post(input_of("t"), **CONTINUE) as response:
            stream = numbered_frames_of(response)
            seen = [await anext(stream) for _ in range(3)]
            begun.set()
            over.set()
            seen += [each async for each in stream]
        check_whole(frames(seen))
        kinds = types_of(frames(seen))
        place = kinds.index("MESSAGES_SNAPSHOT")
        around = ["TEXT_MESSAGE_END", "MESSAGES_SNAPSHOT", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"]
        assert kinds[place - 1 : place + 3] == around
        assert said(seen) == text_of(frames(seen)[place:]) == "So: " + "".join(burst) + "the end"


async def test_the_openai_endpoint_has_no_ids_and_its_runs_can_be_read_as_agui_while_they_last() -> None:
    gate = asyncio.Event()
    model = ScriptedModel([[*says("so "), gate, *says("far")]])
    async with serving(Agent("a", model)) as up, client(up.url) as to:
        chat = {"model": "a", "stream": True, "messages": [{"role": "user", "content": "go"}]}
        asked = to.http.stream("POST", f"{up.url}/v1/chat/completions", json=chat, headers={"x-session-id": "chat"})
        async with asked as response:
            await model.streaming.wait()
            [served] = up.server.app.state.services.runs._runs
            body = {"threadId": "chat", "runId": served.run_id}
            async with to.get(body) as second:
                begun = await some(second, 4)
                trimmed_form(begun, "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT")
                gate.set()
            text = (await response.aread()).decode()
            assert "id: " not in "\n" + text
        await until(lambda: quiet(up))
        again = await to.rest(body)
        assert types_of(frames(again)) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]


async def test_a_run_that_the_store_never_saw_end_was_lost() -> None:
    async with serving(Agent("a", ScriptedModel([says("hi")]))) as up, client(up.url) as to:
        store = up.server.app.state.services.engine.store
        lease = await store.acquire(SessionKey(user_id="local", session_id="t"), "gone")
        hello = Message(id="u1", role="user", content="hello")
        await store.append(lease, [run_entry("lost", "a"), message_entry("lost", "a", hello)])
        body = {"threadId": "t", "runId": "lost"}
        for after in (None, "7.0"):
            seen = await to.rest(body, after)
            check_whole(frames(seen))
            assert types_of(frames(seen)) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_ERROR"]
            assert seen[-1][1]["code"] == "worker_lost"
            assert await to.rest(body, seen[-1][0]) == [], "a client that knows it is told nothing more"


async def test_a_run_in_another_worker_is_busy() -> None:
    async with serving(Agent("a", ScriptedModel([says("hi")]))) as up, client(up.url) as to:
        store = up.server.app.state.services.engine.store
        lease = await store.acquire(SessionKey(user_id="local", session_id="t"), "other")
        await store.append(lease, [run_entry("there", "a")])

        async def held(key: SessionKey, owner: str) -> None:
            return None

        store.acquire = held
        answer = await to.http.get(to.path({"threadId": "t", "runId": "there"}))
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "session_busy")
        assert answer.headers["retry-after"] == "5"
        assert "x-should-retry" not in answer.headers
        assert len(up.server.app.state.services.engine.gate) == 0

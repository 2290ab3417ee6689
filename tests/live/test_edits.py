"""Arguments that a person has edited, over HTTP: told everywhere, and refused while all waits as before."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_core import Agent, tool
from app.settings import Settings
from tests.doubles import ScriptedModel, calls, says
from tests.live.test_approvals import MEMORY, Post, answer, asked, chat, resuming
from tests.serving import Frame, check_whole, frames_of, opened, results_of, run, run_input, serving

TOLD = 'A person changed the arguments to {"to":"zed"}.\nsent to zed'
ZED = {"approved": True, "arguments": {"to": "zed"}}


def edits_in(frames: list[Frame]) -> list[tuple[str, Any]]:
    return [(each["name"], each["value"]) for each in frames if each["type"] == "CUSTOM"]


def edit_of(interrupt: Frame) -> tuple[str, Any]:
    return "arguments_edited", {"toolCallId": interrupt["toolCallId"], "arguments": {"to": "zed"}}


async def messages(http: httpx.AsyncClient, session: str = "t1") -> list[Frame]:
    found: list[Frame] = (await http.get(f"/sessions/{session}/messages")).json()["messages"]
    return found


async def exported(http: httpx.AsyncClient, session: str = "t1") -> list[Any]:
    lines = (await http.get(f"/sessions/{session}/export")).content.splitlines()[1:]
    bodies = [json.loads(line)["body"] for line in lines]
    return [each["message"]["editedArguments"] for each in bodies if "editedArguments" in each.get("message", {})]


@pytest.mark.parametrize("version", ["1.0", None])
async def test_an_edit_is_told_in_front_of_its_result_and_stands_in_the_messages_and_the_export(
    version: str | None,
) -> None:
    post = Post()
    async with serving(post.agent, settings=MEMORY) as up, httpx.AsyncClient(base_url=up.url) as http:
        interrupt = await asked(up, "go", protocolVersion=version)
        frames = await run(up.url, resuming(answer(interrupt, ZED), protocolVersion=version))
        at = next(n for n, each in enumerate(frames) if each["type"] == "TOOL_CALL_RESULT")
        assert edits_in([frames[at - 1]]) == [edit_of(interrupt)]
        assert results_of(frames) == [TOLD]
        assert post.sent == ["zed"]
        [result] = [each for each in await messages(http) if each["role"] == "tool"]
        assert (result["content"], result["editedArguments"]) == (TOLD, {"to": "zed"})
        assert await exported(http) == [{"to": "zed"}]
        assert "ann" in str(await messages(http)), "the call itself is what the model wrote"


async def test_it_stands_in_a_session_that_is_exported_imported_and_forked() -> None:
    async with serving(Post().agent, settings=MEMORY) as up, httpx.AsyncClient(base_url=up.url) as http:
        interrupt = await asked(up, "go")
        await run(up.url, resuming(answer(interrupt, ZED)))
        last = (await messages(http))[-1]["id"]
        file = (await http.get("/sessions/t1/export")).content
        kind = {"content-type": "application/x-ndjson"}
        imported = (await http.post("/sessions/t2/import", content=file, headers=kind)).json()["id"]
        forked = (await http.post("/sessions/t1/fork", json={"messageId": last})).json()["id"]
        for session in (imported, forked):
            [result] = [each for each in await messages(http, session) if each["role"] == "tool"]
            assert result["editedArguments"] == {"to": "zed"}
            assert await exported(http, session) == [{"to": "zed"}]
        forged = file.replace(b'"role":"user"', b'"role":"user","editedArguments":{}')
        assert forged != file
        refused = await http.post("/sessions/t3/import", content=forged, headers=kind)
        assert refused.status_code == 400
        assert "editedArguments" in refused.json()["error"]["message"]


@pytest.mark.parametrize("version", ["1.0", None])
async def test_a_reader_of_a_trimmed_run_finds_it_in_the_snapshot_if_it_speaks_1_0(
    version: str | None,
) -> None:
    gate = asyncio.Event()
    post = Post(calls(("send_email", '{"to":"ann"}')), [*says("x" * 9_000), gate, *says("done")])
    async with serving(post.agent, settings=MEMORY) as up, httpx.AsyncClient(base_url=up.url, timeout=20) as http:
        interrupt = await asked(up, "go", protocolVersion=version)
        up.server.app.state.services.runs.most = 5_000
        body = resuming(answer(interrupt, ZED), runId="r2", protocolVersion=version)
        async with opened(up.url, body) as first:
            await post.model.streaming.wait()
            async with http.stream("GET", "/sessions/t1/runs/r2/events") as again:
                gate.set()
                frames = [frame async for frame in frames_of(again)]
            await first.aread()
    check_whole(frames)
    snapshot = next(each for each in frames if each["type"] == "MESSAGES_SNAPSHOT")
    [result] = [each for each in snapshot["messages"] if each["role"] == "tool"]
    assert result["content"] == TOLD
    assert result.get("editedArguments") == ({"to": "zed"} if version else None)


async def test_it_is_told_after_a_restart_and_to_who_reads_the_run_again(tmp_path: Path) -> None:
    post = Post()
    kept = Settings(store="sqlite", data_dir=tmp_path)
    async with serving(post.agent, settings=kept) as up:
        interrupt = await asked(up, "go")
    async with serving(post.agent, settings=kept) as up:
        frames = await run(up.url, resuming(answer(interrupt, ZED), runId="r2"))
        assert (edits_in(frames), results_of(frames)) == ([edit_of(interrupt)], [TOLD])
    async with serving(post.agent, settings=kept) as up, httpx.AsyncClient(base_url=up.url) as http:
        again = await http.get("/sessions/t1/runs/r2/events")
        assert '"editedArguments":{"to":"zed"}' in again.text
        assert post.sent == ["zed"]


@pytest.mark.parametrize("stream", [True, False])
async def test_it_is_told_to_an_openai_client_that_wants_the_events_also_when_the_request_comes_again(
    stream: bool,
) -> None:
    post = Post(calls(("send_email", '{"to":"ann"}')), says("done"))
    session = {"X-Session-Id": "s1", "Idempotency-Key": "k1"}
    async with serving(post.agent, settings=MEMORY) as up, httpx.AsyncClient(base_url=up.url) as http:
        asks = {
            "model": "a",
            "stream": stream,
            "messages": [{"role": "user", "content": "go"}],
            "x_agent": {"events": True},
        }
        await http.post("/v1/chat/completions", json=asks, headers=session)
        [interrupt] = (await http.get("/sessions/s1/interrupts")).json()["interrupts"]
        done = await http.post("/sessions/s1/resume", json={"answers": [answer(interrupt, ZED)]})
        assert done.status_code == 200
        up.server.app.state.services.known_runs.__init__()  # as after a restart: only the session knows
        again = await http.post("/v1/chat/completions", json=asks, headers=session)
        assert again.status_code == 200
        assert "done" in again.text
        if stream:
            assert '"name":"arguments_edited","value":{"toolCallId":' in again.text
            assert '"arguments":{"to":"zed"}' in again.text
        assert post.sent == ["zed"]


@pytest.mark.parametrize("name", ["arguments", "editedArguments", "args"])
@pytest.mark.parametrize("edited", [{"too": "zed"}, {"to": 5}, {}, {"to": None}])
async def test_an_edit_that_does_not_fit_is_a_400_on_both_doors_and_all_waits_as_before(
    name: str, edited: dict[str, Any]
) -> None:
    post = Post()
    async with serving(post.agent, settings=MEMORY) as up, httpx.AsyncClient(base_url=up.url) as http:
        interrupt = await asked(up, "go")
        before = (await http.get("/sessions/t1/export")).content.splitlines()[1:]
        bad = answer(interrupt, {"approved": True, name: edited})
        body = {"answers": [bad]}
        over_agui = await http.post("/agui", json=resuming(bad))
        over_http = await http.post("/sessions/t1/resume", json=body)
        streamed = await http.post("/sessions/t1/resume", json=body | {"stream": True})
        where = ("resume[0]", "answers[0]", "answers[0]")
        for refused, path in zip((over_agui, over_http, streamed), where, strict=True):
            assert refused.status_code == 400, refused.text
            error = refused.json()["error"]
            assert (error["code"], error["param"]) == ("invalid_request", f"{path}.payload.{name}.to")
            assert error["message"].startswith(f"{path}.payload.{name}.to: ")
        assert (await http.get("/sessions/t1/export")).content.splitlines()[1:] == before
        [still] = (await http.get("/sessions/t1/interrupts")).json()["interrupts"]
        assert still["id"] == interrupt["id"]
        assert results_of(await run(up.url, resuming(answer(interrupt, ZED)))) == [TOLD]
        assert post.sent == ["zed"]


async def test_behind_a_run_that_is_under_way_an_edit_that_does_not_fit_ends_as_run_error_and_uses_nothing_up() -> None:
    gate = asyncio.Event()
    slow = ScriptedModel([[gate, *says("later")]])

    @tool(approval=True)
    def send_email(to: str) -> str:
        """Send."""
        return f"sent to {to}"

    post = Agent("a", ScriptedModel([calls(("send_email", '{"to":"ann"}')), says("done")]), tools=[send_email])
    other = Agent("b", slow)
    async with serving(post, other, settings=MEMORY) as up, httpx.AsyncClient(base_url=up.url) as http:
        interrupt = await asked(up, "go")
        async with opened(up.url, run_input("slow"), "/agui/b") as first:
            await slow.streaming.wait()
            bad = resuming(answer(interrupt, {"approved": True, "args": {"too": "zed"}}))
            async with opened(up.url, bad) as waiting:
                frames = frames_of(waiting)
                seen = [await anext(frames)]
                gate.set()
                seen += [frame async for frame in frames]
            await first.aread()
        check_whole(seen)
        assert (seen[-1]["type"], seen[-1]["code"]) == ("RUN_ERROR", "invalid_request")
        assert seen[-1]["message"].startswith("resume[0].payload.args.to: ")
        [still] = (await http.get("/sessions/t1/interrupts")).json()["interrupts"]
        assert still["id"] == interrupt["id"]
        assert results_of(await run(up.url, resuming(answer(interrupt, ZED)))) == [TOLD]


async def test_an_openai_conversation_without_a_session_is_answered_with_an_edit() -> None:
    post = Post()
    async with serving(post.agent, settings=MEMORY) as up, httpx.AsyncClient(base_url=up.url) as http:
        about = (await chat(http, "go")).json()["x_agent"]
        path = f"/sessions/{about['session_id']}"
        bad = {"answers": [answer(about["interrupts"][0], {"approved": True, "args": {"to": 1}})]}
        assert (await http.post(f"{path}/resume", json=bad)).json()["error"]["param"] == "answers[0].payload.args.to"
        good = {"answers": [answer(about["interrupts"][0], ZED)], "stream": True}
        told = await http.post(f"{path}/resume", json=good)
        assert '"name":"arguments_edited"' in told.text
        assert await exported(http, about["session_id"]) == [{"to": "zed"}]

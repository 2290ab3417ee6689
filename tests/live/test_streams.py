"""Streams as a client gets them: headers, pings, one write for all that is ready, and a reader that stops."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

import httpx
from starlette.types import Message, Receive, Scope, Send

from agent_core import Agent, ToolContext, tool
from agent_core.events import Event, ExceedMaxIters
from agent_core.models.base import ModelRequest, Piece, TextPiece
from agent_core.models.http import HttpClient
from app.settings import Settings
from converters.agui.encode import frame
from converters.wire import Frame
from tests.app.doubles import until
from tests.doubles import ScriptedModel, calls, says
from tests.live.test_disconnects import quiet
from tests.serving import frames_of, opened, run, run_input, serving, text_of, types_of


async def test_the_headers_are_those_of_an_event_stream_that_no_proxy_holds_back() -> None:
    async with serving(Agent("a", ScriptedModel([says("hi")]))) as up:
        async with opened(up.url, run_input("go"), **{"accept-encoding": "gzip"}) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            assert response.headers["cache-control"] == "no-cache, no-transform"
            assert response.headers["x-accel-buffering"] == "no"
            assert "content-encoding" not in response.headers
            body = (await response.aread()).decode()
    assert "[DONE]" not in body
    assert "\r" not in body


async def test_a_silent_stream_carries_comments() -> None:
    go_on = asyncio.Event()
    model = ScriptedModel([[TextPiece("so"), go_on, TextPiece(" far")]])
    async with serving(Agent("a", model), settings=Settings(ping_seconds=0.05)) as up:
        async with opened(up.url, run_input("go")) as response:
            seen = ""
            async for piece in response.aiter_text():
                seen += piece
                if seen.count("\n: ping\n") >= 2 or seen.count(": ping\n\n") >= 2:
                    go_on.set()
    assert seen.rstrip().splitlines()[-1].startswith('data: {"type":"RUN_FINISHED"')


async def test_what_is_ready_goes_out_in_one_write() -> None:
    burst: list[Piece] = [TextPiece(f"w{number} ") for number in range(300)]
    async with serving(Agent("a", ScriptedModel([burst]))) as up:
        async with opened(up.url, run_input("go")) as response:
            reads = [piece async for piece in response.aiter_raw()]
    assert b"".join(reads).count(b"TEXT_MESSAGE_CONTENT") == 300
    assert len(reads) < 30


async def test_no_write_is_larger_than_64_kb() -> None:
    burst: list[Piece] = [TextPiece("x" * 1_000) for _ in range(200)]
    async with serving(Agent("a", ScriptedModel([burst]))) as up:
        sent: list[int] = []
        app = up.server.app
        inner = app.middleware_stack
        assert inner is not None

        async def measuring(scope: Scope, receive: Receive, send: Send) -> None:
            async def measure(message: Message) -> None:
                if message["type"] == "http.response.body":
                    sent.append(len(message.get("body", b"")))
                await send(message)

            await inner(scope, receive, measure)

        app.middleware_stack = measuring
        frames = await run(up.url, run_input("go"))
    assert len(text_of(frames)) == 200_000
    assert 32 * 1024 < max(sent) <= 64 * 1024


@dataclass
class Endless:
    """A model that never stops talking; `said` counts what was taken of it."""

    provider: str = "endless"
    name: str = "model"
    said: int = 0
    closed: bool = False

    async def stream(self, request: ModelRequest, http: HttpClient) -> AsyncGenerator[Piece, None]:
        try:
            while True:
                self.said += 1
                yield TextPiece("x" * 1_000)
                await asyncio.sleep(0)
        finally:
            self.closed = True


async def test_a_client_that_never_reads_pauses_the_model_and_is_given_up() -> None:
    model = Endless()
    async with serving(Agent("a", model), settings=Settings(stalled_seconds=0.5)) as up:
        body = json.dumps(run_input("go")).encode()
        head = (
            f"POST /agui HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        )
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", up.port))
            await asyncio.get_running_loop().sock_sendall(client, head.encode() + b"\r\n\r\n" + body)
            await until(lambda: model.closed)
            await until(lambda: quiet(up))
            assert model.said < 20_000, "bounded by the lag, not by the model"


async def test_a_users_converter_takes_an_event_over_and_a_broken_one_breaks_nothing() -> None:
    class Budget:
        claims: tuple[type[Event], ...] = (ExceedMaxIters,)

        def convert(self, event: Event) -> Sequence[Frame]:
            assert isinstance(event, ExceedMaxIters)
            return [frame({"type": "CUSTOM", "name": "budget", "value": event.max_iters})]

    class Broken:
        claims: tuple[type[Event], ...] = (ExceedMaxIters,)

        def convert(self, event: Event) -> Sequence[Frame]:
            raise ValueError("mine")

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    for converter, shown in ((Budget, ["budget"]), (Broken, [])):
        agent = Agent("a", ScriptedModel([calls(("look", "")), says("done")]), tools=[look], max_iterations=1)
        async with serving(agent, converters=[converter]) as up:
            frames = await run(up.url, run_input("go"))
        assert [f["name"] for f in frames if f["type"] == "CUSTOM"] == shown
        assert "RAW" not in types_of(frames)
        assert text_of(frames) == "done"


async def test_a_tool_sends_events_of_its_own_from_a_task_and_from_a_thread() -> None:
    @tool
    def work(context: ToolContext) -> str:
        """Work in a thread."""
        context.emit("half", {"done": float("nan")})
        return "done"

    @tool
    async def wait(context: ToolContext) -> str:
        """Work in the loop."""
        context.emit("began", 1)
        await asyncio.sleep(0)
        return "done"

    model = ScriptedModel([calls(("work", ""), ("wait", "")), says("fine")])
    async with serving(Agent("a", model, tools=[work, wait])) as up:
        frames = await run(up.url, run_input("go"))
    assert [(f["name"], f["value"]) for f in frames if f["type"] == "CUSTOM"] == [
        ("half", {"done": None}),
        ("began", 1),
    ]


async def test_clients_of_before_1_0_get_no_outcome_and_no_new_shapes() -> None:
    model = ScriptedModel([[TextPiece("so"), asyncio.Event()]])
    async with serving(Agent("a", model)) as up:
        body = run_input("go")
        del body["protocolVersion"]
        async with opened(up.url, body) as response:
            frames = frames_of(response)
            seen = [await anext(frames) for _ in range(3)]
            engine = up.server.app.state.services.engine
            assert await engine.interrupt(user_id="local", session_id="t1")
            seen += [each async for each in frames]
    assert "outcome" not in seen[-1]
    assert seen[-1]["result"] == {"status": "cancelled"}


async def test_an_interrupt_is_the_outcome_cancelled_for_clients_of_1_0() -> None:
    model = ScriptedModel([[TextPiece("so"), asyncio.Event()], says("back")])
    async with serving(Agent("a", model)) as up:
        async with opened(up.url, run_input("go")) as response:
            frames = frames_of(response)
            seen = [await anext(frames) for _ in range(3)]
            engine = up.server.app.state.services.engine
            assert await engine.interrupt(user_id="local", session_id="t1")
            seen += [each async for each in frames]
        assert seen[-1]["outcome"] == {"type": "cancelled"}
        assert "result" not in seen[-1]
        assert text_of(await run(up.url, run_input("again"))) == "back"


async def test_pages_about_the_server_answer_while_runs_are_open() -> None:
    model = ScriptedModel([[asyncio.Event()]])
    async with serving(Agent("a", model)) as up, httpx.AsyncClient() as http:
        async with opened(up.url, run_input("go")):
            for path in ("/healthz", "/readyz", "/agents", "/"):
                assert (await http.get(up.url + path)).status_code == 200

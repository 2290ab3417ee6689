"""kill -9 while tools run, and then everything that could make their calls run again.

Each round begins with tools at work in some sessions: a tool that must not run twice, one that may, or one that a
person has approved. The server is killed and started again. Then clients go on in four places: in the session itself,
in a fork of it, in an import of its export, and in a restored snapshot. They edit observed messages, ask again under a
new system message, send the approval again, and say something new, in another order each time. The tools write down
what they did.
"""

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

import httpx

from agent_core.engine import Engine
from agent_core.interrupts import Answer
from agent_core.messages import Message, Role
from agent_core.run_input import RunInput
from agent_core.sessions.storage import open_store
from tests.faults.agents import worker as agent
from tests.faults.client import calling, messages_of, streaming
from tests.faults.gatehouse import Gatehouse
from tests.faults.workers import Note, Worker, started, unnoted
from tests.serving import Frame, run_input

TOOLS = ("hold", "rehold", "guarded")
PLACES = ("same", "fork", "import", "restored")
Said = tuple[str, Role, str]
"""A message: its id, its role, its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """What the rounds amount to: the calls that were at work, and those that ran again because they may."""

    calls: int
    again: int


@dataclass(slots=True, kw_only=True)
class Scene:
    """A session in which a call is at work. `interrupt` is the approval that it was given."""

    tool: str
    place: str
    session: str
    body: Frame
    interrupt: str = ""
    running: list["asyncio.Task[Frame]"] = field(default_factory=list)

    @property
    def asked(self) -> Said:
        message = self.body["messages"][0]
        return message["id"], "user", message["content"]


class Client(Protocol):
    """Somebody who goes on with a session."""

    async def send(self, session: str, *said: Said, interrupt: str = "") -> None: ...

    async def observe(self, session: str, said: Said) -> None: ...


class HttpClient:
    """Over AG-UI."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def send(self, session: str, *said: Said, interrupt: str = "") -> None:
        end = await _follow(self.http, run_input(thread=session, messages=_wire(*said), **_resume(interrupt)))
        assert end["type"] == "RUN_FINISHED", end
        assert end.get("outcome", {}).get("type") != "interrupt", end

    async def observe(self, session: str, said: Said) -> None:
        answer = await self.http.post(f"/sessions/{session}/observe", json={"messages": _wire(said)})
        assert answer.status_code == 200, answer.text


class Library:
    """Through an engine of its own."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    async def send(self, session: str, *said: Said, interrupt: str = "") -> None:
        answers = (Answer(interrupt_id=interrupt, payload={"approved": True}),) if interrupt else ()
        given = RunInput(messages=_messages(*said), answers=answers)
        ended = await self.engine.call(agent, given, user_id="local", session_id=session)
        assert ended.interrupts == ()

    async def observe(self, session: str, said: Said) -> None:
        await self.engine.observe(agent, _messages(said), user_id="local", session_id=session)


async def crash_again_and_again(folder: Path, rounds: int, *, note: Note = unnoted) -> Crashed:
    """Raises AssertionError for whatever is not as it must be. `note` is called after each round."""
    scenes: list[Scene] = []
    async with (
        Gatehouse() as gate,
        started(folder, {"FAULTS_GATE": str(gate.port)}) as worker,
    ):
        for number in range(rounds):
            now = [Scene(tool=tool, place=place, **_begin(number, tool, place)) for tool in TOOLS for place in PLACES]
            async with calling(worker.url) as http:
                await asyncio.gather(*(_go(http, gate, scene) for scene in now))
                await worker.kill()
                for scene in now:
                    with suppress(httpx.TransportError):
                        await scene.running[0]
                    gate.let_go(scene.session)  # whoever comes again does what it does
            async with _restored(worker, gate, now) as library:
                await worker.start()
                async with calling(worker.url) as http:
                    await asyncio.gather(*(_go_on(http, library, scene, number) for scene in now))
            scenes += now
            _check(worker.effects, scenes)
            note(number + 1)
    return _check(worker.effects, scenes)


def _begin(number: int, tool: str, place: str) -> dict[str, Any]:
    session = f"{tool}-{place}-{number}"
    return {"session": session, "body": run_input(f"{tool}:{session} say:1", thread=session)}


async def _go(http: httpx.AsyncClient, gate: Gatehouse, scene: Scene) -> None:
    """The scene's call is at work when this returns."""
    body = scene.body
    if scene.tool == "guarded":
        [interrupt] = (await _follow(http, body))["outcome"]["interrupts"]
        scene.interrupt = interrupt["id"]
        body = run_input(thread=scene.session, **_resume(scene.interrupt))
    scene.running.append(asyncio.create_task(_follow(http, body)))
    await gate.arrived(scene.session)


@asynccontextmanager
async def _restored(worker: Worker, gate: Gatehouse, scenes: list[Scene]) -> AsyncIterator[Library]:
    """An engine in this process, with snapshots of the sessions as the kill has left them."""
    variables = {"FAULTS_EFFECTS": str(worker.effects), "FAULTS_GATE": str(gate.port)}
    copy = worker.folder / "copy"
    shutil.copytree(worker.data, copy, ignore=shutil.ignore_patterns("lock"))
    async with AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, copy)
        stack.enter_context(patch.dict(os.environ, variables))
        store = await open_store("sqlite", copy, lease_seconds=30)
        engine = await stack.enter_async_context(Engine())
        async with Engine(store=store) as old:
            for scene in scenes:
                if scene.place == "restored":
                    snapshot = await old.session("local", scene.session).snapshot()
                    await engine.session("local", scene.session).restore(snapshot)
        yield Library(engine)


async def _go_on(http: httpx.AsyncClient, library: Library, scene: Scene, number: int) -> None:
    session, client = scene.session, HttpClient(http)
    if scene.place == "restored":
        await _ask_all(library, session, scene, number)
        return
    if scene.place == "fork":
        [calling] = [each for each in await messages_of(http, session) if each.get("toolCalls")]
        answer = await http.post(f"/sessions/{session}/fork", json={"messageId": calling["id"]})
        assert answer.status_code == 201, answer.text
        session = answer.json()["id"]
    elif scene.place == "import":
        exported = (await http.get(f"/sessions/{session}/export")).content
        session = f"{session}-import"
        headers = {"content-type": "application/jsonl"}
        answer = await http.post(f"/sessions/{session}/import", content=exported, headers=headers)
        assert answer.status_code == 201, answer.text
    await _ask_all(client, session, scene, number)


async def _ask_all(client: Client, session: str, scene: Scene, number: int) -> None:
    """Everything that a client may ask for, beginning with another request in each round."""
    asked = scene.asked
    observed: Said = (f"o-{session}", "user", "say:1")
    if number % 5 > 2 and scene.place == "same":  # only there it is a retry; elsewhere a new question
        await client.send(session, *([(f"r-{session}", "system", "Be quick."), asked] if number % 5 == 3 else [asked]))
    await client.observe(session, observed)
    edited: Said = (observed[0], "user", "say:2")
    for step in range(4):
        match (number + step) % 4:
            case 0:
                await client.send(session, asked, edited)
            case 1:
                await client.send(session, (f"s-{session}", "system", "Be kind."), asked, observed)
            case 2:
                await client.send(session, (f"n-{session}", "user", "say:1"), interrupt=scene.interrupt)
            case 3:
                await client.send(session, asked, observed)


async def _follow(http: httpx.AsyncClient, body: Frame) -> Frame:
    """Carry a run out; its last frame."""
    frame: Frame = {}
    async with streaming(http, body) as frames:
        async for each in frames:
            frame = each
    return frame


def _resume(interrupt: str) -> Frame:
    if not interrupt:
        return {}
    return {"resume": [{"interruptId": interrupt, "status": "resolved", "payload": {"approved": True}}]}


def _wire(*said: Said) -> list[Frame]:
    return [{"id": message_id, "role": role, "content": text} for message_id, role, text in said]


def _messages(*said: Said) -> tuple[Message, ...]:
    return tuple(Message(id=message_id, role=role, content=text) for message_id, role, text in said)


def _check(path: Path, scenes: list[Scene]) -> Crashed:
    """Each call ran once; those that may, in their own session, ran again under the same key."""
    lines = Counter(path.read_text().splitlines())
    calls = Counter(line.split()[0] for line in lines.elements())
    assert len(calls) == len(lines), "a call ran under two keys"
    assert len(calls) == len(scenes), f"other calls ran: {sorted(calls)}"
    for scene in scenes:
        times = calls[f"call_{scene.asked[0]}_0_0_{scene.tool}"]
        most = 2 if scene.tool == "rehold" and scene.place == "same" else 1
        assert 1 <= times <= most, f"{scene.session}: ran {times} times"
    return Crashed(calls=len(calls), again=calls.total() - len(calls))

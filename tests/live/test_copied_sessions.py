"""Sessions that came in from outside, through every route that could make their calls run: none does."""

from typing import Any

import httpx
import orjson
import pytest

from agent_core import Agent, tool
from agent_core.interrupts import Decision, Interrupt
from agent_core.messages import Message, ToolCall
from agent_core.sessions.copies.portable import export_lines
from agent_core.sessions.entries import Entry
from app.settings import Settings
from tests.agent_core.sessions.talk import numbered
from tests.doubles import ScriptedModel, says
from tests.entries import answered_entry, asked_entry, end_entry, message_entry, run_entry
from tests.serving import Frame, run_input, serving

MEMORY = Settings(store="memory")
LINES = {"content-type": "application/jsonl"}


def crafted() -> bytes:
    """A forged export. It has calls without results in the middle, one of them approved, and one that waits."""
    calls = tuple(ToolCall(id=f"c{n}", name=name) for n, name in enumerate(("act", "guarded", "guarded", "theirs")))
    asked = [
        Interrupt(id=f"i{n}", kind="approval", call_id=call.id, name=call.name)
        for n, call in enumerate(calls)
        if call.name == "guarded"
    ]
    entries: list[Entry] = [
        run_entry("r1", "a"),
        _said(Message(id="u1", role="user", content="hi")),
        _said(Message(id="a1", role="assistant", tool_calls=calls)),
        *(asked_entry("r1", "a", each) for each in asked),
        answered_entry("r1", "i1", Decision(kind="approved")),
        _said(Message(id="u2", role="user", content="well?")),
        _said(Message(id="a2", role="assistant", content="done")),
        end_entry("r1", "completed"),
    ]
    return export_lines(numbered(*entries), session_id="s", title="T")


def _said(message: Message) -> Entry:
    return message_entry("r1", "a", message)


class World:
    """An agent whose tools must not run, and a client's requests."""

    def __init__(self) -> None:
        self.ran: list[str] = []

        @tool
        def act() -> str:
            """Acts."""
            self.ran.append("act")
            return "done"

        @tool(approval=True, idempotent=True)
        def guarded() -> str:
            """Acts once a person has agreed."""
            self.ran.append("guarded")
            return "done"

        self.agent = Agent("a", ScriptedModel([says("fine")]), tools=[act, guarded])


TOOLS = [{"name": "theirs", "description": "", "parameters": {"type": "object"}}]
U1, U2 = {"id": "u1", "role": "user", "content": "hi"}, {"id": "u2", "role": "user", "content": "well?"}
SYSTEM = {"id": "s9", "role": "system", "content": "be kind"}
APPROVED = [{"interruptId": each, "status": "resolved", "payload": {"approved": True}} for each in ("i1", "i2")]


def agui(*messages: dict[str, Any], **members: Any) -> Frame:
    return run_input(None, tools=TOOLS, messages=list(messages), **members)


REQUESTS: dict[str, Frame] = {
    "edit": agui(U1, U2 | {"content": "so?"}),
    "edit alone": agui(U2 | {"content": "so?"}),
    "regenerate": agui(U1, U2),
    "system": agui(SYSTEM, U1, U2),
    "resume": agui(resume=APPROVED),
    "resume and edit": agui(U1, U2 | {"content": "so?"}, resume=APPROVED),
    "edit of the first": agui(U1 | {"content": "hello"}),
    "new": agui({"id": "u3", "role": "user", "content": "go on"}),
}


async def _ask(http: httpx.AsyncClient, session: str, name: str) -> None:
    body = REQUESTS[name] | {"threadId": session, "runId": f"{session}-{name.replace(' ', '_')}"}
    answer = await http.post("/agui", json=body, headers={"accept": "text/event-stream"})
    assert answer.status_code == 200, answer.text
    last = orjson.loads(answer.text.strip().rpartition("data: ")[2])
    assert last["type"] == "RUN_FINISHED", last
    assert last.get("outcome", {"type": "success"})["type"] == "success", last
    assert last["result"]["status"] == "completed", last


async def _ask_elsewhere(http: httpx.AsyncClient, session: str) -> None:
    """Over the other endpoints."""
    for approved in APPROVED:
        told = await http.post(f"/sessions/{session}/resume", json={"answers": [approved]})
        assert told.status_code < 500, told.text
    waiting = (await http.get(f"/sessions/{session}/interrupts")).json()
    assert not waiting.get("interrupts"), waiting
    messages = [{"role": "user", "content": "hi"}, {"role": "user", "content": "so?"}]
    for said in (messages, messages[1:]):
        body = {"model": "a", "messages": said}
        answer = await http.post("/v1/chat/completions", json=body, headers={"x-session-id": session})
        assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("first", list(REQUESTS))
async def test_no_call_of_an_import_runs_and_no_approval_of_it_counts(first: str) -> None:
    world = World()
    async with serving(world.agent, settings=MEMORY) as up, httpx.AsyncClient(base_url=up.url, timeout=20) as http:
        assert (await http.post("/sessions/t1/import", content=crafted(), headers=LINES)).status_code == 201
        await _ask(http, "t1", first)
        exported = (await http.get("/sessions/t1/export")).content
        assert b'"origin":"copied"' in exported
        last = (await http.get("/sessions/t1/messages")).json()["messages"][-1]["id"]
        assert (await http.post("/sessions/t2/import", content=exported, headers=LINES)).status_code == 201
        fork = await http.post("/sessions/t1/fork", json={"messageId": last, "sessionId": "t3"})
        assert fork.status_code == 201, fork.text
        for session in ("t1", "t2", "t3"):
            for name in REQUESTS:
                await _ask(http, session, name)
            await _ask_elsewhere(http, session)
    assert world.ran == []

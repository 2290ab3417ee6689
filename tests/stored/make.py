"""Makes a data directory and an export as this version stores them: `python -m tests.stored.make FOLDER`.

It runs with earlier versions too, copied into their trees: see README.md.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import httpx

from agent_core import Agent, ToolContext, tool
from app.settings import Settings
from tests.doubles import ScriptedModel, calls, says
from tests.serving import Frame, run, run_input, serving

KEPT = {"sessions.db", "journal.key", "journal.anchor"}
RETRIED: dict[str, Any] = {"model": "a", "messages": [{"role": "user", "content": "Are you there?"}]}
RETRIED_HEADERS = {"x-session-id": "named", "idempotency-key": "k1"}
"""A request that comes again after the update, and must find its answer."""


def agent(*steps: Any) -> Agent:
    """The agent that has them, and that goes on with them."""

    @tool
    def look_up(city: str, context: ToolContext) -> str:
        """How many people live there."""
        context.state["looked_up"] = city
        return f"{city} has 2100000"

    @tool(approval=True)
    def send(to: str) -> str:
        """Send what was found."""
        return f"sent to {to}"

    return Agent("a", ScriptedModel(steps), tools=[look_up, send])


async def make(folder: Path) -> None:
    talker = agent(
        calls(("look_up", '{"city":"Paris"}')),
        says("Two million."),
        says("A draft."),
        says("Better."),
        calls(("look_up", '{"city":"Rome"}'), ("send", '{"to":"ann"}')),
        says("Yes, I am."),
    )
    async with serving(talker, settings=Settings(store="sqlite", data_dir=folder)) as up:
        await run(up.url, run_input("How many people live in Paris?", state={"unit": "people"}))
        async with httpx.AsyncClient(base_url=up.url) as http:
            shown = (await http.get("/sessions/t1/messages")).json()["messages"]
            await run(up.url, run_input(messages=[*shown, asks("Say it in a poem")]))
            await run(up.url, run_input(messages=[*shown, asks("Say it in a rhyme")]))  # the draft is rewound away
            last = (await http.get("/sessions/t1/messages")).json()["messages"][-1]["id"]
            forked = await http.post("/sessions/t1/fork?agent=a", json={"messageId": last, "sessionId": "forked"})
            assert forked.status_code < 300, forked.text
            frames = await run(up.url, run_input("Send Ann what Rome has", thread="waits"))
            assert frames[-1]["outcome"]["type"] == "interrupt", frames[-1]
            answered = await http.post("/v1/chat/completions", json=RETRIED, headers=RETRIED_HEADERS)
            assert answered.status_code == 200, answered.text
            exported = await http.get("/sessions/t1/export")
    keep(folder, exported.content)


def asks(text: str) -> Frame:
    return {"id": "q2", "role": "user", "content": text}


def keep(folder: Path, export: bytes) -> None:
    for path in folder.iterdir():
        if path.name not in KEPT:
            path.unlink()
    (folder / "t1.jsonl").write_bytes(export)


if __name__ == "__main__":
    asyncio.run(make(Path(sys.argv[1])))

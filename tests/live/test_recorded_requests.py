"""What CopilotKit and assistant-ui send for an edit, a regenerate and the like, as it was recorded in a browser.

A line of recorded.jsonl is one conversation: the requests, what the model saw for each of its answers, and what the
tools did. The ids are by order, since the server makes new ones: `u1` a user's message, `n1` another one of the
client's, `a1` an answer, `a1.c0` its first call, `a1.t0` that call's result and `a1.i0` its interrupt.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.settings import Settings
from tests.app.doubles import Running
from tests.live.clerk import Clerk
from tests.serving import Frame, run, serving

RECORDED = [json.loads(line) for line in Path(__file__).with_name("recorded.jsonl").read_text().splitlines()]
PICK = {
    "name": "pick_colour",
    "description": "Ask for a colour.",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
}


class Ids:
    """The recorded ids, and those that the server gives."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._answers = 0

    def given(self, name: str) -> str:
        """What a client would send now; its own ids stay as they were recorded."""
        for suffix in ("-thinking-1", ":tool"):
            if name.endswith(suffix):
                return self.given(name.removesuffix(suffix)) + suffix
        return self._given.get(name, name)

    def learn(self, frames: list[Frame]) -> None:
        for frame in frames:
            match frame:
                case {"type": "TEXT_MESSAGE_START", "messageId": answer}:
                    self._answer(answer)
                case {"type": "TOOL_CALL_START", "parentMessageId": answer, "toolCallId": call}:
                    self._answer(answer)
                    calls = sum(name.startswith(f"{self._names[answer]}.c") for name in self._given)
                    self._know(f"{self._names[answer]}.c{calls}", call)
                case {"type": "TOOL_CALL_RESULT", "messageId": result, "toolCallId": call}:
                    self._know(self._names[call].replace(".c", ".t"), result)
                case {"type": "RUN_FINISHED", "outcome": {"interrupts": waiting}}:
                    for each in waiting:
                        self._know(self._names[each["toolCallId"]].replace(".c", ".i"), each["id"])

    def _answer(self, given: str) -> None:
        if given not in self._names:
            self._answers += 1
            self._know(f"a{self._answers}", given)

    def _know(self, name: str, given: str) -> None:
        self._given[name], self._names[given] = given, name


def body_of(request: dict[str, Any], ids: Ids) -> Frame:
    """The request as it would be sent now. Neither client names a version of the protocol."""
    messages = []
    for message in request["messages"]:
        sent = message | {"id": ids.given(message["id"])}
        if "toolCallId" in message:
            sent["toolCallId"] = ids.given(message["toolCallId"])
        if "toolCalls" in message:
            sent["toolCalls"] = [call | {"id": ids.given(call["id"])} for call in message["toolCalls"]]
        messages.append(sent)
    body = {"tools": [PICK], "context": [], "forwardedProps": {}, **request, "threadId": "t", "messages": messages}
    if "resume" in request:
        body["resume"] = [entry | {"interruptId": ids.given(entry["interruptId"])} for entry in request["resume"]]
    return body


@asynccontextmanager
async def servers(clerk: Clerk, folder: Path, anew: bool) -> AsyncIterator[Callable[[], Awaitable[str]]]:
    """A function that returns the URL of a server: the same one, or a new one each time, which knows what is stored."""
    settings = Settings(store="sqlite", data_dir=folder)
    async with AsyncExitStack() as stack:
        up: list[Running] = []

        async def url() -> str:
            if anew or not up:
                await stack.aclose()
                up[:] = [await stack.enter_async_context(serving(clerk.agent(), settings=settings))]
            return up[0].url

        yield url


@pytest.mark.parametrize("anew", [False, True], ids=["one server", "started anew for each request"])
@pytest.mark.parametrize("recorded", RECORDED, ids=[f"{each['client']}: {each['what']}" for each in RECORDED])
async def test_the_model_sees_what_the_page_shows_and_no_tool_acts_unasked(
    tmp_path: Path, recorded: dict[str, Any], anew: bool
) -> None:
    clerk, ids = Clerk(), Ids()
    async with servers(clerk, tmp_path, anew) as url:
        for request in recorded["requests"]:
            frames = await run(await url(), body_of(request, ids))
            assert frames[-1]["type"] == "RUN_FINISHED"
            ids.learn(frames)
    assert [[list(each) for each in seen] for seen in clerk.seen] == recorded["saw"]
    assert clerk.done == recorded["done"]

"""Limits are a turn's, for real clients on real sockets: whoever answers at once and for ever comes to their end."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_core import Agent, tool
from agent_core.guarding import Guards
from agent_core.models.base import ModelRequest, Piece, UsagePiece
from agent_core.usage import Usage
from app.settings import Settings
from tests.doubles import ScriptedModel, Step, calls, says
from tests.serving import Frame, run, run_input, serving

MEMORY = Settings(store="memory")
PICK = {"name": "pick", "description": "The client's.", "parameters": {"type": "object", "properties": {}}}
FUNCTION = {"type": "function", "function": PICK}
HONEST = "I found no more than this."
TOLD_BLOCKED_ENDED = [("nudge", 3), ("block", 4), ("block", 5), ("answer", 5)]


class Desk:
    """An agent whose model asks for the same as long as there are tools, and then answers."""

    def __init__(self, *asked: tuple[str, Callable[[int], str]], **members: Any) -> None:
        self.ran: list[str] = []

        @tool
        def look(n: int = 0) -> str:
            """Looks."""
            self.ran.append("look")
            return f"seen {n}"

        @tool(approval=True)
        def send(n: int = 0) -> str:
            """Sends."""
            self.ran.append("send")
            return "sent"

        def step(request: ModelRequest) -> Sequence[Piece]:
            done = sum(1 for message in request.messages if message.role == "assistant")
            cost = UsagePiece(Usage(provider="p", model="m", input_tokens=60, output_tokens=40))
            answer = calls(*((name, arguments(done)) for name, arguments in asked)) if request.tools else says(HONEST)
            return [*answer, cost]

        self.model = ScriptedModel([step])
        self.agent = Agent("a", self.model, tools=[look, send], **members)


def same(_: int) -> str:
    return "{}"


def counted(n: int) -> str:
    return f'{{"n":{n}}}'


class Panel:
    """An AG-UI client: it keeps its transcript as the frames tell it, answers its own tools and approves at once."""

    def __init__(self, result: Callable[[int], str] = lambda _: "ok") -> None:
        self.messages: list[Frame] = []
        self.frames: list[Frame] = []
        self.result = result
        self.picked = self.approved = self.runs = 0

    async def ask(self, url: str, text: str, message_id: str) -> Frame:
        self.messages.append({"id": message_id, "role": "user", "content": text})
        return await self.send(url)

    async def send(self, url: str, **members: Any) -> Frame:
        self.runs += 1
        body = run_input(None, messages=self.messages, tools=[PICK], **members)
        frames = await run(url, body)
        self.frames += frames
        self.take(frames)
        return frames[-1]

    def take(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            if frame["type"] == "TOOL_CALL_START":
                call = {"id": frame["toolCallId"], "type": "function"}
                call["function"] = {"name": frame["toolCallName"], "arguments": "{}"}
                self.messages.append({"id": frame["parentMessageId"], "role": "assistant", "toolCalls": [call]})
            elif frame["type"] == "TOOL_CALL_RESULT":
                known = {"id": frame["messageId"], "role": "tool", "toolCallId": frame["toolCallId"]}
                self.messages.append(known | {"content": frame["content"]})

    async def go_on(self, url: str, end: Frame, most: int = 300) -> Frame:
        for _ in range(most):
            waits = await self.again(url, end)
            if waits is None:
                return end
            end = waits
        pytest.fail("it goes on for ever")

    async def again(self, url: str, end: Frame) -> Frame | None:
        """The next run of the turn, where the last one wants any."""
        outcome = end.get("outcome", {})
        if outcome.get("type") == "interrupt":
            self.approved += len(outcome["interrupts"])
            entries = [
                {"interruptId": each["id"], "status": "resolved", "payload": {"approved": True}}
                for each in outcome["interrupts"]
            ]
            return await self.send(url, resume=entries)
        if end.get("result", {}).get("status") != "client_tools":
            return None
        answered = {message.get("toolCallId") for message in self.messages}
        asked = [call["id"] for message in self.messages for call in message.get("toolCalls", ())]
        for call_id in asked:
            if call_id not in answered:
                self.picked += 1
                result = {"id": f"t-{call_id}", "role": "tool", "toolCallId": call_id}
                self.messages.append(result | {"content": self.result(self.picked)})
        return await self.send(url)

    @property
    def trips(self) -> list[tuple[str, str, int]]:
        found = [each["content"] for each in self.frames if each.get("activityType") == "guard"]
        return [(each["guard"], each["action"], each["count"]) for each in found]


def told(frames: Sequence[Frame]) -> list[str]:
    return [frame["type"] for frame in frames]


async def test_a_client_that_answers_its_tools_by_itself_is_told_then_blocked_then_ended() -> None:
    desk, panel = Desk(("pick", same)), Panel()
    async with serving(desk.agent, settings=MEMORY) as up:
        end = await panel.go_on(up.url, await panel.ask(up.url, "go", "u1"))
        assert end["result"]["status"] == "max_iterations"
        assert end["result"]["continuationRequired"] is True
        assert panel.trips == [("repeats", *each) for each in TOLD_BLOCKED_ENDED]
        assert (panel.picked, panel.runs) == (3, 4)
        assert "RAW" not in told(panel.frames)
        async with httpx.AsyncClient(base_url=up.url) as http:
            kept = (await http.get("/sessions/t1/messages")).json()["messages"]
        assert [
            each["content"].startswith("Error: This call was not run") for each in kept if each["role"] == "tool"
        ] == [
            False,
            False,
            False,
            True,
            True,
        ]
    assert desk.model.requests[-1].tools == ()


@pytest.mark.parametrize(("theirs", "ran"), [(same, 2), (counted, 40)])
async def test_identical_server_calls_beside_a_clients_come_to_an_end(theirs: Callable[[int], str], ran: int) -> None:
    desk, panel = Desk(("look", same), ("pick", theirs)), Panel()
    async with serving(desk.agent, settings=MEMORY) as up:
        end = await panel.go_on(up.url, await panel.ask(up.url, "go", "u1"))
    assert end["result"]["status"] == "max_iterations"
    assert (len(desk.ran), panel.picked) == (ran, ran)
    assert panel.trips[-1][1] == "answer"


@pytest.mark.parametrize("limit", [None, 7])
async def test_a_turn_has_its_rounds_and_ends_as_every_guard_does(limit: int | None) -> None:
    limits = Guards(calls_per_tool=None) if limit is None else Guards(turn_iterations=limit)
    desk, panel = Desk(("pick", counted), guards=limits), Panel(str)
    async with serving(desk.agent, settings=MEMORY) as up:
        end = await panel.go_on(up.url, await panel.ask(up.url, "go", "u1"))
    assert end["result"]["status"] == "max_iterations"
    assert panel.trips == [("turn_iterations", "answer", limit or 100)]
    assert panel.picked == (limit or 100)
    assert "RAW" not in told(panel.frames)


async def test_approvals_for_ever_come_to_an_end_and_what_is_blocked_is_asked_of_nobody() -> None:
    desk, panel = Desk(("send", same)), Panel()
    async with serving(desk.agent, settings=MEMORY) as up:
        end = await panel.go_on(up.url, await panel.ask(up.url, "go", "u1"))
    assert end["result"]["status"] == "max_iterations"
    assert panel.trips == [("repeats", *each) for each in TOLD_BLOCKED_ENDED]
    assert (panel.approved, desk.ran) == (3, ["send"] * 3)


async def test_approvals_over_http_are_counted_in_the_same_turn() -> None:
    desk = Desk(("send", same))
    async with serving(desk.agent, settings=MEMORY) as up, httpx.AsyncClient(base_url=up.url) as http:
        await run(up.url, run_input("go"))
        for _ in range(9):
            waiting = (await http.get("/sessions/t1/interrupts")).json()["interrupts"]
            if not waiting:
                break
            answers = [
                {"interruptId": each["id"], "status": "resolved", "payload": {"approved": True}} for each in waiting
            ]
            end = (await http.post("/sessions/t1/resume", json={"answers": answers})).json()
    assert end["status"] == "max_iterations"
    assert end["message"]["content"] == HONEST
    assert desk.ran == ["send"] * 3


async def test_an_edit_a_regenerate_and_a_new_message_begin_anew() -> None:
    desk, panel = Desk(("pick", counted), guards=Guards(calls_per_tool=4)), Panel(str)

    async def picked(url: str, end: Frame) -> int:
        before = panel.picked
        assert (await panel.go_on(url, end))["result"]["status"] == "max_iterations"
        return panel.picked - before

    async with serving(desk.agent, settings=MEMORY) as up:
        assert await picked(up.url, await panel.ask(up.url, "go", "u1")) == 4
        del panel.messages[1:]
        assert await picked(up.url, await panel.send(up.url)) == 4, "regenerate"
        panel.messages.clear()
        assert await picked(up.url, await panel.ask(up.url, "go elsewhere", "u1")) == 4, "edit"
        assert await picked(up.url, await panel.ask(up.url, "go on", "u2")) == 4, "a new message"


@pytest.mark.parametrize(
    ("guards", "trips", "picked"),
    [
        (Guards(), [("repeats", *each) for each in TOLD_BLOCKED_ENDED], 3),
        (Guards(repeats=None, tokens=450), [("tokens", "answer", 450)], 5),
        (Guards(repeats=None, turn_iterations=4), [("turn_iterations", "answer", 4)], 4),
        (Guards(repeats=None, calls_per_run=2), [("calls_per_run", "block", 2), ("calls_per_run", "answer", 2)], 2),
    ],
    ids=["repeats", "tokens", "rounds", "calls"],
)
async def test_a_restart_in_the_middle_of_a_turn_gives_nobody_fresh_limits(
    tmp_path: Path, guards: Guards, trips: list[tuple[str, str, int]], picked: int
) -> None:
    kept = Settings(store="sqlite", data_dir=tmp_path)
    desk, panel = Desk(("pick", same), guards=guards), Panel()
    last: Frame = {}
    for number in range(9):
        async with serving(desk.agent, settings=kept) as up:
            waits = await panel.again(up.url, last) if number else await panel.ask(up.url, "go", "u1")
        if waits is None:
            break
        last = waits
    assert last["result"]["status"] == "max_iterations"
    assert panel.trips == trips
    assert panel.picked == picked


class Coder:
    """A client of /v1 that keeps the whole conversation, runs its own tools and asks again, for ever."""

    def __init__(self, http: httpx.AsyncClient, **members: Any) -> None:
        self.http = http
        self.members = members
        self.messages: list[dict[str, Any]] = []
        self.ran = self.requests = 0
        self.result: Callable[[int], str] = lambda _: "ok"

    async def ask(self, text: str) -> dict[str, Any]:
        self.messages.append({"role": "user", "content": text})
        for _ in range(300):
            self.requests += 1
            body = {"model": "a", "messages": self.messages, "tools": [FUNCTION], **self.members}
            answer: dict[str, Any] = (await self.http.post("/v1/chat/completions", json=body)).raise_for_status().json()
            choice = answer["choices"][0]
            self.messages.append({name: value for name, value in choice["message"].items() if value is not None})
            if choice["finish_reason"] != "tool_calls":
                return answer
            for call in choice["message"]["tool_calls"]:
                self.ran += 1
                result = {"role": "tool", "tool_call_id": call["id"], "content": self.result(self.ran)}
                self.messages.append(result)
        pytest.fail("it goes on for ever")


@pytest.mark.parametrize("session", [None, "s1"])
async def test_on_v1_the_same_call_for_ever_is_three_with_and_without_a_session(session: str | None) -> None:
    desk = Desk(("pick", same))
    headers = {} if session is None else {"x-session-id": session}
    async with (
        serving(desk.agent, settings=MEMORY) as up,
        httpx.AsyncClient(base_url=up.url, headers=headers, timeout=30) as http,
    ):
        coder = Coder(http)
        answer = await coder.ask("go")
        assert answer["x_agent"]["status"] == "max_iterations"
        assert answer["choices"][0]["message"]["content"] == HONEST
        assert (coder.ran, coder.requests) == (3, 4)
        assert "3 times in a row" in [m.text for m in desk.model.requests[3].messages if m.role == "tool"][2]
        await coder.ask("and again")
        assert coder.ran == 6, "a new turn"


@pytest.mark.parametrize("session", [None, "s1"])
async def test_on_v1_rounds_and_calls_are_those_behind_the_last_user_message(session: str | None) -> None:
    desk = Desk(("pick", counted), guards=Guards(turn_iterations=6, calls_per_tool=9))
    headers = {} if session is None else {"x-session-id": session}
    async with (
        serving(desk.agent, settings=MEMORY) as up,
        httpx.AsyncClient(base_url=up.url, headers=headers, timeout=30) as http,
    ):
        coder = Coder(http)
        coder.result = str
        for turn in (1, 2, 3):
            answer = await coder.ask("go")
            assert answer["x_agent"]["status"] == "max_iterations"
            assert coder.ran == 6 * turn
            assert "The 6 rounds" in desk.model.requests[-1].messages[0].text


@pytest.mark.parametrize(("session", "ran"), [(None, 10), ("s1", 3)])
async def test_on_v1_tokens_are_the_requests_own_where_it_names_no_session(session: str | None, ran: int) -> None:
    desk = Desk(("pick", counted), guards=Guards(tokens=300, turn_iterations=10))
    headers = {} if session is None else {"x-session-id": session}
    async with (
        serving(desk.agent, settings=MEMORY) as up,
        httpx.AsyncClient(base_url=up.url, headers=headers, timeout=30) as http,
    ):
        coder = Coder(http)
        coder.result = str
        assert (await coder.ask("go"))["x_agent"]["status"] == "max_iterations"
        assert coder.ran == ran


async def test_on_v1_without_a_session_server_calls_that_the_client_never_sees_count_too() -> None:
    desk = Desk(("look", same), ("pick", counted), guards=Guards(repeats=None, calls_per_run=12))
    async with serving(desk.agent, settings=MEMORY) as up, httpx.AsyncClient(base_url=up.url, timeout=30) as http:
        coder = Coder(http)
        coder.result = str
        assert (await coder.ask("go"))["x_agent"]["status"] == "max_iterations"
        assert (coder.ran, len(desk.ran)) == (6, 6)


async def test_on_v1_without_a_session_a_blocked_call_of_the_clients_stays_in_the_conversation() -> None:
    asked: list[Step] = [calls(("pick", "{}"))] * 4
    desk = Desk()
    model = ScriptedModel([*asked, calls(("pick", '{"other":1}')), says("done")])
    agent = Agent("a", model, tools=desk.agent.tools)
    async with serving(agent, settings=MEMORY) as up, httpx.AsyncClient(base_url=up.url, timeout=30) as http:
        coder = Coder(http)
        answer = await coder.ask("go")
        assert answer["choices"][0]["message"]["content"] == "done"
        assert coder.ran == 4
    results = [message.text for message in model.requests[-1].messages if message.role == "tool"]
    assert [each.startswith("Error: This call was not run") for each in results] == [False] * 3 + [True, False]

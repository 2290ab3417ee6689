"""OpenAI's clients are told if a run waits for a person or an operation."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from agent_core.events import AgentEnd, Event, RequireUserConfirm
from agent_core.interrupts import Interrupt
from tests.converters.openai.streams import (
    MODEL,
    RUN,
    SESSION,
    START,
    Client,
    follow,
    model_call,
    open_answer,
    open_stream,
    text,
    tool_call,
)

MAIL = Interrupt(
    id="i1", kind="approval", call_id="c1", name="send_email", arguments='{"to":"ann"}', message="May I?",
    expires_at=1_764_500_000_007,
)  # fmt: skip
RENDER = Interrupt(
    id="i2", kind="waiting", call_id="c2", name="render", operation_id="op1", wait_id="w", retry_after=2.5
)
CALL = tool_call("m1", "c1", "send_email", '{"to":"ann"}')


def run(*waiting: Interrupt, before: list[Event] | None = None, status: Any = "approval") -> list[Event]:
    events = [*(before or []), RequireUserConfirm(run_id=RUN, interrupts=waiting)]
    return [START, *model_call("m1", events), AgentEnd(run_id=RUN, status=status, interrupts=waiting)]


def streamed(events: list[Event], *, shown: bool = False) -> tuple[Client, dict[str, Any]]:
    client = follow(open_stream(events=shown).feed(events))
    assert client.about is not None
    return client, client.about


def whole(events: list[Event]) -> dict[str, Any]:
    answer = open_answer()
    answer.feed(events)
    body: dict[str, Any] = json.loads(answer.body())
    return body


def test_the_answer_says_what_waits_and_how_to_go_on() -> None:
    client, about = streamed(run(MAIL, before=CALL))
    first, call, way = client.content.split("\n")
    assert first == "Nothing more is done until this is answered:"
    assert call == '- send_email({"to":"ann"}) waits for an approval (interrupt i1)'
    assert way.startswith(f"To answer: POST /sessions/{SESSION}/resume {{")
    assert json.loads(way[way.index("{") :]) == {
        "agent": MODEL,
        "answers": [{"interruptId": "i1", "status": "resolved", "payload": {"approved": True}}],
    }
    assert (client.finish, client.calls, about["status"]) == ("stop", [], "approval")


def test_the_interrupts_are_listed_beside_it() -> None:
    _, about = streamed(run(MAIL, RENDER, before=CALL))
    assert about["interrupts"] == [
        {
            "id": "i1",
            "kind": "approval",
            "callId": "c1",
            "name": "send_email",
            "message": "May I?",
            "arguments": {"to": "ann"},
            "expiresAt": "2025-11-30T10:53:20.007Z",
        },
        {
            "id": "i2",
            "kind": "waiting",
            "callId": "c2",
            "name": "render",
            "message": "",
            "arguments": {},
            "operationId": "op1",
            "waitId": "w",
            "retryAfter": 2.5,
        },
    ]
    assert "waiting" not in about


def test_a_whole_answer_says_the_same() -> None:
    events = run(MAIL, RENDER, before=[*text("m1", "One moment."), *CALL])
    client, about = streamed(events)
    body = whole(events)
    [choice] = body["choices"]
    assert choice["message"] == {"role": "assistant", "content": client.content, "refusal": None}
    assert client.content.startswith("One moment.\n\nNothing more is done until")
    assert (choice["finish_reason"], body["x_agent"]) == ("stop", about)


def test_an_operation_is_told_with_the_way_to_its_result() -> None:
    client, about = streamed(run(RENDER, status="waiting"))
    assert client.content.endswith(f'POST /sessions/{SESSION}/operations/op1 {{"result": …}}')
    assert (client.finish, about["status"]) == ("stop", "waiting")


def test_a_call_of_the_client_beside_it_does_not_make_it_the_client_s_turn() -> None:
    events = run(MAIL, before=[*tool_call("m1", "c9", "pick", "{}"), *CALL])
    client, _ = streamed(events)
    assert client.finish == "stop"
    assert whole(events)["choices"][0]["finish_reason"] == "stop"
    assert "tool_calls" not in whole(events)["choices"][0]["message"]


def test_a_run_whose_interrupts_are_answered_by_now_says_nothing() -> None:
    client, about = streamed(run())
    assert (client.content, client.finish, about["status"]) == ("", "stop", "approval")
    assert "interrupts" not in about


def test_long_arguments_and_many_calls_are_shortened_in_the_text() -> None:
    long = replace(MAIL, arguments='{"a":"' + "é" * 40_000 + '"}')
    client, about = streamed(run(*(replace(long, id=f"i{n}") for n in range(100))))
    assert len(client.content) < 10_000
    assert "- and 90 more\n" in client.content
    assert "arguments" not in about["interrupts"][0]
    assert len(about["interrupts"]) == 100


def test_only_what_fits_is_listed() -> None:
    long = replace(MAIL, arguments='{"a":"' + "x" * 60_000 + '"}')
    _, about = streamed(run(*(replace(long, id=f"i{n}") for n in range(40))))
    assert 10 < len(about["interrupts"]) < 40


@pytest.mark.parametrize("bad", ["\ud800", "\r\n\n", '"}'])
def test_what_a_model_asks_for_cannot_break_the_stream(bad: str) -> None:
    client, _ = streamed(run(replace(MAIL, arguments=bad, name=f"a{bad}", message=bad)), shown=True)
    assert client.finish == "stop"

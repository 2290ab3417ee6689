"""How a run ends that waits for a person, or for what goes on elsewhere."""

from typing import Any

import pytest
from msgspec.structs import replace

from agent_core.events import AgentEnd, RequireUserConfirm
from agent_core.interrupts import Interrupt
from agent_core.usage import Usage
from converters.agui.dialect import Dialect
from tests.converters.agui.streams import RUN, THREAD, convert

MAIL = Interrupt(
    id="i1",
    kind="approval",
    call_id="c1",
    name="send_email",
    arguments='{"to":"ann","n":[1,2]}',
    message="The agent wants to call send_email.",
    created_at=1_764_500_000_000,
)
RENDER = Interrupt(
    id="i2", kind="waiting", call_id="c2", name="render", message="It renders.", operation_id="op/1", wait_id="w1",
    retry_after=2.5,
)  # fmt: skip
FINISHED = {"type": "RUN_FINISHED", "threadId": THREAD, "runId": RUN}


def told(*waiting: Interrupt, dialect: Dialect = Dialect.V1) -> list[dict[str, Any]]:
    status = "approval" if any(each.kind == "approval" for each in waiting) else "waiting"
    asked, end = RequireUserConfirm(run_id=RUN, interrupts=waiting), AgentEnd(
        run_id=RUN, status=status, interrupts=waiting  # type: ignore[arg-type]  # one of the two
    )  # fmt: skip
    [finished] = convert(asked, end, dialect=dialect)
    assert set(finished) == {"type", "threadId", "runId", "outcome"}
    assert finished["outcome"]["type"] == "interrupt"
    interrupts: list[dict[str, Any]] = finished["outcome"]["interrupts"]
    return interrupts


@pytest.mark.parametrize("dialect", Dialect)
def test_an_approval_has_the_shape_that_clients_render(dialect: Dialect) -> None:
    assert told(MAIL, dialect=dialect) == [
        {
            "id": "i1",
            "reason": "tool_call",
            "message": "The agent wants to call send_email.",
            "toolCallId": "c1",
            "responseSchema": {
                "type": "object",
                "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
                "required": ["approved"],
            },
            "metadata": {"toolName": "send_email", "arguments": {"to": "ann", "n": [1, 2]}},
        }
    ]


def test_one_that_waits_says_for_which_operation() -> None:
    assert told(RENDER) == [
        {
            "id": "i2",
            "reason": "waiting",
            "message": "It renders.",
            "toolCallId": "c2",
            "responseSchema": {"type": "object", "properties": {"result": {}}, "required": ["result"]},
            "metadata": {"toolName": "render", "operationId": "op/1", "waitId": "w1", "retryAfter": 2.5},
        }
    ]
    [least] = told(Interrupt(id="i", kind="waiting", call_id="c", name="n", operation_id="o"))
    assert least["metadata"] == {"toolName": "n", "operationId": "o"}
    assert "message" not in least


@pytest.mark.parametrize(
    ("expires_at", "shown"),
    [(0, None), (1_764_500_000_007, "2025-11-30T10:53:20.007Z"), (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
     (253_402_300_800_000, None), (10**16, None)],
)  # fmt: skip
def test_when_it_expires_is_a_date_where_it_does(expires_at: int, shown: str | None) -> None:
    [interrupt] = told(replace(MAIL, expires_at=expires_at))
    assert interrupt.get("expiresAt") == shown


def test_the_cost_stands_beside_the_outcome() -> None:
    usage = (Usage(provider="p", model="m", input_tokens=5),)
    [finished] = convert(AgentEnd(run_id=RUN, status="approval", interrupts=(MAIL,), usage=usage))
    assert finished["usage"] == [{"provider": "p", "model": "m", "inputTokens": 5}]
    assert "result" not in finished


@pytest.mark.parametrize("status", ["approval", "waiting"])
def test_a_run_whose_interrupts_are_answered_by_now_only_says_how_it_ended(status: Any) -> None:
    assert convert(AgentEnd(run_id=RUN, status=status)) == [FINISHED | {"result": {"status": status}}]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [("", {}), ("{}", {}), ("null", {}), ("{no", "{no"), ('{"a":"\ud800"}', '{"a":"\ufffd"}')],
)
def test_arguments_are_told_as_json_where_they_are_some(arguments: str, shown: Any) -> None:
    [interrupt] = told(replace(MAIL, arguments=arguments))
    assert interrupt["metadata"].get("arguments") == shown


def test_arguments_that_are_too_large_are_not_told_again() -> None:
    [interrupt] = told(replace(MAIL, arguments='{"a":"' + "x" * 70_000 + '"}'))
    assert interrupt["metadata"] == {"toolName": "send_email"}


def test_long_words_are_cut() -> None:
    approval, waiting = told(replace(MAIL, message="é" * 9_000), replace(RENDER, wait_id="w" * 9_000))
    assert approval["message"].endswith("characters are shown]")
    assert waiting["metadata"]["waitId"].endswith("characters are shown]")


def test_more_interrupts_than_fit_a_frame_are_told_when_the_first_are_answered() -> None:
    many = [replace(MAIL, id=f"i{n}", arguments='{"a":"' + "x" * 60_000 + '"}') for n in range(40)]
    shown = told(*many)
    assert [each["id"] for each in shown] == [f"i{n}" for n in range(len(shown))]
    assert 10 < len(shown) < 40

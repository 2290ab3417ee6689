"""What a tool gives that is no JSON: as its result, as an event, and in the session's state."""

from typing import Any

import pytest

from agent_core import Agent, Engine, ToolContext, tool
from agent_core.events import Custom
from tests.agent_core.react.agents import results
from tests.doubles import ScriptedModel, calls, events_of, says


class Silent:
    pass


@tool
def give(context: ToolContext) -> Any:
    """Returns it."""
    return {"all": [Silent()]}


@tool
def send(context: ToolContext) -> str:
    """Sends it."""
    context.emit("news", [Silent()])
    return "sent"


@tool
def keep(context: ToolContext) -> str:
    """Keeps it."""
    context.state["it"] = Silent()
    return "kept"


@tool
def put(context: ToolContext) -> str:
    """Puts it in the state's place."""
    context.set_state(lambda: 1)
    return "put"


@pytest.mark.parametrize(
    ("used", "told", "logged"),
    [
        (give, "Error: the tool ran, but what it returned cannot be shown: ", "tool give ran, but returned"),
        (send, "Error: NoJson (reference err_", "tool send failed"),
        (keep, "Error: the tool ran, but its change of the state was not kept: ", "tool keep put what is no JSON"),
        (put, "Error: the tool ran, but its change of the state was not kept: ", "tool put put what is no JSON"),
    ],
)
async def test_it_is_an_error_for_the_model_and_a_line_in_the_log_that_names_the_tool(
    used: Any, told: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine, name = Engine(), used.spec.name
    agent = Agent("a", ScriptedModel([calls((name, "{}")), says("done")]), tools=[used])
    events = await events_of(engine, agent, "go")
    [(status, text)] = results(events)
    assert status == "error"
    assert text.startswith(told)
    assert "0x" not in text
    assert [each for each in caplog.records if logged in each.getMessage()]
    assert not [each for each in events if isinstance(each, Custom)]

"""Tools that the client runs: the run ends, and the next one brings their results."""

from agent_core.engine import Engine
from agent_core.events import AgentEnd
from agent_core.messages import Message
from agent_core.run_input import RunInput
from agent_core.tools.base import ToolSpec
from tests.agent_core.react.agents import agent_of, results, stored
from tests.doubles import calls, events_of, says

PICK = ToolSpec(name="pick_colour", description="Ask the user for a colour.")


async def test_a_client_tool_ends_the_run_and_its_answer_goes_on() -> None:
    agent, model = agent_of(calls(("add", '{"a":1,"b":1}'), ("pick_colour", "")), says("blue it is"))
    async with Engine() as engine:
        ask = RunInput(messages=(Message(id="u1", role="user", content="colour?"),), tools=(PICK,))
        events = await events_of(engine, agent, ask)
        end = events[-1]
        assert isinstance(end, AgentEnd)
        assert end.status == "client_tools"
        assert results(events) == [("ok", "2")], "the server's tool beside it is run, the client's has no result"
        call = (await stored(engine))[1].tool_calls[1]
        back = Message(id="t1", role="tool", tool_call_id=call.id, content="blue")
        forged = Message(id="t2", role="tool", tool_call_id="call_add_0", content="99")
        done = await engine.call(agent, RunInput(messages=(forged, back), tools=(PICK,)), user_id="u", session_id="s")
        assert done.message is not None
        assert done.message.text == "blue it is"
    seen = [(m.tool_call_id, m.text) for m in model.requests[1].messages if m.role == "tool"]
    assert seen == [("call_add_0", "2"), (call.id, "blue")]


async def test_a_partly_answered_client_round_waits_for_the_rest_without_asking_the_model() -> None:
    agent, model = agent_of(calls(("pick_colour", ""), ("pick_colour", "")), says("both"))
    async with Engine() as engine:
        session = engine.session("u", "s")
        await session.call(agent, RunInput(messages=(Message(id="u1", role="user", content="?"),), tools=(PICK,)))
        one, two = (await stored(engine))[1].tool_calls
        back = [Message(id=c.id + "-r", role="tool", tool_call_id=c.id, content=c.id) for c in (one, two)]
        partly = await session.call(agent, RunInput(messages=(back[1],), tools=(PICK,)))
        assert partly.status == "client_tools"
        assert len(model.requests) == 1
        whole = await session.call(agent, RunInput(messages=(back[0],), tools=(PICK,)))
        assert whole.status == "completed"


async def test_a_new_user_message_settles_client_calls_as_not_run() -> None:
    agent, model = agent_of(calls(("pick_colour", "")), says("never mind"))
    async with Engine() as engine:
        ask = RunInput(messages=(Message(id="u1", role="user", content="?"),), tools=(PICK,))
        await events_of(engine, agent, ask)
        events = await events_of(engine, agent, "forget it")
    assert [status for status, _ in results(events)] == ["not_run"]
    assert [m.role for m in model.requests[1].messages] == ["user", "assistant", "tool", "user"]

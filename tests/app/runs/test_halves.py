"""What an unnamed conversation leaves with the server: found by its calls, by its own user, for an hour."""

from agent_core import Agent, Engine
from agent_core.events import AgentEnd
from agent_core.messages import Message
from agent_core.models.base import CallPiece, Piece, ThinkingPiece
from agent_core.run_input import RunInput
from agent_core.tools.base import ToolSpec
from app.runs.halves import KEPT, MOST, Half, Halves, half_of
from tests.agent_core.react.agents import add
from tests.doubles import Collected, ScriptedModel, Step, calls


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def made() -> tuple[Halves, list[tuple[str, str]], Clock]:
    forgotten: list[tuple[str, str]] = []
    clock = Clock()
    return Halves(lambda user, session: forgotten.append((user, session)), now=clock), forgotten, clock


def half(*call_ids: str) -> Half:
    return Half(call_ids=call_ids, messages=())


def test_any_of_its_calls_finds_it_until_it_is_dropped() -> None:
    halves, _, _ = made()
    one = half("c1", "c2")
    halves.keep("ann", "s", one)
    assert halves.find("ann", ["other", "c2"]) is one
    assert halves.find("ann", ["c1"]) is one
    halves.drop("ann", one)
    halves.drop("ann", one)
    assert halves.find("ann", ["c1", "c2"]) is None
    assert len(halves) == 0


def test_the_session_itself_is_forgotten_at_once_whether_or_not_a_half_is_kept() -> None:
    halves, forgotten, _ = made()
    halves.keep("ann", "s", half("c1"))
    halves.keep("ann", "t", None)
    assert forgotten == [("ann", "s"), ("ann", "t")]
    assert len(halves) == 1


def test_another_user_finds_nothing() -> None:
    halves, _, _ = made()
    halves.keep("ann", "s", half("c1"))
    assert halves.find("bob", ["c1"]) is None
    assert halves.find("ann", ["c1"]) is not None


def test_after_an_hour_it_is_given_up() -> None:
    halves, _, clock = made()
    halves.keep("ann", "s", half("c1"))
    clock.now = KEPT - 1
    assert halves.find("ann", ["c1"]) is not None
    clock.now = KEPT
    assert halves.find("ann", ["c1"]) is None
    assert len(halves) == 0


def test_too_many_give_up_the_oldest() -> None:
    halves, _, _ = made()
    for number in range(MOST + 2):
        halves.keep("ann", f"s{number}", half(f"c{number}"))
    assert len(halves) == MOST
    assert halves.find("ann", ["c1"]) is None
    assert halves.find("ann", ["c2"]) is not None


def test_dropping_an_old_half_leaves_a_newer_one_that_waits_for_the_same_call() -> None:
    halves, _, _ = made()
    old, new = half("c1", "c2"), half("c2")
    halves.keep("ann", "s", old)
    halves.keep("ann", "t", new)
    halves.drop("ann", old)
    assert halves.find("ann", ["c2"]) is new
    assert halves.find("ann", ["c1"]) is None


async def left(*steps: Step) -> Half | None:
    """What a run leaves that ends with a call of the client's tool `pick`."""
    said = Message(id="m", role="user", content="go")
    async with Engine() as engine:
        agent = Agent("a", ScriptedModel(steps), tools=[add])
        given = RunInput(messages=(said,), tools=(ToolSpec(name="pick"),))
        run = engine.admit(agent, given, user_id="u", session_id="s", ephemeral=True)
        end = await engine.start(run, Collected([]))
        assert isinstance(end, AgentEnd)
        assert end.status == "client_tools"
        return half_of(run)


async def test_a_turn_of_the_client_s_tools_alone_leaves_nothing() -> None:
    assert await left(calls(("pick", "{}"), ("pick", "{}"))) is None


async def test_a_turn_with_a_tool_of_the_server_s_leaves_all_messages_and_the_open_calls() -> None:
    for steps in (
        [calls(("add", '{"a":1,"b":2}'), ("pick", "{}"))],
        [calls(("add", '{"a":1,"b":2}')), calls(("pick", "{}"))],
    ):
        kept = await left(*steps)
        assert kept is not None
        [open_call] = [call for message in kept.messages for call in message.tool_calls if call.name == "pick"]
        assert kept.call_ids == (open_call.id,)
        assert [message.text for message in kept.messages if message.role == "tool"] == ["3"]


async def test_what_a_client_does_not_send_back_is_kept_too() -> None:
    signed = CallPiece(0, "c", "pick", {"extra_content": {"google": "signature"}})
    thought: list[Piece] = [ThinkingPiece("hm"), CallPiece(0, "c", "pick")]
    steps: list[list[Piece]] = [[signed], thought]
    for step in steps:
        kept = await left(step)
        assert kept is not None
        assert kept.messages[-1].tool_calls[0].name == "pick"

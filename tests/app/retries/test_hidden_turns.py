"""What an unnamed conversation leaves with the server: found by its calls or by all that was shown, by its own user,
for an hour."""

from agent_core import Agent, Engine
from agent_core.events import AgentEnd
from agent_core.messages import MediaPart, Message, TextPart
from agent_core.models.base import CallPiece, Piece, ThinkingPiece
from agent_core.pairing import open_calls
from agent_core.run_input import RunInput
from agent_core.sessions.records import InMemoryRecords
from agent_core.tools.base import ToolSpec
from app.retries.hidden_turns import KEPT, HiddenTurn, HiddenTurns, hidden_turn_of, name_of_talk, names_of_calls
from tests.agent_core.react.agents import add
from tests.doubles import Collected, ScriptedModel, Step, calls


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def said(role: str, text: str = "", **members: object) -> Message:
    return Message(id="", role=role, content=text, **members)  # type: ignore[arg-type]


HALF = HiddenTurn(
    messages=(
        Message(id="u", role="user", content=(MediaPart(kind="image", source="data", value="x"), TextPart(text="?"))),
        Message(id="a", role="assistant", content="hm", thoughts=("so",)),
    ),
    state={"a": [1, None]},
)


async def test_any_of_its_calls_finds_it_as_it_was() -> None:
    hidden_turns = HiddenTurns(InMemoryRecords())
    await hidden_turns.keep("ann", HALF, names_of_calls(["c1", "c2", "c3"]))
    for asked in (["other", "c2"], ["c1"], ["c3", "c1"]):
        assert await hidden_turns.find("ann", names_of_calls(asked)) == HALF
    assert await hidden_turns.find("ann", names_of_calls(["other"])) is None
    assert await hidden_turns.find("ann", []) is None


async def test_another_user_finds_nothing() -> None:
    hidden_turns = HiddenTurns(InMemoryRecords())
    await hidden_turns.keep("ann", HALF, names_of_calls(["c1"]))
    assert await hidden_turns.find("bob", names_of_calls(["c1"])) is None


async def test_after_an_hour_it_is_given_up() -> None:
    clock = Clock()
    hidden_turns = HiddenTurns(InMemoryRecords(now=clock))
    await hidden_turns.keep("ann", HALF, names_of_calls(["c1"]))
    clock.now = KEPT - 1
    assert await hidden_turns.find("ann", names_of_calls(["c1"])) == HALF
    clock.now = KEPT
    assert await hidden_turns.find("ann", names_of_calls(["c1"])) is None


async def test_they_have_a_bound_in_bytes_and_one_that_is_gone_is_found_by_none_of_its_calls() -> None:
    records = InMemoryRecords(most_of_user=100_000)
    hidden_turns = HiddenTurns(records)
    for number in range(160):
        hidden = HiddenTurn(messages=(Message(id="u", role="user", content="x" * 10_000),))
        await hidden_turns.keep("ann", hidden, names_of_calls([f"c{number}", f"d{number}"]))
    assert sum(each.size for each in records._kept.values()) <= 100_000
    assert await hidden_turns.find("ann", names_of_calls(["c159"])) is not None
    for gone in ("c0", "d0", "d151"):
        assert await hidden_turns.find("ann", names_of_calls([gone])) is None


def test_a_talk_is_known_by_all_its_roles_texts_and_media_and_by_its_agent() -> None:
    image = (TextPart(text="look"), MediaPart(kind="image", source="data", value="one"))
    other = (TextPart(text="look"), MediaPart(kind="image", source="data", value="two"))
    talk = [said("system", "Be brief."), said("user", "hello"), said("assistant", "no answer")]
    names = [
        name_of_talk("a", talk),
        name_of_talk("b", talk),
        name_of_talk("a", talk[1:]),
        name_of_talk("a", talk[2:]),
        name_of_talk("a", [*talk[:1], said("user", "hallo"), *talk[2:]]),
        name_of_talk("a", [*talk[:1], said("assistant", "hello"), *talk[2:]]),
        name_of_talk("a", [*talk[:1], said("user", "hellono"), said("assistant", "answer")]),
        *(name_of_talk("a", [Message(id="", role="user", content=parts), talk[2]]) for parts in (image, other)),
    ]
    assert len(set(names)) == len(names)


def test_white_space_and_ids_do_not_matter_to_a_talk() -> None:
    one = [Message(id="1", role="user", content="hello  you\n"), said("assistant", "\n a\n\nb ")]
    two = [Message(id="2", role="user", content=(TextPart(text="hello you"),)), said("assistant", "a b")]
    assert name_of_talk("a", one) == name_of_talk("a", two)


async def left(*steps: Step) -> HiddenTurn | None:
    """What a run leaves that ends with a call of the client's tool `pick`."""
    async with Engine() as engine:
        agent = Agent("a", ScriptedModel(steps), tools=[add])
        given = RunInput(messages=(said("user", "go"),), tools=(ToolSpec(name="pick"),))
        run = engine.admit(agent, given, user_id="u", session_id="s", ephemeral=True)
        end = await engine.start(run, Collected([]))
        assert isinstance(end, AgentEnd)
        assert end.status == "client_tools"
        return hidden_turn_of(run)


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
        assert list(open_calls(kept.messages)) == [open_call]
        assert [message.text for message in kept.messages if message.role == "tool"] == ["3"]


async def test_what_a_client_does_not_send_back_is_kept_too() -> None:
    signed = CallPiece(0, "c", "pick", {"extra_content": {"google": "signature"}})
    thought: list[Piece] = [ThinkingPiece("hm"), CallPiece(0, "c", "pick")]
    steps: list[list[Piece]] = [[signed], thought]
    for step in steps:
        kept = await left(step)
        assert kept is not None
        assert kept.messages[-1].tool_calls[0].name == "pick"


async def test_a_call_of_the_client_s_that_was_refused_here_is_kept_since_the_client_never_saw_it() -> None:
    kept = await left(calls(("pick", "{")), calls(("pick", "{}")))
    assert kept is not None
    assert [message.status for message in kept.messages if message.role == "tool"] == ["error"]

"""The session's state: the client's, the changes of tools, and the events that tell of it."""

import asyncio
import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core import Agent, Engine, InvalidRequest, Tool, ToolContext, ToolError, tool
from agent_core.events import Event, StateDelta, StateSnapshot, ToolResultEnd
from agent_core.messages import Message, new_id
from agent_core.run_input import RunInput
from agent_core.sessions.entries import body_of
from agent_core.sessions.history import history_of
from agent_core.sessions.kinds import StateBody
from agent_core.sessions.state import LARGEST_STATE, MOST_PATCHES, patch_between, same_json
from tests.doubles import ScriptedModel, calls, events_of, kinds, says


@tool
async def put(context: ToolContext, name: str, value: int) -> str:
    """Put a value."""
    context.state[name] = value
    return "put"


@tool
def replace(context: ToolContext, value: Any = None) -> str:
    """Replace all, from a thread."""
    context.set_state(value)
    return "replaced"


@tool
async def fail(context: ToolContext) -> str:
    """Changes and fails."""
    context.state["failed"] = True
    raise ToolError("no")


@tool
async def swell(context: ToolContext) -> str:
    """Makes the state too large."""
    context.state["big"] = "x" * LARGEST_STATE
    return "swollen"


@tool
async def loop(context: ToolContext) -> str:
    """Makes the state refer to itself."""
    context.state["self"] = context.state
    return "looped"


@tool
async def odd(context: ToolContext) -> str:
    """Puts what JSON does not have."""
    context.state["n"] = float("nan")
    context.state["t"] = (1, {2})
    return "odd"


TOOLS: list[Tool] = [put, replace, fail, swell, loop, odd]


def said(state: Any = None) -> RunInput:
    return RunInput(messages=(Message(id=new_id("u"), role="user", content="go"),), state=state)


def states(events: list[Event]) -> list[StateSnapshot | StateDelta]:
    return [event for event in events if isinstance(event, StateSnapshot | StateDelta)]


def agent_of(*asked: tuple[str, str]) -> Agent:
    return Agent("a", ScriptedModel([calls(*asked), says("ok")]), tools=TOOLS)


async def stored(engine: Engine) -> Any:
    return history_of(await engine.store.load(engine.session("u", "s").key), "a").state


async def test_the_first_change_goes_out_whole_and_the_next_as_patches_that_apply() -> None:
    agent = agent_of(
        ("put", '{"name":"a","value":1}'), ("put", '{"name":"b","value":2}'), ("put", '{"name":"a","value":3}')
    )
    async with Engine() as engine:
        told = states(await events_of(engine, agent, said({"start": True})))
        assert kinds(told) == ["StateSnapshot", "StateDelta", "StateDelta"]
        assert isinstance(told[0], StateSnapshot)
        value = told[0].value
        assert value == {"start": True, "a": 1}
        for event in told[1:]:
            assert isinstance(event, StateDelta)
            value = jsonpatch.apply_patch(value, event.patch)
        assert value == await stored(engine) == {"start": True, "a": 3, "b": 2}


async def test_the_change_is_told_before_the_result_and_stored_with_it() -> None:
    async with Engine() as engine:
        events = await events_of(engine, agent_of(("put", '{"name":"a","value":1}')), said({"x": 1}))
        order = [kind for kind in kinds(events) if kind in ("StateSnapshot", "ToolResultEnd")]
        assert order == ["StateSnapshot", "ToolResultEnd"]
        entries = [entry.kind for entry in await engine.store.load(engine.session("u", "s").key)]
        assert entries[-4:] == ["state", "message", "message", "end"], "the change, its result, the answer"


async def test_a_client_without_a_state_is_told_the_session_s_and_takes_nothing_away() -> None:
    async with Engine() as engine:
        await events_of(engine, agent_of(("put", '{"name":"a","value":1}')), said({"x": 1}))
        empties: tuple[Any, ...] = (None, {})
        for empty in empties:
            told = states(await events_of(engine, Agent("a", ScriptedModel([says("hi")])), said(empty)))
            assert [getattr(event, "value", None) for event in told] == [{"x": 1, "a": 1}]
        assert states(await events_of(engine, Agent("a", ScriptedModel([says("hi")])), said({"x": 1, "a": 1}))) == []


async def test_a_state_that_the_client_brings_becomes_the_session_s() -> None:
    async with Engine() as engine:
        agent = Agent("a", ScriptedModel([says("hi")]))
        assert states(await events_of(engine, agent, said({"x": 1}))) == []
        assert states(await events_of(engine, agent, said([1, 2]))) == []
        assert await stored(engine) == [1, 2]


@pytest.mark.parametrize(
    "value", ["{}", '{"value": null}', '{"value": [1]}', '{"value": "text"}', '{"value": {"a": {"b": 0}}}']
)
async def test_a_tool_may_put_anything_in_the_place_of_the_state(value: str) -> None:
    async with Engine() as engine:
        told = states(await events_of(engine, agent_of(("replace", value)), said({"x": 1})))
        assert [getattr(event, "value", ...) for event in told] == [await stored(engine)]


async def test_a_tool_that_fails_changes_nothing() -> None:
    async with Engine() as engine:
        assert states(await events_of(engine, agent_of(("fail", "{}")), said({"x": 1}))) == []
        assert await stored(engine) == {"x": 1}


@pytest.mark.parametrize("name", ["swell", "loop"])
async def test_a_state_that_cannot_be_kept_is_an_error_for_the_model(name: str) -> None:
    async with Engine() as engine:
        events = await events_of(engine, agent_of((name, "{}")), said({"x": 1}))
        assert [event.status for event in events if isinstance(event, ToolResultEnd)] == ["error"]
        assert await stored(engine) == {"x": 1}


async def test_what_json_does_not_have_is_made_fit() -> None:
    async with Engine() as engine:
        await events_of(engine, agent_of(("odd", "{}")), said({"x": 1}))
        assert await stored(engine) == {"x": 1, "n": None, "t": [1, [2]]}


async def test_a_tool_s_copy_is_its_own() -> None:
    leaked: list[Any] = []

    @tool
    async def leak(context: ToolContext) -> str:
        """Keeps the state and changes it later."""
        leaked.append(context.state)
        return "kept"

    model = ScriptedModel([calls(("leak", "")), says("ok")])
    async with Engine() as engine:
        given = said({"x": {"y": 1}})
        await events_of(engine, Agent("a", model, tools=[leak]), given)
        leaked[0]["x"]["y"] = 2
        await asyncio.sleep(0)
        assert await stored(engine) == {"x": {"y": 1}}
        assert given.state == {"x": {"y": 1}}


async def test_after_many_patches_the_whole_value_is_stored_again() -> None:
    wide = {f"key{number}": "some text" for number in range(20)}
    async with Engine() as engine:
        for number in range(MOST_PATCHES + 5):
            agent = agent_of(("put", f'{{"name":"n","value":{number}}}'))
            await events_of(engine, agent, said(wide if number == 0 else None))
        history = history_of(await engine.store.load(engine.session("u", "s").key), "a")
        assert history.state == wide | {"n": MOST_PATCHES + 4}
        assert history.session.changes.weight < MOST_PATCHES


@pytest.mark.parametrize(
    ("before", "after"), [(1, "true"), (0, "false"), (1, "1.0"), ([1], "[true]"), ({"a": 0}, '{"a":0.0}')]
)
async def test_what_json_tells_apart_is_a_change_also_where_python_sees_none(before: Any, after: str) -> None:
    async with Engine() as engine:
        agent = agent_of(("replace", f'{{"value":{{"x":{after}}}}}'), ("replace", f'{{"value":{{"x":{after}}}}}'))
        told = states(await events_of(engine, agent, said({"x": before})))
        assert len(told) == 1, "and the same again is none"
        assert json.dumps((await stored(engine))["x"]) == json.dumps(json.loads(after))


async def test_a_fresh_client_s_tool_finds_an_empty_state_and_leaves_none_where_it_puts_nothing() -> None:
    @tool
    async def look(context: ToolContext) -> str:
        """Looks."""
        return repr(context.state)

    async with Engine() as engine:
        model = ScriptedModel([calls(("look", "")), says("ok")])
        events = await events_of(engine, Agent("a", model, tools=[look]), said({}))
        assert [event.content for event in events if isinstance(event, ToolResultEnd)] == ["{}"]
        assert states(events) == []
        assert len(states(await events_of(engine, agent_of(("put", '{"name":"a","value":1}')), said({})))) == 1


NUMBERS = st.integers(-3, 3) | st.floats(allow_nan=False, allow_infinity=False)
STATES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab/~0", max_size=2), inner, max_size=4),
    max_leaves=12,
)


@given(STATES, STATES)
def test_a_patch_makes_the_new_value_of_the_old_one_and_is_no_longer_than_the_whole(old: Any, new: Any) -> None:
    patch = patch_between(old, new)
    assert same_json(jsonpatch.apply_patch(old, patch), new)
    assert len(json.dumps(patch)) <= len(json.dumps([{"op": "replace", "path": "", "value": new}])) + 100


def test_large_lists_that_have_little_in_common_are_compared_in_one_pass() -> None:
    old = list(range(40_000))
    patch = patch_between({"x": old}, {"x": old[::2]})
    assert patch == [{"op": "replace", "path": "/x", "value": old[::2]}]


@pytest.mark.parametrize("state", [{"x": "y" * LARGEST_STATE}, json.loads("[" * 150 + "]" * 150)])
async def test_a_state_that_cannot_be_kept_is_refused_before_the_run(state: Any) -> None:
    async with Engine() as engine:
        with pytest.raises(InvalidRequest, match=r"^state: "):
            await events_of(engine, Agent("a", ScriptedModel([says("hi")])), said(state))
        assert await engine.store.load(engine.session("u", "s").key) == ()


def test_a_state_too_large_to_be_compared_is_replaced_whole() -> None:
    old, new = {f"k{n}": n for n in range(30_000)}, {f"k{n}": n + 1 for n in range(30_000)}
    assert patch_between(old, new) == [{"op": "replace", "path": "", "value": new}]


async def test_many_operations_are_not_left_to_be_applied_again_at_each_reading() -> None:
    """Fifty small patches in a row are kept as patches; of large ones only a few are."""
    async with Engine() as engine:
        for number in range(12):
            state = {f"k{key}": number if key < 500 else 0 for key in range(5_000)}
            await events_of(engine, Agent("a", ScriptedModel([says("hi")])), said(state))
        entries = await engine.store.load(engine.session("u", "s").key)
    bodies = [body for entry in entries if isinstance(body := body_of(entry), StateBody)]
    assert [body.patch is None for body in bodies] == [True, *([False] * 3 + [True]) * 2, False, False, False]
    assert history_of(entries, "a").state == state


async def test_a_state_that_an_edit_takes_back_to_nothing_is_told() -> None:
    agent = Agent(
        "a", ScriptedModel([calls(("put", '{"name": "x", "value": 1}')), says("ok"), says("ok")]), tools=TOOLS
    )
    question = Message(id="u1", role="user", content="go")
    async with Engine() as engine:
        [first] = states(await events_of(engine, agent, RunInput(messages=(question,), state={})))
        assert isinstance(first, StateSnapshot)
        assert first.value == {"x": 1}
        edited = Message(id="u1", role="user", content="go on")
        [told] = states(await events_of(engine, agent, RunInput(messages=(edited,), state={})))
        assert isinstance(told, StateSnapshot)
        assert told.value == {}
        again = Message(id="u1", role="user", content="go on and on")
        assert states(await events_of(engine, agent, RunInput(messages=(again,), state={}))) == []


async def test_calls_side_by_side_that_begin_a_list_keep_all_its_items() -> None:
    together = asyncio.Barrier(3)

    @tool
    async def push(context: ToolContext, value: int) -> str:
        """Put a value at the end of the list."""
        context.state.setdefault("items", []).append(value)
        await together.wait()
        return "pushed"

    asked = calls(*(("push", f'{{"value": {value}}}') for value in range(3)))
    agent = Agent("a", ScriptedModel([asked, says("ok")]), tools=[push], parallel_tool_calls=True)
    async with Engine() as engine:
        await events_of(engine, agent, said())
        assert sorted((await stored(engine))["items"]) == [0, 1, 2]

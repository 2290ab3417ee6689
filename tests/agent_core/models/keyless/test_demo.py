"""The model `fake:demo`: each part, alone and through the engine with the demo agent."""

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from agent_core.agent import Agent
from agent_core.engine import Engine
from agent_core.errors import ModelError
from agent_core.events import AgentEnd, Event, RunFailed, TextDelta, ThinkingDelta, ToolCallStart, ToolResultEnd
from agent_core.interrupts import Answer
from agent_core.messages import Message, ToolCall
from agent_core.models.base import (
    ArgumentsPiece,
    CallPiece,
    ModelOptions,
    ModelRequest,
    Piece,
    TextPiece,
    ThinkingPiece,
    UsagePiece,
)
from agent_core.models.http import HttpClient
from agent_core.models.keyless.demo import PAUSE, DemoModel
from agent_core.models.providers import open_model
from agent_core.run_input import Input, RunInput
from agent_core.tools.base import ToolSpec
from app.demo.agents import demo
from tests.doubles import events_of, kinds

FAST = replace(demo, model=DemoModel(pause=0))
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolSpec(name="get_weather", parameters=CITY)
STEP = ToolSpec(name="take_step")
EMAIL = ToolSpec(name="send_email")
COLOR = {"type": "object", "properties": {"color": {"enum": ["red", "blue"]}, "note": {}}, "required": ["color"]}
PAINT = ToolSpec(name="paint", parameters=COLOR)
SERVER = (WEATHER, STEP, EMAIL)


async def play(*messages: Message, **members: Any) -> list[Piece]:
    http: HttpClient = None  # type: ignore[assignment]
    request = ModelRequest(messages=messages, **members)
    return [piece async for piece in DemoModel(pause=0).stream(request, http)]


def user(text: str) -> Message:
    return Message(id="u", role="user", content=text)


async def ask(text: str, **members: Any) -> list[Piece]:
    return await play(user(text), **members)


def text_of(pieces: Sequence[Piece]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, TextPiece))


def calls_of(pieces: Sequence[Piece]) -> list[tuple[str, Any]]:
    names = [piece.name for piece in pieces if isinstance(piece, CallPiece)]
    arguments = [json.loads(piece.text) for piece in pieces if isinstance(piece, ArgumentsPiece)]
    return list(zip(names, arguments, strict=True))


def answered(name: str, arguments: str, content: str, **members: Any) -> tuple[Message, Message]:
    call = ToolCall(id=f"c_{name}_{arguments}", name=name, arguments=arguments)
    return (
        Message(id="a", role="assistant", tool_calls=(call,)),
        Message(id="t", role="tool", tool_call_id=call.id, name=name, content=content, **members),
    )


def test_it_is_opened_by_its_name_with_pauses_of_50_milliseconds() -> None:
    model = open_model("fake:demo")
    assert isinstance(model, DemoModel)
    assert (model.provider, model.name, model.pause) == ("fake", "demo", PAUSE)
    assert PAUSE == 0.05
    with pytest.raises(ValueError, match="fake:demo"):
        open_model("fake:nothing")


@pytest.mark.parametrize("text", ["hello", "Hi!", "Hello, how are you doing today, my friend?", "你好"])
async def test_a_greeting_is_thought_about_and_answered(text: str) -> None:
    pieces = await ask(text, tools=SERVER)
    kinds_ = [type(piece) for piece in pieces]
    assert kinds_[0] is ThinkingPiece
    assert kinds_ == sorted(kinds_, key=[ThinkingPiece, TextPiece, UsagePiece].index)
    assert "Hello from Ostinato" in text_of(pieces)
    assert pieces == await ask(text, tools=SERVER)


@pytest.mark.parametrize(
    ("text", "cities"),
    [
        ("weather in Paris", ["Paris"]),
        ("What's the weather like in New York today?", ["New York"]),
        ("Weather for Paris and Rome, please", ["Paris", "Rome"]),
        ("巴黎天气", ["巴黎"]),
        ("请问北京和上海今天的天气怎么样？", ["北京", "上海"]),
    ],
)
async def test_the_weather_is_asked_for_with_the_server_s_tool(text: str, cities: list[str]) -> None:
    assert calls_of(await ask(text, tools=SERVER)) == [("get_weather", {"city": city}) for city in cities]


async def test_the_weather_s_answer_names_the_city_and_what_the_tool_said() -> None:
    result = answered("get_weather", '{"city":"Paris"}', '{"city":"Paris","sky":"foggy","celsius":5}')
    answer = text_of(await play(user("weather in Paris"), *result, tools=SERVER))
    assert answer == "Weather in Paris: city: Paris, sky: foggy, celsius: 5"
    failed = answered("get_weather", '{"city":"Paris"}', "Error: the sky fell", status="error")
    answer = text_of(await play(user("weather in Paris"), *failed, tools=SERVER))
    assert answer == "Weather in Paris failed: Error: the sky fell"


async def test_without_a_city_or_without_the_tool_it_says_so() -> None:
    assert "Which city?" in text_of(await ask("how is the weather", tools=SERVER))
    assert "get_weather" in text_of(await ask("weather in Paris"))
    assert "not offered" in text_of(await ask("weather in Paris", tools=SERVER, tool_choice="none"))


async def test_calls_come_one_at_a_time_where_the_client_wants_that() -> None:
    members = {"tools": SERVER, "options": ModelOptions(parallel_tool_calls=False)}
    question = user("weather in Paris and Rome")
    paris = answered("get_weather", '{"city":"Paris"}', "foggy")
    rome = answered("get_weather", '{"city":"Rome"}', "sunny")
    assert calls_of(await play(question, **members)) == [("get_weather", {"city": "Paris"})]
    assert calls_of(await play(question, *paris, **members)) == [("get_weather", {"city": "Rome"})]
    assert text_of(await play(question, *paris, *rome, **members)) == (
        "Weather in Paris: foggy\nWeather in Rome: sunny"
    )


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("use frontend tool paint", {"color": "red"}),
        ('Please use the frontend tool "paint".', {"color": "red"}),
        ("使用前端工具 paint", {"color": "red"}),
    ],
)
async def test_a_frontend_tool_is_called_with_arguments_that_fit(text: str, arguments: dict[str, Any]) -> None:
    assert calls_of(await ask(text, tools=(*SERVER, PAINT))) == [("paint", arguments)]


async def test_a_frontend_tool_s_answer_is_used() -> None:
    question = user("use frontend tool paint")
    good = answered("paint", '{"color":"red"}', "the wall is red")
    assert text_of(await play(question, *good, tools=(PAINT,))) == "The frontend tool paint: the wall is red"
    bad = answered("paint", '{"color":"red"}', "Not run: no wall", status="not_run")
    assert "was not run: Not run: no wall" in text_of(await play(question, *bad, tools=(PAINT,)))


async def test_a_frontend_tool_that_is_not_offered_or_not_named_is_said() -> None:
    assert "paint for that, but it was not offered" in text_of(await ask("use frontend tool paint", tools=SERVER))
    assert "use frontend tool NAME" in text_of(await ask("use frontend tool", tools=SERVER))


async def test_slow_comes_in_forty_pieces() -> None:
    pieces = [piece for piece in await ask("slow") if isinstance(piece, TextPiece)]
    assert len(pieces) == 40
    assert text_of(pieces).split() == [str(number) for number in range(1, 41)]


async def test_before_each_piece_of_a_slow_answer_it_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("agent_core.models.keyless.demo.asyncio.sleep", sleep)
    http: HttpClient = None  # type: ignore[assignment]
    for text in ("slow", "hello"):
        [piece async for piece in DemoModel().stream(ModelRequest(messages=(user(text),)), http)]
    assert slept == [PAUSE] * 40


@pytest.mark.parametrize("text", ["error", "an error, please", "出错"])
async def test_error_is_a_model_that_cannot_be_reached(text: str) -> None:
    with pytest.raises(ModelError) as caught:
        await ask(text, tools=SERVER)
    assert (caught.value.code, caught.value.retryable) == ("model_unreachable", False)


@pytest.mark.parametrize(
    "text", ["I keep getting an error when I save my file", "what is this", "", "天", "raw material prices in the EU"]
)
async def test_anything_else_is_answered_by_what_it_can_do(text: str) -> None:
    assert '"weather in Paris"' in text_of(await ask(text, tools=SERVER)) or "巴黎天气" in text_of(await ask(text))


async def test_the_last_user_message_counts() -> None:
    assert calls_of(await play(user("error"), user("weather in Paris"), tools=SERVER)) != []
    before = answered("get_weather", '{"city":"Rome"}', "sunny")
    messages = (user("weather in Rome"), *before, user("weather in Paris"))
    assert calls_of(await play(*messages, tools=SERVER)) == [("get_weather", {"city": "Paris"})]


async def test_a_tool_that_must_be_called_is_called() -> None:
    assert calls_of(await ask("I am Ann", tools=(WEATHER, PAINT), tool_choice="paint")) == [("paint", {"color": "red"})]
    assert calls_of(await ask("I am Ann", tools=(PAINT,), tool_choice="required")) == [("paint", {"color": "red"})]
    asked = await ask("weather in Oslo", tools=(PAINT, WEATHER), tool_choice="required")
    assert calls_of(asked) == [("get_weather", {"city": "Oslo"})]


async def test_call_ids_are_the_same_again_and_never_twice() -> None:
    def ids(pieces: Sequence[Piece]) -> list[str]:
        return [piece.id for piece in pieces if isinstance(piece, CallPiece)]

    first = ids(await ask("weather in Paris and Rome", tools=SERVER))
    assert len(set(first)) == 2
    assert first == ids(await ask("weather in Paris and Rome", tools=SERVER))
    taken = tuple(ToolCall(id=each, name="x") for each in first)
    history = (user("x"), Message(id="a", role="assistant", tool_calls=taken))
    assert not set(first) & set(ids(await play(*history, user("weather in Paris and Rome"), tools=SERVER)))


async def test_usage_counts_four_characters_as_a_token() -> None:
    pieces = await ask("hello")
    last = pieces[-1]
    assert isinstance(last, UsagePiece)
    said = sum(len(piece.text) for piece in pieces if isinstance(piece, TextPiece | ThinkingPiece))
    assert (last.usage.input_tokens, last.usage.output_tokens) == (2, -(-said // 4))


@pytest.mark.parametrize(
    "text",
    [
        "use frontend tool paint {" + "[" * 1900,
        "weather in " + " " * 100_000,
        "a\ud800 weather in \ud800",
        "hello" * 9999,
    ],
)
async def test_hostile_questions_are_answered_with_well_formed_text(text: str) -> None:
    for piece in await ask(text, tools=(*SERVER, PAINT)):
        if isinstance(piece, TextPiece | ArgumentsPiece):
            assert piece.text
            piece.text.encode()


async def converse(agent: Agent, *said: Input) -> list[list[Event]]:
    async with Engine() as engine:
        return [await events_of(engine, agent, each) for each in said]


def said(events: Sequence[Event], kind: type[TextDelta] | type[ThinkingDelta] = TextDelta) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


async def test_the_demo_agent_greets_and_tells_the_weather() -> None:
    greeting, weather = await converse(FAST, "hello", "weather in Paris")
    assert kinds(greeting)[:2] == ["AgentStart", "ThinkingStart"]
    assert "Hello from Ostinato" in said(greeting)
    [result] = [event for event in weather if isinstance(event, ToolResultEnd)]
    assert (result.name, result.status) == ("get_weather", "ok")
    assert "Paris" in said(weather)


async def test_the_demo_agent_uses_up_its_rounds_and_goes_on_when_told_to() -> None:
    first, more = await converse(FAST, "raw please", "continue")
    for events, steps in ((first, 5), (more, 10)):
        assert kinds(events).count("ToolResultEnd") == FAST.max_iterations
        assert kinds(events).count("ExceedMaxIters") == 1
        end = events[-1]
        assert isinstance(end, AgentEnd)
        assert end.status == "max_iterations"
        assert f"Step {steps} is taken." in said(events)


@pytest.mark.parametrize(
    ("payload", "status", "told"),
    [
        ({"approved": True}, "ok", "The email was approved: Written to"),
        ({"approved": False, "reason": "not now"}, "denied", "denied, so nothing was sent"),
    ],
)
async def test_the_demo_agent_asks_before_it_sends_and_tells_honestly_what_came_of_it(
    payload: dict[str, object], status: str, told: str
) -> None:
    async with Engine() as engine:
        first = await events_of(engine, FAST, "approve email")
        assert isinstance(first[-1], AgentEnd)
        [interrupt] = first[-1].interrupts
        answer = Answer(interrupt_id=interrupt.id, payload=payload)
        events = await events_of(engine, FAST, RunInput(answers=(answer,)))
    [result] = [event for event in events if isinstance(event, ToolResultEnd)]
    assert (result.name, result.status) == ("send_email", status)
    assert told in said(events)


async def test_the_demo_agent_fails_as_asked(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        [events] = await converse(FAST, "error")
    end = events[-1]
    assert isinstance(end, RunFailed)
    assert end.code == "model_unreachable"


async def test_the_demo_agent_uses_the_client_s_tool_and_its_answer() -> None:
    asked = RunInput(messages=(user("use frontend tool paint"),), tools=(PAINT,))
    async with Engine() as engine:
        first = await events_of(engine, FAST, asked)
        [call] = [event.call_id for event in first if isinstance(event, ToolCallStart)]
        result = Message(id="r", role="tool", tool_call_id=call, content="painted")
        more = await events_of(engine, FAST, RunInput(messages=(result,), tools=(PAINT,)))
    end = first[-1]
    assert isinstance(end, AgentEnd)
    assert end.status == "client_tools"
    assert said(more) == "The frontend tool paint: painted"

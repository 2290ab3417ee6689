from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field

import pytest

from agent_core.errors import Code, ModelError
from agent_core.messages import Message
from agent_core.models.base import ModelRequest, Piece, Retries, TextPiece
from agent_core.models.http import HttpClient
from agent_core.models.openai_chat import OpenAIChat
from agent_core.models.resilient import stream_with_retries
from tests.scripted import Script, ScriptedUpstream, Step, answer, error, says, text

AT_ONCE = Retries(first=0.0)
HELLO = ModelRequest(messages=(Message(id="m1", role="user", content="Hello"),))
Told = list[tuple[Code, int, float]]


@dataclass(slots=True, kw_only=True)
class Failing:
    """A model that fails with these errors, one a call, and then answers."""

    errors: list[ModelError]
    before: tuple[Piece, ...] = ()
    calls: int = 0
    provider: str = "scripted"
    name: str = "failing"
    told: Told = field(default_factory=list)

    async def stream(self, request: ModelRequest, http: HttpClient) -> AsyncGenerator[Piece, None]:
        self.calls += 1
        for piece in self.before:
            yield piece
        if self.calls <= len(self.errors):
            raise self.errors[self.calls - 1]
        yield TextPiece("Hi")

    async def run(self, retries: Retries = AT_ONCE) -> list[Piece]:
        def tell(code: Code, attempt: int, delay: float) -> None:
            self.told.append((code, attempt, delay))

        async with aclosing(stream_with_retries(self, HELLO, HttpClient(), retries, tell)) as pieces:
            return [piece async for piece in pieces]


def unreachable(retry_after: float | None = None, status: int | None = None) -> ModelError:
    return ModelError("model_unreachable", retryable=True, retry_after=retry_after, status=status)


async def over_a_socket(script: Script) -> tuple[list[Piece], Told, ScriptedUpstream]:
    told: Told = []
    async with ScriptedUpstream(script) as up, HttpClient() as http:
        model = OpenAIChat("m", base_url=up.base_url)
        stream = stream_with_retries(model, HELLO, http, AT_ONCE, lambda *each: told.append(each))
        async with aclosing(stream) as pieces:
            return [piece async for piece in pieces], told, up


async def test_a_call_that_fails_before_its_first_piece_is_sent_again() -> None:
    model = Failing(errors=[unreachable(), unreachable(status=503)])
    assert await model.run() == [TextPiece("Hi")]
    assert model.told == [("model_unreachable", 1, 0.0), ("model_unreachable", 2, 0.0)]


async def test_the_last_error_is_raised_when_the_attempts_are_used_up() -> None:
    last = unreachable()
    model = Failing(errors=[unreachable(), unreachable(), last])
    with pytest.raises(ModelError) as failure:
        await model.run()
    assert failure.value is last
    assert model.calls == 3
    assert len(model.told) == 2


async def test_without_attempts_nothing_is_sent_again() -> None:
    model = Failing(errors=[unreachable()])
    with pytest.raises(ModelError):
        await model.run(Retries(attempts=0))
    assert (model.calls, model.told) == (1, [])


async def test_nothing_is_sent_again_once_a_piece_was_forwarded() -> None:
    model = Failing(errors=[unreachable()], before=(TextPiece("H"),))
    with pytest.raises(ModelError):
        await model.run()
    assert (model.calls, model.told) == (1, [])


@pytest.mark.parametrize("error", [ModelError("model_auth", status=401), unreachable(status=501)])
async def test_an_error_that_a_retry_cannot_help_is_raised_at_once(error: ModelError) -> None:
    model = Failing(errors=[error])
    with pytest.raises(ModelError):
        await model.run()
    assert (model.calls, model.told) == (1, [])


async def test_a_wish_of_the_provider_is_the_delay() -> None:
    model = Failing(errors=[unreachable(retry_after=0.001)])
    await model.run(Retries(first=20.0))
    assert model.told == [("model_unreachable", 1, 0.001)]


async def test_a_wish_over_the_longest_wait_gives_up_at_once() -> None:
    model = Failing(errors=[unreachable(retry_after=31)])
    with pytest.raises(ModelError):
        await model.run(Retries(longest=30.0))
    assert (model.calls, model.told) == (1, [])


async def test_delays_double_up_to_the_longest_and_half_of_each_is_chance() -> None:
    model = Failing(errors=[unreachable() for _ in range(4)])
    await model.run(Retries(attempts=4, first=0.001, longest=0.004))
    for (_, _, delay), full in zip(model.told, (0.001, 0.002, 0.004, 0.004), strict=True):
        assert full / 2 <= delay <= full


async def test_a_429_with_retry_after_is_tried_again_over_a_socket() -> None:
    pieces, told, up = await over_a_socket([error(429, "slow", retry_after="0"), says("Hi")])
    assert pieces == [TextPiece("Hi")]
    assert told == [("model_quota", 1, 0.0)]
    assert up.requests[0].body == up.requests[1].body


async def test_a_connection_that_is_lost_before_the_first_piece_is_opened_again() -> None:
    pieces, told, _ = await over_a_socket([answer(Step.DROP), says("Hi")])
    assert pieces == [TextPiece("Hi")]
    assert told == [("model_unreachable", 1, 0.0)]


async def test_a_connection_that_is_lost_after_the_first_piece_fails_the_call() -> None:
    with pytest.raises(ModelError, match="model_unreachable"):
        await over_a_socket([answer(text("H"), Step.CLOSE), says("Hi")])

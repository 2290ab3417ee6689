"""Model calls that are sent again after a failure, or to a fallback model."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from agent_core.errors import Code, ModelError
from agent_core.models.base import Model, ModelRequest, Piece, Retries
from agent_core.models.http import HttpClient


async def stream_with_retries(
    model: Model,
    request: ModelRequest,
    http: HttpClient,
    retries: Retries,
    on_retry: Callable[[Code, int, float], None],
) -> AsyncGenerator[Piece, None]:
    """Yield the pieces of the call. Send it again if it fails before its first piece.

    Sends again only after a retryable ModelError, up to `retries.attempts` times. Calls `on_retry(code, attempt,
    delay)` before each wait: `attempt` counts from 1, `delay` is in seconds. Raises the last ModelError; at once if the
    provider asks for a wait over `retries.longest`.
    """
    attempt = 0
    while True:
        begun = False
        try:
            async with aclosing(model.stream(request, http)) as pieces:
                async for piece in pieces:
                    begun = True
                    yield piece
            return
        except ModelError as error:
            attempt += 1
            delay = _delay(error, attempt, retries)
            if begun or delay is None:
                raise
            on_retry(error.code, attempt, delay)
        await asyncio.sleep(delay)


async def stream_with_fallback(
    model: Model,
    fallback: Model | None,
    request: ModelRequest,
    http: HttpClient,
    retries: Retries,
    on_retry: Callable[[Code, int, float], None],
    on_fallback: Callable[[Code], None],
) -> AsyncGenerator[Piece, None]:
    """Yield the pieces of the model's call, with retries. If it still fails before its first piece, call the fallback.

    Calls `on_fallback(code)` first. The fallback is called once, after any ModelError: also if the conversation is too
    long for the model. Raises ModelError.
    """
    begun = False
    try:
        async with aclosing(stream_with_retries(model, request, http, retries, on_retry)) as pieces:
            async for piece in pieces:
                begun = True
                yield piece
        return
    except ModelError as error:
        if begun or fallback is None:
            raise
        on_fallback(error.code)
    async with aclosing(fallback.stream(request, http)) as pieces:
        async for piece in pieces:
            yield piece


def _delay(error: ModelError, attempt: int, retries: Retries) -> float | None:
    """Seconds to wait before this attempt, or None to give up."""
    if attempt > retries.attempts or not error.retryable:
        return None
    if error.status is not None and error.status not in retries.statuses:
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= retries.longest else None
    # Half of the wait is random, so that calls which failed together do not come back together.
    return min(retries.first * 2.0 ** (attempt - 1), retries.longest) * random.uniform(0.5, 1.0)

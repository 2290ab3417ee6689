"""Bounds the silence of a model, with a clock that runs only while somebody waits for its answer."""

import asyncio
from collections.abc import Awaitable
from time import monotonic
from typing import Any, TypeVar

from agent_core.errors import ModelError

T = TypeVar("T")


class IdleWatch:
    """Ends a wait inside `with watch:` when no data has come for `idle` seconds. Enter and leave it in the same task.

    Such a call is not sent again, because its client has waited so long already.

    One timer serves a whole answer. It is not moved with each chunk: when it fires, it looks at the time of the last
    one. `rest` stops the clock while the consumer works, because that may be slower than the provider. `start` starts
    it again.
    """

    __slots__ = ("_cancelling", "_expired", "_handle", "_idle", "_loop", "_since", "_task")

    def __init__(self, idle: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle = idle
        self._since: float | None = None
        self._handle: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._expired = False

    def start(self) -> None:
        """Start the clock from zero."""
        self._since = monotonic()
        if self._handle is None:
            self._handle = self._loop.call_later(self._idle, self._look)

    def rest(self) -> None:
        self._since = None

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancelling = self._task.cancelling()
        self.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.rest()
        if not self._expired or self._task is None or kind is not asyncio.CancelledError:
            return
        # If a cancel from outside came too, it goes on: the task counts its cancels.
        if self._task.uncancel() <= self._cancelling:
            raise ModelError("model_timeout", detail=f"no data for {self._idle:g} s") from None

    async def wait(self, awaitable: Awaitable[T]) -> T:
        """The awaitable's result. Raises ModelError model_timeout if the time is over before it comes."""
        with self:
            return await awaitable

    def _look(self) -> None:
        self._handle = None
        if self._since is None or self._task is None:
            return
        left = self._since + self._idle - monotonic()
        if left <= 0:
            self._expired = True
            self._task.cancel()
        else:
            self._handle = self._loop.call_later(left, self._look)

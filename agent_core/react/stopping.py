"""How a run is stopped: by its user, a client that left, its deadline, or the server's end.

A run has one task of its own, and child tasks: one for the current model call, one for each tool call. A stop cancels
the children. It never cancels the run's own task, since that one still has work to do: pair the open calls, store what
has come, and release the session. A cancelled task would fail at its first `await`, and leave all of that undone.

A request to stop works in two ways, because it may come at any moment:

- Children that run are cancelled at once.
- `reason` stays set, so that the next checkpoint raises Stopped before anything new begins.

The first reason stands. A deadline behind a user's stop changes nothing, so the run ends as its user was told.

Cancelling is a request, and a child may ignore it. A tool may catch CancelledError, or clean up for minutes. So nobody
waits for the child itself. `guard` waits for a future beside it, which is released when the child ends, when the time
limit is over, or GRACE after the cancel. A child that is still at work then is left behind in `orphans`. Whoever owns
that set waits for it when the engine closes. asyncio's own `timeout` would not do: it waits for the clean-up.

Three ends look alike from outside and are told apart here:

- the run was stopped: Stopped, also if the child's clean-up raised something else
- the time limit is over: TimeoutError. A TimeoutError of the child's own must be caught inside it
- the child cancelled itself, for instance by a cancel scope that leaked: SelfCancelled, which is the tool's failure and
  no stop of the run
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal, TypeVar

T = TypeVar("T")

StopReason = Literal["interrupt", "disconnect", "deadline", "draining", "lost"]

GRACE = 0.5
"""Seconds that a cancelled child may take to clean up before the run goes on without it."""


class Stopped(Exception):  # control flow: it passes every handler that makes errors into results
    """The run was stopped; raised at its next checkpoint or out of the call that was cancelled."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason: StopReason = reason


class SelfCancelled(Exception):
    """The guarded work cancelled itself; nobody had asked for it."""


class Stop:
    """One run's stop, and the child tasks that it would cancel. The first reason stands.

    `orphans` takes the children that are still cleaning up when the run goes on without them; whoever
    owns it waits for them at the end.
    """

    __slots__ = ("_guarded", "_orphans", "reason")

    def __init__(self, orphans: "set[asyncio.Task[Any]] | None" = None) -> None:
        self.reason: StopReason | None = None
        self._guarded: dict[asyncio.Task[Any], asyncio.Future[None]] = {}
        self._orphans = orphans if orphans is not None else set()

    def request(self, reason: StopReason) -> bool:
        """Stop the run. False if it was stopped already."""
        if self.reason is not None:
            return False
        self.reason = reason
        for child, waiter in self._guarded.items():
            child.cancel()
            asyncio.get_running_loop().call_later(GRACE, _release, waiter)
        return True

    def check(self) -> None:
        """Raise Stopped if a stop was requested."""
        if self.reason is not None:
            raise Stopped(self.reason)

    async def guard(self, work: Coroutine[Any, Any, T], limit: float | None = None) -> T:
        """Carry the work out in a child task that a stop cancels. Several tasks of a run may do so at once.

        Raises Stopped; SelfCancelled; TimeoutError after `limit` seconds, without waiting for the work's clean-up; and
        what the work raises.
        """
        try:
            self.check()
        except Stopped:
            work.close()
            raise
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        child = loop.create_task(work)
        self._guarded[child] = waiter
        child.add_done_callback(lambda _: _release(waiter))
        timer = loop.call_later(limit, _release, waiter) if limit is not None else None
        try:
            await waiter
        except asyncio.CancelledError:  # the run's own task: somebody broke the rule, or the loop ends
            child.cancel()
            raise
        finally:
            del self._guarded[child]
            if timer is not None:
                timer.cancel()
        if not child.done():
            self._leave_behind(child)
            if self.reason is not None:
                raise Stopped(self.reason)
            raise TimeoutError
        if self.reason is not None and (child.cancelled() or child.exception() is not None):
            raise Stopped(self.reason)  # an error of the clean-up no longer matters
        if child.cancelled():
            raise SelfCancelled  # and never a cancel of the run's own task
        return child.result()

    def _leave_behind(self, child: asyncio.Task[Any]) -> None:
        self._orphans.add(child)
        child.add_done_callback(self._forget)
        child.cancel()

    def _forget(self, child: asyncio.Task[Any]) -> None:
        self._orphans.discard(child)
        if not child.cancelled():
            child.exception()  # nobody waits for it any more; do not report it as never retrieved


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)

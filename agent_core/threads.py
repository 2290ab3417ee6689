"""The threads in which synchronous tools run: a few for all, and more only while some hang.

A thread cannot be stopped from outside. If a call's time limit is over, or its run was stopped, its thread stays busy
until the tool ends. Such a thread hangs. It no longer counts against the usual number of threads, so tools that hang
do not stop everybody's tools.

Two things are bounded: all threads together, and the threads of one session, both with those that hang. A call without
a thread waits and can be cancelled. The waiting sessions take turns.
"""

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

logger = logging.getLogger(__name__)

THREADS, MOST_THREADS = 32, 256
"""Calls that can run at once, without those that hang; and threads at most, with them."""

SESSION_THREADS = 8
"""Calls of one session that can have threads at once, with those that hang."""

IDLE_SECONDS = 10.0
"""How long a thread waits for another call before it ends."""

P = ParamSpec("P")
R = TypeVar("R")


class Threads:
    """The threads of one engine. Every method may be called from any thread."""

    def __init__(self, *, usual: int = THREADS, most: int = MOST_THREADS, idle: float = IDLE_SECONDS) -> None:
        self._usual, self._most, self._idle_seconds = usual, most, idle
        self._lock = threading.Lock()
        self._waiting: OrderedDict[Hashable, deque[_Call]] = OrderedDict()
        self._running: dict[Hashable, int] = {}
        self._busy = self._hanging = 0
        self._idle: list[SimpleQueue[_Call | None]] = []
        self._closed = False

    def of(self, session: Hashable) -> "SessionThreads":
        """The threads as one session may use them."""
        return SessionThreads(self, session)

    @property
    def size(self) -> int:
        """How many threads there are."""
        with self._lock:
            return self._busy + len(self._idle)

    @property
    def hanging(self) -> int:
        """How many threads are busy with a call that nobody waits for any more."""
        return self._hanging

    def close(self) -> None:
        """Begin no more calls, and cancel those that wait. Does not wait for calls that run or hang: their threads end
        with them, or with the process."""
        with self._lock:
            self._closed = True
            waiting = [call for calls in self._waiting.values() for call in calls]
            idle, self._idle = self._idle, []
        for inbox in idle:
            inbox.put(None)
        for call in waiting:
            call.cancel()

    def submit(self, call: "_Call") -> None:
        """Put the call in its session's queue. Raises RuntimeError after `close`."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the engine is closed: no tool can begin")
            self._waiting.setdefault(call.session, deque()).append(call)
            self._begin_all()

    def gave_up(self, call: "_Call") -> None:
        """Nobody waits for the call any more. It leaves the queue, or its thread hangs from now on."""
        with self._lock:
            if call.begun and not call.over and not call.hangs:
                call.hangs = True
                self._hanging += 1
                self._begin_all()
            elif not call.begun and (calls := self._waiting.get(call.session)) and call in calls:
                calls.remove(call)
                if not calls:
                    del self._waiting[call.session]

    def _begin_all(self) -> None:
        """Begin as many calls as may run. The caller holds the lock."""
        while (call := self._next()) is not None:
            if self._idle:
                self._idle.pop().put(call)
            else:
                threading.Thread(target=self._work, args=(call,), name="tool", daemon=True).start()

    def _next(self) -> "_Call | None":
        """Take the next call that may begin, from the session whose turn it is. The caller holds the lock."""
        if self._busy >= min(self._most, self._usual + self._hanging):
            return None
        session = next((each for each in self._waiting if self._running.get(each, 0) < SESSION_THREADS), None)
        if session is None:
            return None
        calls = self._waiting[session]
        call = calls.popleft()
        if calls:
            self._waiting.move_to_end(session)
        else:
            del self._waiting[session]
        call.begun = True
        self._busy += 1
        self._running[session] = self._running.get(session, 0) + 1
        return call

    def _work(self, call: "_Call | None") -> None:
        """The life of a thread: one call after another, until there is none for a while."""
        while call is not None:
            call.carry_out()
            inbox = self._done(call)
            call = None if inbox is None else self._wait(inbox)

    def _done(self, call: "_Call") -> "SimpleQueue[_Call | None] | None":
        """The call is over. Returns the inbox for the thread's next call, or None if there are enough other threads."""
        with self._lock:
            call.over = True
            self._busy -= 1
            self._hanging -= call.hangs
            left = self._running[call.session] - 1
            if left:
                self._running[call.session] = left
            else:
                del self._running[call.session]
            inbox: SimpleQueue[_Call | None] | None = None
            if not self._closed and self._busy + len(self._idle) < self._usual:
                inbox = SimpleQueue()
                self._idle.append(inbox)
            self._begin_all()
            return inbox

    def _wait(self, inbox: "SimpleQueue[_Call | None]") -> "_Call | None":
        try:
            return inbox.get(timeout=self._idle_seconds)
        except Empty:
            with self._lock:
                if inbox in self._idle:
                    self._idle.remove(inbox)
                    return None
            return inbox.get()  # it was given one in the meantime


@dataclass(frozen=True, slots=True)
class SessionThreads:
    """The threads as one session may use them."""

    threads: Threads
    session: Hashable

    def of(self, tool: str) -> "ToolThreads":
        """The threads for one call of a tool."""
        return ToolThreads(self.threads, self.session, tool)


class ToolThreads(Executor):
    """The threads for one call of a tool, as `concurrent.futures` has them."""

    def __init__(self, threads: Threads, session: Hashable, tool: str) -> None:
        self._threads = threads
        self._session = session
        self._tool = tool
        self._calls: list[_Call] = []

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Call the function in a thread, as soon as one is free. Raises RuntimeError after the engine has closed."""
        call = _Call(self._threads, self._session, lambda: fn(*args, **kwargs))
        self._calls.append(call)
        self._threads.submit(call)
        return call

    def warn(self) -> None:
        """Log a warning if the tool still has a thread, though its time is over."""
        if any(call.begun and not call.over for call in self._calls):
            logger.warning(
                "tool %s ran out of its time and still occupies its thread; it should look at context.cancelled",
                self._tool,
            )

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: the threads are the engine's."""


@dataclass(eq=False, repr=False)
class _Call(Future[Any]):
    threads: Threads
    session: Hashable
    function: Callable[[], Any] | None
    begun: bool = field(default=False, init=False)
    over: bool = field(default=False, init=False)
    hangs: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        super().__init__()

    def cancel(self) -> bool:
        """As every future's. A call that runs goes on, but its thread counts as hanging."""
        cancelled = super().cancel()
        self.threads.gave_up(self)
        return cancelled

    def carry_out(self) -> None:
        """Run the function, in a thread of its own."""
        function, self.function = self.function, None
        if function is None or not self.set_running_or_notify_cancel():
            return
        try:
            result = function()
        except BaseException as error:  # whoever waits is told all that a tool raises
            self.set_exception(error)
        else:
            self.set_result(result)

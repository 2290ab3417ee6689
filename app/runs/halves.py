"""Conversations of clients that name no session, where the client does not have all of it.

An OpenAI client never sees the results of the server's tools, so where one answer asks for server and
client tools together, the transcript that it sends back lacks half of what happened. That half is kept for
an hour, and whoever brings the answer to one of its calls goes on with it, as often as it takes until a run
of it has ended well.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Any

from agent_core.messages import Message
from agent_core.react.pairing import open_calls
from agent_core.react.run import Run

KEPT = 3600.0
"""Seconds."""

MOST = 10_000
"""Halves that are kept at the same time; the oldest go first."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Half:
    """The conversation as it stood when it was left to the client: the calls that wait, all messages, and the
    session's state."""

    call_ids: tuple[str, ...]
    messages: tuple[Message, ...]
    state: Any = None


def half_of(run: Run) -> Half | None:
    """What the run leaves to its client, None where the client can bring all of it itself: not the server's own
    calls and results, nor its calls that were refused here, nor what a guard has said beside a result, nor members
    that a provider wants back on a call; and hardly any client replays thinking."""
    messages = run.history.messages
    if not any(_is_hidden(message, run) for message in messages):
        return None
    ids = tuple(call.id for call in open_calls(messages))
    return Half(call_ids=ids, messages=tuple(messages), state=run.history.state)


def _is_hidden(message: Message, run: Run) -> bool:
    if message.role == "tool":
        return message.name in run.tools or bool(message.error or message.noted)
    return bool(message.tool_calls) and (bool(message.thoughts) or any(call.extra for call in message.tool_calls))


class Halves:
    """The halves of all users. `forget(user_id, session_id)` drops what the engine has of an unnamed session."""

    def __init__(self, forget: Callable[[str, str], None], *, now: Callable[[], float] = monotonic) -> None:
        self._forget = forget
        self._now = now
        self._until: dict[tuple[str, Half], float] = {}  # the oldest first
        self._by_call: dict[tuple[str, str], Half] = {}

    def __len__(self) -> int:
        return len(self._until)

    def keep(self, user_id: str, session_id: str, half: Half | None) -> None:
        """A run of this unnamed session left calls to the client: the session itself is not needed any more."""
        self._forget(user_id, session_id)
        if half is not None:
            self._until[user_id, half] = self._now() + KEPT
            self._by_call.update({(user_id, call_id): half for call_id in half.call_ids})
        self._tidy()

    def find(self, user_id: str, call_ids: Iterable[str]) -> Half | None:
        """The half in which one of these calls waits."""
        self._tidy()
        found = (self._by_call.get((user_id, call_id)) for call_id in call_ids)
        return next((half for half in found if half is not None), None)

    def drop(self, user_id: str, half: Half) -> None:
        """The conversation went on, and will not come back to here."""
        self._until.pop((user_id, half), None)
        for call_id in half.call_ids:
            if self._by_call.get((user_id, call_id)) is half:
                del self._by_call[user_id, call_id]

    def _tidy(self) -> None:
        while self._until:
            (user_id, half), until = next(iter(self._until.items()))
            if until > self._now() and len(self._until) <= MOST:
                return
            self.drop(user_id, half)

"""Conversations without a session of which the client does not have everything.

An OpenAI client never sees the calls and results of the server's tools. If one answer asks for server and client tools
together, the transcript that comes back lacks half of what happened. If a budget was used up and the user says
"continue", it lacks what was found so far. That part, the hidden turn, is kept in the store for an hour.

A request that answers one of its calls goes on with it. After a closing answer it is found by everything that the
client was shown, never by that answer alone: users without a key share a name, and the text that stands in for a
missing answer is always the same. Of equal conversations of one user with one agent, the last counts.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import orjson

from agent_core.messages import MediaPart, Message
from agent_core.run import Run
from agent_core.sessions.records import Records

KEPT = 3600.0
"""Seconds that a hidden turn is kept."""


class HiddenTurn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The conversation when it was left to the client: all messages, and the session's state."""

    messages: tuple[Message, ...]
    state: Any = None


class _Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A hidden turn, or the other name under which it is kept."""

    hidden: HiddenTurn | None = msgspec.field(default=None, name="half")  # its name in records of earlier versions
    at: str = ""


def hidden_turn_of(run: Run) -> HiddenTurn | None:
    """The run's hidden turn, or None if the client can send all of it back.

    A client cannot send back the server's own calls and results, calls that were refused here, a guard's note in a
    result, or members that a provider wants back with a call. Hardly any client sends thinking back.
    """
    messages = run.messages
    hidden = any(_is_hidden(message, run) for message in messages)
    return HiddenTurn(messages=messages, state=run.state) if hidden else None


def left_of(run: Run) -> HiddenTurn:
    """The work of a stopped run, without the unfinished answer at its end. The next run gives that answer again."""
    messages = run.messages
    last = max((at for at, each in enumerate(messages) if each.role != "assistant" or each.tool_calls), default=-1)
    return HiddenTurn(messages=messages[: last + 1], state=run.state)


def _is_hidden(message: Message, run: Run) -> bool:
    if message.role == "tool":
        return run.has_tool(message.name or "") or bool(message.error or message.noted)
    return bool(message.tool_calls) and (bool(message.thoughts) or any(call.extra for call in message.tool_calls))


def names_of_calls(call_ids: Iterable[str]) -> list[str]:
    """The names of the turn in which these calls wait."""
    return [f"call:{hashlib.sha256(call_id.encode()).hexdigest()}" for call_id in call_ids]


def name_of_talk(agent: str, shown: Iterable[Message]) -> str:
    """The name of the turn of which the client was shown these messages.

    Only their roles and contents count, and no white space, which some clients trim.
    """
    digest = hashlib.sha256(orjson.dumps(agent))
    for message in shown:
        parts = () if isinstance(message.content, str) else message.content
        media = [part.value for part in parts if isinstance(part, MediaPart)]
        digest.update(orjson.dumps([message.role, " ".join(message.text.split()), *media]))
    return f"talk:{digest.hexdigest()}"


class HiddenTurns:
    """The hidden turns of all users."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def keep(self, user_id: str, hidden: HiddenTurn, names: Sequence[str]) -> None:
        """Keep the turn under these names. Raises RunError `store_unavailable`."""
        for number, name in enumerate(names):
            kept = _Kept(at=names[0]) if number else _Kept(hidden=hidden)
            await self._records.keep(user_id, name, msgspec.json.encode(kept), seconds=KEPT)

    async def find(self, user_id: str, names: Sequence[str]) -> HiddenTurn | None:
        """The turn under one of these names, or None. Raises RunError `store_unavailable`."""
        found = await self._records.recall(user_id, names)
        for record in found.values():
            kept = msgspec.json.decode(record.value, type=_Kept)
            if kept.hidden is None:
                return await self.find(user_id, [kept.at])
            return kept.hidden
        return None

"""Sessions written by hand, for tests of the folds of their entries."""

from collections.abc import Sequence

from msgspec.structs import replace

from agent_core.messages import Message, ToolCall
from agent_core.pairing import result_of
from agent_core.sessions.entries import Entry, body_of, copied
from tests.entries import message_entry

CALL = ToolCall(id="c1", name="look_up", arguments='{"word":"a"}')
OTHER = ToolCall(id="c2", name="look_up")


def numbered(*entries: Entry) -> list[Entry]:
    return [replace(entry, seq=seq) for seq, entry in enumerate(entries, start=1)]


def user(message_id: str, text: str = "hi", *, agent: str = "a", run: str = "r1") -> Entry:
    return message_entry(run, agent, Message(id=message_id, role="user", content=text))


def said(message_id: str, text: str = "ho", *calls: ToolCall, agent: str = "a", run: str = "r1") -> Entry:
    return message_entry(run, agent, Message(id=message_id, role="assistant", content=text, tool_calls=calls))


def answered(call: ToolCall, message_id: str, *, agent: str = "a", run: str = "r1") -> Entry:
    return message_entry(run, agent, result_of(call, "ok", "found", message_id=message_id))


def marked(entries: Sequence[Entry]) -> list[Entry]:
    """The entries as they stand in a copy of their session."""
    return [copied(entry, body_of(entry)) for entry in entries]


def kinds_of(entries: Sequence[Entry]) -> list[str]:
    return [entry.kind for entry in entries]

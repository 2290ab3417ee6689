"""A conversation that a client brings to an agent which has no history in the session yet."""

from collections.abc import Container, Iterable, Mapping, Sequence

from msgspec.structs import replace

from agent_core.messages import Message, ToolCall, new_id
from agent_core.react.opening.placing import RULES
from agent_core.react.opening.request import Intake
from agent_core.react.pairing import result_of

CUT_TITLE = 60
"""Characters of a session's title that is cut from its first message."""


def take_whole(messages: Sequence[Message], server_tools: Container[str]) -> Intake:
    """The conversation as it is, tool calls and results included; nothing in it is carried out."""
    taken = adopted(messages, server_tools)
    return Intake(messages=taken, opens=_asks(taken), says=bool(taken), origin="adopted")


def take_over(messages: Sequence[Message], others: Mapping[str, Message]) -> Intake:
    """What the user has said, and the texts of the answers; what other agents of the session have, as they have it.
    Where there is nothing to answer in it, it is not taken at all."""
    taken: dict[str, Message] = {}
    for message in messages:
        known = others.get(message.id, message)
        if known.role == "assistant" and known.text:
            taken.setdefault(known.id, Message(id=known.id, role="assistant", content=known.text))
        elif known.role not in ("assistant", "tool"):
            taken.setdefault(known.id, known)
    last = next((each for each in reversed(messages) if each.role not in RULES), None)
    if not _asks(taken.values()) or last is None or (last.role == "assistant" and last.id in taken):
        return Intake(told=True)
    return Intake(messages=list(taken.values()), opens=True, says=True)


def _asks(messages: Iterable[Message]) -> bool:
    return any(message.role == "user" for message in messages)


def adopted(messages: Sequence[Message], server_tools: Container[str]) -> list[Message]:
    """A conversation that a client brings, fit to be a history in which nothing is left to be carried out.

    Each call has its result right behind it; one that has none was not run. Only at the very end calls may be
    open, those of the client's own tools. A call's id that comes again is made another one, since an id is
    unique in a session. A result without its call is left out, and of two messages with one id the last counts.
    """
    taken: set[str] = set()
    kept: list[Message] = []
    waiting: dict[str, ToolCall] = {}

    def settle() -> None:
        kept.extend(
            result_of(call, "not_run", "The conversation went on without a result.") for call in waiting.values()
        )
        waiting.clear()

    for message in {message.id: message for message in messages}.values():
        if message.role == "tool":
            call = waiting.pop(message.tool_call_id or "", None)
            if call is not None:
                kept.append(replace(message, tool_call_id=call.id, name=call.name))
            continue
        settle()
        for call in message.tool_calls:
            fresh = call if call.id not in taken else replace(call, id=new_id("call"))
            taken.add(fresh.id)
            waiting[call.id] = fresh
        kept.append(replace(message, tool_calls=tuple(waiting.values())) if waiting else message)
    waiting = {given: call for given, call in waiting.items() if call.name in server_tools}
    settle()
    return kept


def title_of(messages: Iterable[Message]) -> str:
    """A title cut from the first user message that has a text; empty where there is none."""
    text = next((message.text for message in messages if message.role == "user" and message.text.strip()), "")
    # Printable characters only: a title is shown on one line.
    words = "".join(each if each.isprintable() else " " for each in text[:1000]).split()
    title = " ".join(words)
    if len(title) <= CUT_TITLE:
        return title
    return f"{title[:CUT_TITLE].rsplit(' ', 1)[0].rstrip()[: CUT_TITLE - 1]}…"

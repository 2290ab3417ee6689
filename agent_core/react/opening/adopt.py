"""A conversation that a client brings to an agent without a history in the session."""

from collections.abc import Container, Iterable, Mapping, Sequence
from hashlib import blake2b

from msgspec.structs import replace

from agent_core.messages import Message, ToolCall
from agent_core.pairing import result_of
from agent_core.react.opening.request import Intake
from agent_core.sessions.tree import RULES
from agent_core.shortened import shows

CUT_TITLE = 60
"""Characters of a session's title that is cut from its first message."""


def take_whole(messages: Sequence[Message], server_tools: Container[str]) -> Intake:
    """The conversation as it is, with tool calls and results. Nothing in it is carried out."""
    taken = adopted(messages, server_tools)
    return Intake(messages=taken, opens=_asks(taken), says=bool(taken), origin="adopted")


def take_over(messages: Sequence[Message], others: Mapping[str, Message]) -> Intake:
    """The user's messages, and the texts of the answers. What other agents of the session have is taken from them. A
    conversation with nothing to answer is not taken at all."""
    taken: dict[str, Message] = {}
    ignored: list[tuple[int, Message]] = []
    for at, message in enumerate(messages):
        known = others.get(message.id, message)
        known = known if known.role == message.role else message
        if message.role == "user" and message.id in taken and not shows(message, taken[message.id]):
            ignored.append((at, message))
        if known.role == "assistant" and known.text:
            taken.setdefault(known.id, Message(id=known.id, role="assistant", content=known.text))
        elif known.role not in ("assistant", "tool"):
            taken.setdefault(known.id, known)
    last = next((each for each in reversed(messages) if each.role not in RULES), None)
    if not _asks(taken.values()) or last is None or (last.role == "assistant" and last.id in taken):
        users = ((at, message) for at, message in enumerate(messages) if message.role == "user")
        return Intake(told=True, ignored=tuple(users))
    return Intake(messages=list(taken.values()), opens=True, says=True, ignored=tuple(ignored))


def _asks(messages: Iterable[Message]) -> bool:
    return any(message.role == "user" for message in messages)


def adopted(messages: Sequence[Message], server_tools: Container[str]) -> list[Message]:
    """The conversation as a history in which nothing is left to be carried out.

    - Each call has its result right behind it, also if the user has spoken in between. A call without one was not run.
    - Calls may be open only at the very end, and only those of the client's own tools.
    - A call's id that comes again is replaced, by the same id each time, since an id is unique in a session.
    - A result without its call is left out. Of two messages with one id the last counts.
    """
    given = list({message.id: message for message in messages}.values())
    results = _Results(given)
    spoken = max((place for place, each in enumerate(given) if each.role != "tool"), default=-1)
    taken: dict[str, int] = {}
    kept: list[Message] = []
    for place, message in enumerate(given):
        if message.role == "tool":
            continue
        calls: dict[str, ToolCall] = {}
        for call in message.tool_calls:
            if call.id not in calls:  # an id is one call
                calls[call.id] = replace(call, id=_unique(call.id, taken))
        kept.append(replace(message, tool_calls=tuple(calls.values())) if calls else message)
        for asked, call in calls.items():
            result = results.of(asked, place)
            if result is not None:
                kept.append(replace(result, tool_call_id=call.id, name=call.name))
            elif place < spoken or call.name in server_tools:
                kept.append(result_of(call, "not_run", "The conversation went on without a result."))
    return kept


class _Results:
    """The results in a conversation. Each belongs to the last call of its id in front of it."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._found: dict[tuple[str | None, int], Message] = {}
        asked: dict[str | None, int] = {}
        for place, message in enumerate(messages):
            if message.role == "tool":
                at = asked.get(message.tool_call_id)
                if at is not None:
                    self._found.setdefault((message.tool_call_id, at), message)
            for call in message.tool_calls:
                asked[call.id] = place

    def of(self, call_id: str, asked_at: int) -> Message | None:
        """The first result of the call that the message at this place makes."""
        return self._found.get((call_id, asked_at))


def _unique(call_id: str, taken: dict[str, int]) -> str:
    """The call's id, or one made of it if it is taken. Marks it as taken: `taken` has for each id the last number that
    an id was made of it with, so that none is tried again."""
    unique, number = call_id, taken.get(call_id, 1)
    while unique in taken:
        number += 1
        unique = f"call_{blake2b(f'{number} {call_id}'.encode('utf-8', 'replace'), digest_size=12).hexdigest()}"
    taken[unique] = 1
    taken[call_id] = number
    return unique


def title_of(messages: Iterable[Message]) -> str:
    """A title cut from the first user message that has a text; empty if none has."""
    text = next((message.text for message in messages if message.role == "user" and message.text.strip()), "")
    # Printable characters only: a title is shown on one line.
    text = text[:1000]
    words = (text if text.isprintable() else "".join(each if each.isprintable() else " " for each in text)).split()
    title = " ".join(words)
    if len(title) <= CUT_TITLE:
        return title
    return f"{title[:CUT_TITLE].rsplit(' ', 1)[0].rstrip()[: CUT_TITLE - 1]}…"

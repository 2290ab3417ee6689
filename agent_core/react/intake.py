"""How a run's input joins the session's history: merged by message id.

- A new user, system or developer message is appended.
- A tool message counts only as the answer to a call that waits for the client.
- An assistant message that a client brings executes nothing. Where the agent has no history in this
  session yet (the thread came from elsewhere), its text is taken over, so that the conversation can go on.
- A message whose id is known is a copy of ours and is passed over.
- A transcript of known messages only, from the first one on, that ends on a user message behind which
  the history goes on: the user wants another answer (regenerate), or has changed that message (edit). The
  history is rewound to there. But where that message's run was lost with its worker, or ended while nobody
  was there to see it, the client merely knows less than we do: nothing is rewound.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from agent_core.messages import Message, ToolCall, new_id
from agent_core.react.pairing import open_calls, result_of
from agent_core.sessions.entries import Origin
from agent_core.sessions.history import History

RULES = frozenset({"system", "developer"})
"""Roles of messages that are no part of the conversation's turns."""

CUT_TITLE = 60
"""Characters of a session's title that is cut from its first message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What the input changes. First the history is rewound to the message `rewind` (empty: to its beginning;
    None: not at all), then `messages` are appended in this order. `missed` says that the input asks for an
    answer that is there already and that nobody has seen. `opens` says that a new turn begins with it: the user
    has said something new, or wants another answer; not where an earlier request is gone on with. `origin` says
    where the messages come from."""

    rewind: str | None = None
    messages: list[Message] = field(default_factory=list)
    missed: bool = False
    opens: bool = False
    origin: Origin = ""


def take_in(
    history: History,
    messages: Sequence[Message],
    client_calls: Iterable[ToolCall],
    *,
    whole: bool = False,
    server_tools: Container[str] = (),
    seen: bool = False,
    answers: bool = False,
    decided: bool = False,
) -> Intake:
    """What the input changes; the history itself is left as it is.

    `client_calls` are the open calls that wait for the client. With `whole`, the messages are the
    conversation itself, and an empty history adopts them; `server_tools` are then those that no client may
    call. `seen` says that somebody has read the end of the last run since it ended,
    `answers` that the input has answers to what the session waits for, and `decided` that some of them are new:
    then it goes on, and nothing is ever rewound.
    """
    if whole and not history.messages:
        taken = adopted(messages, server_tools)
        return Intake(messages=taken, opens=_asks(taken), origin="adopted")
    at = None if answers else _asked_again(history, messages)
    if at is None:
        new = merge(history, messages, client_calls)
        if new or decided:
            return Intake(messages=new, opens=_asks(new))
        return _nothing_new(history, () if answers else messages)
    ours, theirs = history.messages[at], messages[-1]
    # Some panels put a system message under a new id in front of each run: it counts, and before the question.
    rules = [each for each in messages if each.role in RULES and each.id not in history.message_ids]
    if ours.content != theirs.content or rules:
        return Intake(rewind=history.messages[at - 1].id if at else "", messages=[*rules, theirs], opens=True)
    if not any(message.role == "user" for message in history.messages[at + 1 :]):
        if history.run is not None and history.run.unread and not seen:
            return Intake(missed=True)
        if history.broken or at == len(history.messages) - 1:
            return Intake()
        if history.run is not None and history.run.status in ("failed", "cancelled"):
            return Intake(rewind=ours.id)  # its turn goes on
    return Intake(rewind=ours.id, opens=True)


def _asks(messages: Iterable[Message]) -> bool:
    return any(message.role == "user" for message in messages)


def _nothing_new(history: History, messages: Sequence[Message]) -> Intake:
    """What an input means that says nothing which is not known: a request that comes again.

    A question that was answered is told its answer again; one whose run failed or was cancelled is asked
    again; what a lost run left, or a call that waits, is gone on with.
    """
    if not history.messages or history.broken or history.messages[-1].role == "user":
        return Intake()
    if history.run is not None and history.run.status in ("failed", "cancelled"):
        last = messages[-1] if messages else None
        asked = next((each for each in reversed(history.messages) if each.role == "user"), None)
        return Intake(rewind=asked.id) if asked and last and last.id == asked.id else Intake()
    tail = history.messages[-1]
    return Intake(missed=tail.role == "assistant" and not tail.tool_calls and history.run is not None)


def _asked_again(history: History, messages: Sequence[Message]) -> int | None:
    """Where in the history the user message stands on which a transcript of known messages ends."""
    said = [message for message in messages if message.role not in RULES]
    first = next((message for message in history.messages if message.role not in RULES), None)
    if not said or first is None or said[0].id != first.id or said[-1] is not messages[-1]:
        return None
    last = said[-1]
    if last.role != "user" or any(message.id not in history.message_ids for message in said):
        return None
    at = next(n for n in reversed(range(len(history.messages))) if history.messages[n].id == last.id)
    return at if history.messages[at].role == "user" else None


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


def merge(history: History, messages: Sequence[Message], client_calls: Iterable[ToolCall]) -> list[Message]:
    """The messages that the input adds, in the order in which they are to be appended.

    The answers to the client's calls come first, in the order of the calls. Where a user message comes
    too, the calls that it leaves unanswered are settled as `not_run`, since the person has moved on. What was
    rewound away does not come back with the transcript of a client that has not heard of it; only as the
    question itself.
    """
    waiting = {call.id: call for call in client_calls}
    answers: dict[str, Message] = {}
    said: list[Message] = []
    seen = set(history.message_ids)
    for message in messages:
        if message.role == "tool":
            call = waiting.get(message.tool_call_id or "")
            if call is not None and call.id not in answers:
                answers[call.id] = _answer(call, message, seen)
        elif message.id not in seen and (history.tree.find(message.id) is None or message is messages[-1]):
            seen.add(message.id)
            if message.role != "assistant":
                said.append(message)
            elif not history.messages and message.text:
                said.append(Message(id=message.id, role="assistant", content=message.text))
    moved_on = any(message.role == "user" for message in said)
    settled: list[Message] = []
    for call in waiting.values():
        if call.id in answers:
            settled.append(answers[call.id])
        elif moved_on:
            settled.append(result_of(call, "not_run", "The user went on without answering this call."))
    return settled + said


def _answer(call: ToolCall, message: Message, seen: set[str]) -> Message:
    message_id = message.id if message.id not in seen else new_id("result")
    seen.add(message_id)
    content = message.content if message.says else "(the client returned nothing)"
    return result_of(call, message.status, content, message_id=message_id)


def waiting_for_client(
    messages: Sequence[Message], server_tools: Iterable[str], ours: Container[str] = ()
) -> tuple[ToolCall, ...]:
    """The open calls at the history's tail that are not this server's to run; `ours` are calls that were, though
    their tool may be gone by now."""
    own = set(server_tools)
    return tuple(call for call in open_calls(messages) if call.name not in own and call.id not in ours)


def title_of(messages: Iterable[Message]) -> str:
    """A title cut from the first user message that has a text; empty where there is none."""
    text = next((message.text for message in messages if message.role == "user" and message.text.strip()), "")
    # Printable characters only: a title is shown on one line.
    words = "".join(each if each.isprintable() else " " for each in text[:1000]).split()
    title = " ".join(words)
    if len(title) <= CUT_TITLE:
        return title
    return f"{title[:CUT_TITLE].rsplit(' ', 1)[0].rstrip()[: CUT_TITLE - 1]}…"
